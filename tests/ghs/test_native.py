"""Compiled C gives what torch gives, and equal bits for shifted maps."""

import ctypes
import importlib.machinery
import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.laws import hard_maps
from shiftproof.ghs import grids
from shiftproof.ghs.backend import find, find_and_sample, native, torch_backend
from shiftproof.ghs.kernel import GHS, GHS_PAPER, Hermite, Kernel, Local
from shiftproof.ghs.matrix import Axis, Plan, make_plan, sampling_matrix
from shiftproof.ghs.pivots import score_patch, score_phase, select_pivot
from shiftproof.invariance import assert_shift_invariant, same_bits
from shiftproof.layers import GHS2d

needs_library = pytest.mark.skipif(native.library is None, reason="the C was not compiled: no compiler")
LAYOUTS = [torch.contiguous_format, torch.channels_last]
KERNELS: list[Kernel] = [GHS, GHS_PAPER, Local(2)]


def plan_for(
    sizes: Sequence[int], counts: Sequence[int], kernel: Kernel = GHS, dtype: torch.dtype = torch.float32
) -> Plan:
    return make_plan(torch.empty(0, dtype=dtype), sizes, counts, [n // 2 for n in sizes], kernel, "periodic")


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_c_is_compiled_where_there_is_a_compiler() -> None:
    """Compiling may fail without a word: then everything below would be skipped."""
    assert native.library is not None


@needs_library
@given(st.data())
def test_c_is_torch_in_float64(data: st.DataObject) -> None:
    """Any sizes, both layouts, sampling and its transpose."""
    draw = data.draw
    batch, channels = draw(st.integers(1, 3)), draw(st.integers(1, 70))
    sizes = draw(st.tuples(st.integers(1, 20), st.integers(1, 40)))
    counts = [draw(st.integers(1, n)) for n in sizes]
    layout, kernel = draw(st.sampled_from(LAYOUTS)), KERNELS[draw(st.integers(0, 2))]
    transpose = draw(st.booleans())
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    shape = counts if transpose else sizes
    x = torch.randn(batch, channels, *shape, generator=generator).contiguous(memory_format=layout)
    pivots = torch.stack([torch.randint(0, n, (batch,), generator=generator) for n in sizes], -1)
    done = native.sample(x, pivots, plan_for(sizes, counts, kernel), transpose)
    run = torch_backend.transpose if transpose else torch_backend.sample
    slow = run(x.double(), pivots, plan_for(sizes, counts, kernel, torch.float64))
    assert done is not None
    assert done.shape == slow.shape
    assert torch.allclose(done.double(), slow, atol=2e-4)


def found(x: torch.Tensor, rule: str = "max", phases: Sequence[int] | None = None) -> tuple[torch.Tensor, list[int]]:
    """The pivots of `native.find`, and which samples it left undecided."""
    result = native.find(x, rule, phases)
    assert result is not None
    pivots, undecided = result
    return pivots, [] if undecided is None else undecided.nonzero()[:, 0].tolist()


@needs_library
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("channels", [1, 3, 16, 37])
def test_find(channels: int, layout: torch.memory_format) -> None:
    """The only maximum; a sample with several, or with NaN, is flagged, and only that one."""
    for sizes in ((1, 1), (3, 5), (32, 32), (7, 40)):
        x = torch.randn(3, channels, *sizes).contiguous(memory_format=layout)
        scores = x.amax(1).flatten(1)
        expected = torch.stack([scores.argmax(1) // sizes[1], scores.argmax(1) % sizes[1]], 1)
        result = native.find(x)
        assert result is not None
        assert result[1] is None  # no sample is undecided
        assert torch.equal(result[0], expected)
        twice = x.clone()
        twice[1, 0, 0, 0] = twice[1, -1, -1, -1] = 9.0
        pivots, undecided = found(twice)
        assert undecided == ([1] if sizes != (1, 1) else [])
        assert torch.equal(pivots[[0, 2]], expected[[0, 2]])
        many = x.clone()
        many[1, :, 0, 0] = 9.0  # in several channels, at one place
        assert not found(many)[1]
        ill = x.clone()
        ill[2, -1, -1, -1] = torch.nan
        assert found(ill)[1] == [2]
        low = torch.full_like(x, -torch.inf)
        low[:, 0, 0, 0] = -3.0
        assert not found(low)[1]


@needs_library
@pytest.mark.parametrize("rule", ["phase", "patch"])
@given(data=st.data())
def test_find_is_the_rule(rule: str, data: st.DataObject) -> None:
    """The score of torch, bit for bit: any sizes, grids and layouts, tied or not, infinities, all magnitudes."""
    draw = data.draw
    batch, channels = draw(st.integers(1, 3)), draw(st.integers(1, 40))
    sizes = draw(st.tuples(st.integers(1, 24), st.integers(1, 40) | st.just(600)))
    if draw(st.booleans()):
        sizes = sizes[1], sizes[0]
    counts = [-(-n // draw(st.integers(1, 4))) for n in sizes]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    x = torch.randn(batch, channels, *sizes, generator=generator).contiguous(
        memory_format=draw(st.sampled_from(LAYOUTS))
    )
    x = (x * 2).round() if draw(st.booleans()) else x
    x *= draw(st.sampled_from([1.0, 1e-42, 1e38, 0.0]))
    if draw(st.booleans()):  # from the smallest to the largest numbers in one map
        x = x.sign() * 10.0 ** x.copysign(torch.ones(())).clamp(-4, 4).mul(10).sub(10)
    x.flatten()[0] = draw(st.sampled_from([1.0, torch.inf, -torch.inf]))
    phases = [grids.phases(m, n) for m, n in zip(sizes, counts)]
    pivots, undecided = found(x, rule, phases)
    scores = (score_phase(x, counts) if rule == "phase" else score_patch(x)).flatten(1)
    alone = (scores == scores.amax(1, keepdim=True)).sum(1) == 1
    assert undecided == (~alone).nonzero()[:, 0].tolist()
    assert torch.equal((pivots[:, 0] * sizes[1] + pivots[:, 1])[alone], scores.argmax(1)[alone])
    x[-1, -1, -1, -1] = torch.nan
    assert batch - 1 in found(x, rule, phases)[1]


@pytest.mark.slow
@needs_library
@pytest.mark.parametrize(("sizes", "stride"), [((2049, 2051), 2), ((5000, 900), (2500, 3)), ((900, 5000), (1, 7))])
@pytest.mark.parametrize("kind", ["largest", "spread", "tied"])
def test_sums_over_planes_of_millions_of_pixels(
    kind: str, sizes: tuple[int, int], stride: int | tuple[int, int]
) -> None:
    """Compiled or not, they are the same whole numbers, as long as the law asks: on every shifted copy."""
    layer = GHS2d(stride)
    x = torch.randn(1, 1, *sizes)
    if kind == "largest":  # all sums as large as they can be, but for one
        x = torch.ones(1, 1, *sizes)
        x[0, 0, 700, 800] = 1 + 2.0**-20
    elif kind == "spread":
        x = x.sign() * 10.0 ** (x.abs().clamp(max=4) * 9)
    else:
        x = (x * 2).round()
    expected = select_pivot(x, "phase", counts=layer.sampling.counts(sizes))
    assert torch.equal(layer.select(x), expected)
    moved = x.roll((1234, 567), (2, 3))
    assert torch.equal(layer.select(moved), (expected + torch.tensor([1234, 567])) % torch.tensor(sizes))


@needs_library
def test_where_memory_is_short_nothing_is_returned_and_torch_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    x, plan = torch.randn(2, 3, 9, 8), plan_for((9, 8), (5, 4))
    expected, selection = GHS2d(return_selection=True)(x)
    monkeypatch.setattr(native, "_call", lambda *_, **__: 2)
    assert native.find(x) is None
    assert native.find_and_sample(x, plan) is None
    assert native.sample(x, selection, plan) is None
    y, found = GHS2d(return_selection=True)(x)
    assert torch.equal(found, selection)
    assert torch.allclose(y, expected, atol=1e-6)


@needs_library
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 9])
def test_find_and_sample_is_find_then_sample(batch: int, layout: torch.memory_format) -> None:
    """Few samples are worked on together, many are shared out among threads; a tied one is left out."""
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        x = torch.randn(batch, 40, 23, 30).contiguous(memory_format=layout)
        plan = plan_for((23, 30), (12, 15))
        done = native.find_and_sample(x, plan)
        assert done is not None
        out, pivots, undecided = done
        assert undecided is None
        assert torch.equal(pivots, select_pivot(x))
        expected = native.sample(x, pivots, plan)
        assert expected is not None
        assert torch.equal(out, expected)
        assert out.stride() == expected.stride()
        assert out.is_contiguous(memory_format=layout)
        x[-1, 0, 0, 0] = x[-1, 3, 4, 5] = 9.0
        again = native.find_and_sample(x, plan)
        assert again is not None
        assert again[2] is not None
        assert again[2].shape == (batch,)
        assert again[2].nonzero().tolist() == [[batch - 1]]
        assert torch.equal(again[0][:-1], expected[:-1])
    finally:
        torch.set_num_threads(threads)


@needs_library
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rule", native.RULES)
def test_only_undecided_samples_are_searched_again(
    rule: str, layout: torch.memory_format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tied sample and one with NaN among nine: torch sees these two, and the result is torch's own."""
    x = torch.randn(9, 6, 8, 10).contiguous(memory_format=layout)
    x[4] = x[4, :, :4, :5].repeat(1, 2, 2)
    x[7, 2, 3, 3] = torch.nan
    plan, seen = plan_for((8, 10), (4, 5)), []

    def watched(rows: torch.Tensor, *arguments: Any) -> torch.Tensor:
        seen.append(len(rows))
        return select_pivot(rows, *arguments)

    monkeypatch.setattr("shiftproof.ghs.backend.select_pivot", watched)
    out, pivots = find_and_sample(x, plan, rule, "exact")
    assert torch.equal(find(x, rule, "exact", (), plan.counts), pivots)
    assert seen == [2, 2]
    assert torch.equal(pivots, select_pivot(x, rule, counts=plan.counts))
    assert torch.allclose(out, torch_backend.sample(x, pivots, plan), atol=1e-5, equal_nan=True)


@needs_library
@pytest.mark.parametrize("layout", LAYOUTS)
def test_defaults_of_torch_do_not_matter(layout: torch.memory_format) -> None:
    """Memory is made for what the kernels write, on the device they write to."""
    x = torch.rand(2, 3, 9, 8).contiguous(memory_format=layout)
    expected = GHS2d()(x)
    for dtype in (torch.float64, torch.float16):
        torch.set_default_dtype(dtype)
        try:
            assert same_bits(GHS2d()(x), expected)
        finally:
            torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        assert same_bits(GHS2d()(x), expected)
        assert GHS2d(3)(x).device.type == "cpu"  # with bands made just now


@needs_library
def test_maps_whose_memory_holds_the_opposite() -> None:
    x = torch.rand(2, 3, 6, 6)
    assert torch.allclose(GHS2d()(torch._neg_view(x)), GHS2d()(-x), atol=1e-6)


@needs_library
def test_what_comes_out_may_be_written_to() -> None:
    """An activation in place after the layer, as in many networks."""
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    torch.relu_(GHS2d()(x)).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None


STRAY = """
import random, torch
torch.set_num_threads(1)
from shiftproof.ghs.backend import native
from shiftproof.ghs.kernel import GHS
from shiftproof.ghs.matrix import make_plan
assert native.library is not None
for seed in range(400):
    torch.manual_seed(seed)
    draw = random.Random(seed)
    batch, channels = draw.randint(1, 3), draw.choice([1, 2, 3, 5, 15, 17, 31, 33])
    h, w = draw.randint(1, 9), draw.randint(1, 35)
    counts, origin = [draw.randint(1, h), draw.randint(1, w)], [h // 2, w // 2]
    for form in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(batch, channels, h, w).contiguous(memory_format=form)
        plan = make_plan(x, (h, w), counts, origin, GHS, "anchored")
        pivots = torch.stack([torch.randint(0, n, (batch,)) for n in (h, w)], -1)
        native.find_and_sample(x, plan)
        native.find_and_sample(x.round(), plan, "phase")
        native.find(x.round(), "patch")
        native.sample(native.sample(x, pivots, plan), pivots, plan, transpose=True)
"""


@pytest.mark.slow
@needs_library
@pytest.mark.skipif(not shutil.which("gcc") or not sys.platform.startswith("linux"), reason="needs gcc on Linux")
def test_c_stays_inside_its_memory(tmp_path: Path) -> None:
    """It reads whole vectors, also where a map ends in the middle of one: watched by the address sanitizer."""
    package, ours = tmp_path / "shiftproof", Path(native.__file__).parent
    shutil.copytree(ours.parents[1], package, ignore=shutil.ignore_patterns("_native*", "__pycache__", "weights"))
    built = package / "ghs" / "backend" / f"_native{importlib.machinery.EXTENSION_SUFFIXES[0]}"
    flags = ["-O1", "-std=gnu11", "-fopenmp", "-fPIC", "-shared", "-Wno-psabi", "-fsanitize=address"]
    subprocess.run(["gcc", *flags, "-o", built, ours / "native.c"], check=True)
    asked = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    environment = os.environ | {
        "LD_PRELOAD": asked.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": str(tmp_path),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run([sys.executable, "-c", STRAY], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("compiled", [pytest.param(True, marks=needs_library), False])
@pytest.mark.parametrize("channels", [2, 20])
def test_equal_bits_compiled_or_not(
    channels: int, compiled: bool, layout: torch.memory_format, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(native, "library", None)
    for layer in (GHS2d(), GHS2d.paper(), GHS2d(kernel="local(order=2)"), GHS2d((3, 1))):
        for x in hard_maps((5, 18), channels).values():
            assert_shift_invariant(layer, x.contiguous(memory_format=layout), shifts=30)


@needs_library
def test_gradients_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    for layout in LAYOUTS:
        x = torch.randn(3, 24, 9, 12).contiguous(memory_format=layout).requires_grad_()
        g = torch.randn(3, 24, 5, 6)
        fast = torch.autograd.grad(GHS2d()(x), x, g)[0]
        with monkeypatch.context() as without:
            without.setattr(native, "library", None)
            slow = torch.autograd.grad(GHS2d()(x), x, g)[0]
        assert torch.allclose(fast, slow, atol=1e-5)
        assert torch.allclose(fast, torch.autograd.grad(GHS2d()(x.double()), x, g.double())[0], atol=1e-5)


@needs_library
def test_without_memory_the_slow_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 3, 8, 8)
    expected = GHS2d()(x)

    class Full:
        @staticmethod
        def shiftproof_sample(*_: Any) -> int:
            return 2

    selection = GHS2d().select(x)
    g = torch.autograd.grad(GHS2d()(x.requires_grad_()).sum(), x)[0]
    monkeypatch.setattr(native, "library", Full)
    assert torch.allclose(GHS2d()(x), expected, atol=1e-6)
    assert torch.equal(GHS2d().select(x), selection)
    assert torch.allclose(GHS2d()(x, selection), expected, atol=1e-6)
    assert torch.allclose(torch.autograd.grad(GHS2d()(x).sum(), x)[0], g, atol=1e-6)


def test_other_maps_take_the_slow_way() -> None:
    assert not native.fits(torch.zeros(1, 1, 4, 4, dtype=torch.float64))
    assert not native.fits(torch.zeros(1, 1, 4))
    assert not native.fits(torch.zeros(0, 1, 4, 4))
    assert not native.fits(torch.zeros(1, 1, 4, 4, device="meta"))


@given(st.lists(st.booleans(), min_size=1, max_size=9))
def test_window_is_the_shortest_that_holds_all(used: list[bool]) -> None:
    """Against all stretches, around the edge too."""
    size, wanted = len(used), {i for i, here in enumerate(used) if here}
    start, length = native._window(used)
    assert wanted <= {(start + i) % size for i in range(length)}
    shorter = ({(s + i) % size for i in range(length - 1)} for s in range(size))
    assert length == 1 or not any(wanted <= places for places in shorter)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("rows", [4, 16])
@pytest.mark.parametrize("kernel", [GHS, GHS_PAPER])
def test_band_holds_the_matrix(kernel: Hermite, rows: int, transpose: bool) -> None:
    """All of it, but for what a sum in float32 does not show; and of the default it is a narrow one."""
    matrix = torch.from_numpy(sampling_matrix(61, 31, kernel)).float()
    weights, starts = native._band(Axis(matrix), transpose, rows)
    expected = matrix.mT if transpose else matrix
    found = torch.zeros(len(starts) * rows, expected.shape[1])
    for i, row in enumerate(found):
        for tap, weight in enumerate(weights[i // rows, :, i % rows]):
            row[(starts[i // rows] + tap) % len(row)] += weight
    assert (found[: len(expected)] - expected).abs().max() <= 2.0**-22 * matrix.max()
    assert (weights.shape[1] < expected.shape[1]) == (kernel is GHS)


def test_what_is_negligible_is_so_in_its_own_row() -> None:
    matrix = torch.diag(torch.tensor([1.0, 1e-9, 1e-9]))
    weights, _ = native._band(Axis(matrix), False, 4)
    assert weights.count_nonzero() == 3


def test_bands_are_made_once_and_forgotten_with_their_matrix() -> None:
    axis = Axis(torch.randn(3, 5))
    made = native._band(axis, False, 4)
    assert native._band(axis, False, 4) is made
    assert native._band(axis, True, 4) is not made
    kept = weakref.ref(made[0])
    del made, axis
    assert kept() is None


@needs_library
def test_the_library_is_loaded_unless_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six pointers and four numbers, as in native.c."""
    monkeypatch.delenv("SHIFTPROOF_NATIVE", raising=False)
    assert native._load().shiftproof_sample.argtypes == [ctypes.c_void_p] * 6 + [ctypes.c_int] * 4
    monkeypatch.setenv("SHIFTPROOF_NATIVE", "1")
    assert native._load() is not None
    monkeypatch.setenv("SHIFTPROOF_NATIVE", "0")
    assert native._load() is None


def test_a_library_that_cannot_be_loaded_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str) -> None:
        raise OSError("wrong ELF class")

    monkeypatch.setattr(ctypes, "CDLL", broken)
    assert native._load() is None
    monkeypatch.setattr(importlib.machinery, "EXTENSION_SUFFIXES", [".none"])
    assert native._load() is None


def test_c_can_be_switched_off() -> None:
    code = (
        "import torch, shiftproof as sp; from shiftproof.ghs.backend import native; assert native.library is None\n"
        "sp.assert_shift_invariant(sp.GHS2d(), torch.rand(2, 3, 7, 8))"
    )
    environment = os.environ | {"SHIFTPROOF_NATIVE": "0"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_ties_are_broken_alike_compiled_or_not() -> None:
    x = torch.randint(0, 2, (4, 3, 6, 6)).float()
    assert torch.equal(find(x, "max", "exact", (), None), select_pivot(x.double()))
