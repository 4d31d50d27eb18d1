"""The compiled kernels give what the rest of the package gives without them, and keep the law."""

import ctypes
import importlib.machinery
import os
import shutil
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.laws import hard_maps
from shiftproof.ghs import grids
from shiftproof.ghs.backend import native, resample
from shiftproof.ghs.matrix import GHS, GHS_PAPER, Kernel, matrices_for
from shiftproof.ghs.pivots import score_phase, select_pivot
from shiftproof.invariance import assert_shift_invariant, same_bits
from shiftproof.layers import GHS2d

needs_kernels = pytest.mark.skipif(native.library is None, reason="the kernels were not built: no C compiler")
LAYOUTS = [torch.contiguous_format, torch.channels_last]


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_kernels_are_built_where_there_is_a_compiler() -> None:
    """Building them may fail without a word: then everything below would be skipped."""
    assert native.library is not None


@needs_kernels
@given(st.data())
def test_kernel_is_the_definition(data: st.DataObject) -> None:
    """Any sizes, both layouts, both directions, pivots per sample or per channel."""
    draw = data.draw
    batch, channels = draw(st.integers(1, 3)), draw(st.integers(1, 70))
    sizes = draw(st.tuples(st.integers(1, 20), st.integers(1, 40)))
    counts = [draw(st.integers(1, n)) for n in sizes]
    layout = draw(st.sampled_from(LAYOUTS))
    backwards = draw(st.booleans())
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    shape = counts if backwards else sizes
    x = torch.randn(batch, channels, *shape, generator=generator).contiguous(memory_format=layout)
    matrices = matrices_for(torch.empty(1, 1, *sizes), counts, draw(st.sampled_from([GHS, GHS_PAPER])))
    lead = (batch, channels) if draw(st.booleans()) else (batch,)
    pivot = torch.stack([torch.randint(0, n, lead, generator=generator) for n in sizes], -1)
    origin = [n // 2 for n in sizes]
    done = native.sample(x, pivot, origin, matrices, backwards)
    run = resample._adjoint if backwards else resample._forward
    slow = run(x.double(), pivot, origin, [m.double() for m in matrices])
    if done is None:
        assert len(lead) == 2  # pivots per channel, with pixels that lie together
        return
    assert done.shape == slow.shape
    assert torch.allclose(done.double(), slow, atol=2e-4)


@needs_kernels
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("channels", [1, 3, 16, 37])
def test_find(channels: int, layout: torch.memory_format) -> None:
    """The only maximum, or nothing where there are several or a NaN."""
    for sizes in ((1, 1), (3, 5), (32, 32), (7, 40)):
        x = torch.randn(3, channels, *sizes).contiguous(memory_format=layout)
        scores = x.amax(1).flatten(1)
        expected = torch.stack([scores.argmax(1) // sizes[1], scores.argmax(1) % sizes[1]], 1)
        found = native.find(x)
        assert found is not None
        assert torch.equal(found, expected)
        twice = x.clone()
        twice[1, 0, 0, 0] = twice[1, -1, -1, -1] = 9.0
        assert (native.find(twice) is None) == (sizes != (1, 1))
        many = x.clone()
        many[1, :, 0, 0] = 9.0  # in several channels, at one place
        assert native.find(many) is not None
        ill = x.clone()
        ill[2, -1, -1, -1] = torch.nan
        assert native.find(ill) is None
        low = torch.full_like(x, -torch.inf)
        low[:, 0, 0, 0] = -3.0
        assert native.find(low) is not None


@needs_kernels
@given(st.data())
def test_find_phases_is_the_rule(data: st.DataObject) -> None:
    """The rule of `score_phase`, bit for bit: any sizes, grids and layouts, tied or not, infinities, all magnitudes."""
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
    x.flatten()[0] = draw(st.sampled_from([1.0, torch.inf, -torch.inf]))
    found = native.find(x, [grids.phases(m, n) for m, n in zip(sizes, counts)])
    scores = score_phase(x, counts).flatten(1)
    alone = (scores == scores.amax(1, keepdim=True)).sum(1) == 1
    assert (found is not None) == bool(alone.all())
    if found is not None:
        assert torch.equal(found[:, 0] * sizes[1] + found[:, 1], scores.argmax(1))
    x[-1, -1, -1, -1] = torch.nan
    assert native.find(x, [1, 1]) is None


@needs_kernels
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 9])
def test_find_and_sample_is_find_then_sample(batch: int, layout: torch.memory_format) -> None:
    """Few samples are worked on together, many are shared out among threads; nothing where a maximum stands twice."""
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        x = torch.randn(batch, 40, 23, 30).contiguous(memory_format=layout)
        matrices = matrices_for(x, (12, 15))
        done = native.find_and_sample(x, [11, 15], matrices)
        assert done is not None
        out, pivots = done
        assert torch.equal(pivots, select_pivot(x.double()))
        expected = native.sample(x, pivots, [11, 15], matrices)
        assert expected is not None
        assert torch.equal(out, expected)
        assert out.stride() == expected.stride()
        x[-1, 0, 0, 0] = x[-1, 3, 4, 5] = 9.0
        assert native.find_and_sample(x, [11, 15], matrices) is None
    finally:
        torch.set_num_threads(threads)


@needs_kernels
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


@needs_kernels
def test_maps_whose_memory_holds_the_opposite() -> None:
    x = torch.rand(2, 3, 6, 6)
    assert torch.allclose(GHS2d()(torch._neg_view(x)), GHS2d()(-x), atol=1e-6)


@needs_kernels
def test_what_comes_out_may_be_written_to() -> None:
    """An activation in place behind the layer, as in many networks."""
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    torch.relu_(GHS2d()(x)).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None


STRAY = """
import random, torch
torch.set_num_threads(1)
from shiftproof import grids, native, kernels
assert native.library is not None
for seed in range(400):
    torch.manual_seed(seed)
    draw = random.Random(seed)
    batch, channels = draw.randint(1, 3), draw.choice([1, 2, 3, 5, 15, 17, 31, 33])
    h, w = draw.randint(1, 9), draw.randint(1, 35)
    counts, origin = [draw.randint(1, h), draw.randint(1, w)], [h // 2, w // 2]
    for form in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(batch, channels, h, w).contiguous(memory_format=form)
        matrices = kernels.matrices_for(x, counts)
        pivots = torch.stack([torch.randint(0, n, (batch,)) for n in (h, w)], -1)
        native.find_and_sample(x, origin, matrices)
        native.find_and_sample(x, origin, matrices, [grids.phases(h, counts[0]), grids.phases(w, counts[1])])
        native.sample(native.sample(x, pivots, origin, matrices), pivots, origin, matrices, backwards=True)
"""


@pytest.mark.slow
@needs_kernels
@pytest.mark.skipif(not shutil.which("gcc") or not sys.platform.startswith("linux"), reason="needs gcc on Linux")
def test_kernels_stay_inside_their_memory(tmp_path: Path) -> None:
    """They read whole vectors, also where a map ends in the middle of one: watched by the address sanitizer."""
    package = tmp_path / "shiftproof"
    ours = Path(native.__file__).parent
    shutil.copytree(ours, package, ignore=shutil.ignore_patterns("_native*", "__pycache__", "weights"))
    built = package / f"_native{importlib.machinery.EXTENSION_SUFFIXES[0]}"
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
@pytest.mark.parametrize("compiled", [pytest.param(True, marks=needs_kernels), False])
@pytest.mark.parametrize("channels", [2, 20])
def test_law_with_and_without_kernels(
    channels: int, compiled: bool, layout: torch.memory_format, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(native, "library", None)
    for layer in (GHS2d(), GHS2d.paper(), GHS2d(pivot="per-channel"), GHS2d((3, 1))):
        for x in hard_maps((5, 18), channels).values():
            assert_shift_invariant(layer, x.contiguous(memory_format=layout), shifts=30)


@needs_kernels
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


@needs_kernels
def test_without_memory_the_slow_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 3, 8, 8)
    expected = GHS2d()(x)

    class Full:
        @staticmethod
        def shiftproof_sample(*_: Any) -> int:
            return 1

    monkeypatch.setattr(native, "library", Full)
    assert torch.allclose(GHS2d()(x), expected, atol=1e-6)


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


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("rows", [4, 16])
@pytest.mark.parametrize("kernel", [GHS, GHS_PAPER])
def test_band_holds_the_matrix(kernel: Kernel, rows: int, backwards: bool) -> None:
    """All of it, but for what a sum in float32 does not show; and of the default it is a narrow one."""
    (matrix,) = matrices_for(torch.empty(1, 1, 61), [31], kernel)
    weights, starts = native._band(matrix, backwards, rows)
    expected = matrix.mT if backwards else matrix
    found = torch.zeros(len(starts) * rows, expected.shape[1])
    for i, row in enumerate(found):
        for tap, weight in enumerate(weights[i // rows, :, i % rows]):
            row[(starts[i // rows] + tap) % len(row)] += weight
    assert (found[: len(expected)] - expected).abs().max() <= 2.0**-22 * matrix.max()
    assert (weights.shape[1] < expected.shape[1]) == (kernel is GHS)


def test_bands_are_made_once_and_forgotten_with_their_matrix() -> None:
    matrix = torch.randn(3, 5)
    made = native._band(matrix, False, 4)
    assert native._band(matrix, False, 4) is made
    assert native._band(matrix, True, 4) is not made
    kept = weakref.ref(made[0])
    del made, matrix
    assert kept() is None


def test_a_library_that_cannot_be_loaded_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str) -> None:
        raise OSError("wrong ELF class")

    monkeypatch.setattr(ctypes, "CDLL", broken)
    assert native._load() is None
    monkeypatch.setattr(importlib.machinery, "EXTENSION_SUFFIXES", [".none"])
    assert native._load() is None


def test_kernels_can_be_switched_off() -> None:
    code = (
        "import torch, shiftproof as sp; from shiftproof import native; assert native.library is None\n"
        "sp.assert_shift_invariant(sp.GHS2d(), torch.rand(2, 3, 7, 8))"
    )
    environment = {"SHIFTPROOF_NATIVE": "0", "PATH": ""}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_ties_are_broken_alike_with_and_without_kernels() -> None:
    x = torch.randint(0, 2, (4, 3, 6, 6)).float()
    assert torch.equal(select_pivot(x), select_pivot(x.double()))
