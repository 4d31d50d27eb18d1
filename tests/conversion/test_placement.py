"""`placement="before"`: operations keep their stride, and their input is moved to where the method samples."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers import zoo
from helpers.laws import all_shifts
from helpers.tracers import DYNAMIC, quiet, to_onnx
from shiftproof.conversion import ConversionError, conversion_report, convert
from shiftproof.conversion.example import Inputs
from shiftproof.conversion.replacements import MoveToSelection
from shiftproof.conversion.verify import check_stages
from shiftproof.invariance import assert_shift_invariant, same_bits, shift_error
from shiftproof.layers.ghs import GHSBase

pytestmark = quiet
QUICK = {*zoo.OWN, "torchvision:resnet18", "torchvision:mobilenet_v3_small"}
every_network = pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.zoo) for n in zoo.NAMES]
)


def images(batch: int = 2, size: int = 64) -> Tensor:
    return torch.rand(batch, 3, size, size, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def at_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples lie where those of the source lie."""
    monkeypatch.setattr(GHSBase, "start", lambda self, selection, sizes: torch.zeros_like(selection))


@every_network
def test_invariant_at_the_arithmetic_of_the_source(name: str) -> None:
    """Bits with the front, rounding without it, stage by stage; sizes that the stride does not divide; same keys."""
    model, x = zoo.create(name), images()
    new = convert(model, "ghs", placement="before")
    assert_shift_invariant(new, x[:1], shifts=32, batch_size=16)
    report = conversion_report(new)
    assert (report.law, report.placement, report.not_converted) == ("exact-invariant", "before", [])
    assert report.flops_after == report.flops_before or report.size_changed
    assert set(new.state_dict()) == set(model.state_dict())
    bare = convert(model, "ghs", placement="before", front=False)
    assert check_stages(bare, Inputs.of(bare, x)) == []  # type: ignore[arg-type]
    for size in (64,) if name == "plain" else (64, 51):  # its head takes one size
        few = images(1, size)
        with torch.no_grad():
            most = 1e-4 * float(bare(few).abs().max())
        assert shift_error(bare, few, 16).max <= most


@every_network
def test_at_phase_zero_it_is_the_strided_network(name: str, at_zero: None) -> None:
    """The oracle: with the padding kept, the source itself; with circular padding, the source so padded."""
    model, x = zoo.create(name), images()
    with torch.no_grad():
        expected = model(x)
        assert torch.allclose(convert(model, "ghs", padding=None, placement="before")(x), expected, atol=1e-6)
        padded = convert(model, "strided", padding="circular")(x)
        new = convert(model, "ghs", placement="before", front=False, strict=False)(x)
        assert torch.allclose(new, padded, rtol=1e-4, atol=1e-5 * float(padded.abs().max()))


def test_a_network_that_does_not_follow_shifts_is_found(at_zero: None) -> None:
    with pytest.raises(ConversionError, match="as a whole the network is not invariant"):
        convert(zoo.create("pre-activation"), "ghs", placement="before")


@torch.no_grad()
@pytest.mark.parametrize(
    ("method", "antialias", "size"),
    [
        *itertools.product(["ghs"], [False, True], [(12, 12), (11, 12), (9, 7)]),
        *itertools.product(["ghs-paper"], [False], [(12, 12), (11, 12), (9, 7)]),  # whose kernel has no window
        *itertools.product(["aps"], [False, True], [(12, 12)]),  # polyphase splits of other sizes do not move
    ],
)
def test_maps_move_by_whole_samples(method: str, antialias: bool, size: tuple[int, int]) -> None:
    """For every shift, on any size, ties included: the map of a network without a head is a roll of itself."""
    source = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 5, 3, stride=2, padding=1)).double()
    x = torch.rand(1, 2, *size, dtype=torch.float64)
    x[..., :3] = x[..., 3:6] if method != "aps" else x[..., :3]
    new = convert(source.eval(), method, placement="before", antialias=antialias, front=False, example=x)
    reference = new(x)
    assert reference.shape[2:] == tuple(-(-n // 2) for n in size)
    rolls = [reference.roll(shift, (2, 3)) for shift in all_shifts(reference.shape[2:])]
    for shift in all_shifts(size):
        moved = new(x.roll(shift, (2, 3)))
        assert min(float((moved - roll).abs().max()) for roll in rolls) < 1e-12


def test_branches_share_one_move() -> None:
    """A residual block is moved once, with its shortcut: by convolution, by a slice."""
    for name in ("torchvision:resnet18", "pre-activation"):
        new = convert(zoo.create(name), "ghs", placement="before")
        rows = conversion_report(new).replaced
        moves = [m for m in new.modules() if isinstance(m, MoveToSelection)]
        assert len(moves) == len({row.group for row in rows}) < len(rows)
    assert [m.down.anchor for m in moves] == ["stay"] * (len(moves) - 1) + ["center"]


def test_a_map_with_a_border_stays_in_place() -> None:
    """With the padding kept, it moves by less than the stride, and zeros enter beside it."""
    layer = nn.Conv2d(1, 1, 1, stride=3, bias=False)
    nn.init.ones_(layer.weight)
    net = nn.Sequential(layer).eval()
    new = convert(net, "ghs", padding=None, placement="before", example=torch.rand(1, 1, 7, 7))
    x = torch.zeros(1, 1, 7, 7)
    x[0, 0, 5, 4] = 1.0
    assert new(x)[0, 0].tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]  # samples at 2, 5, 8 and 1, 4, 7
    assert conversion_report(new).law == "none"


def test_a_sample_with_nan_has_no_answer() -> None:
    new = convert(zoo.create("pre-activation"), "ghs", placement="before")
    x = images(3)
    expected = new(x)
    x[1, 0, 5, 5] = torch.nan
    out = new(x)
    assert out[1].isnan().all()
    assert same_bits(out[::2], expected[::2])


@torch.no_grad()
def test_antialiasing_filters_the_map_first() -> None:
    """A wave above the output's limit is lost, one below it is kept."""
    layer = nn.Conv2d(1, 1, 1, stride=2, bias=False)
    nn.init.ones_(layer.weight)
    example = torch.rand(1, 1, 16, 16)
    options: dict[str, Any] = {"placement": "before", "example": example, "front": False}
    plain, filtered = (
        convert(nn.Sequential(layer).eval(), kernel="local(order=8)", antialias=a, **options) for a in (False, True)
    )
    i = torch.arange(16.0)
    low, high = (torch.cos(2 * torch.pi * k * i / 16).expand(1, 1, 16, 16).clone() for k in (1, 7))
    assert float(plain(high).abs().max()) > 0.9
    assert float(filtered(high).abs().max()) < 0.02
    assert float(filtered(low).abs().max()) > 0.98


def test_gradients_reach_everything() -> None:
    new = convert(zoo.create("torchvision:resnet18"), "ghs", placement="before").train()
    x = images().requires_grad_()
    new(x).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in (x, *new.parameters()))


@pytest.mark.parametrize("padding", ["circular", None])
def test_exported_and_onnx(padding: str | None, tmp_path: Any) -> None:
    new = convert(zoo.create("pre-activation"), "ghs", padding, placement="before")
    x = images()
    program = torch.export.export(new, (x,), dynamic_shapes=({0: DYNAMIC},))
    with torch.no_grad():
        expected = new(images(3))
        for run in (program.module(), to_onnx(program, x, tmp_path / "model.onnx")):
            out = run(images(3))
            assert torch.allclose(out, expected, atol=1e-4 * float(expected.abs().max()))
            if padding == "circular":
                assert same_bits(run(images(3).roll((7, 30), (2, 3))), out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "lpf", "placement": "before"}, "`placement='before'` needs a method that chooses where samples"),
        ({"method": "lps", "placement": "before"}, "such as 'ghs' or 'aps'"),
        ({"antialias": True}, "`antialias=True` filters maps before operations that keep their stride"),
        ({"placement": "within"}, "`placement` .='within'. must be one of 'after', 'before'"),
        ({"method": "ghs-paper", "placement": "before", "antialias": True}, "needs a kernel with a window"),
    ],
)
def test_wrong_combinations(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        convert(zoo.create("pre-activation"), **options)
