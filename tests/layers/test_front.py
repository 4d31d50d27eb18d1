"""The front of a network: every circular shift enters as the same bits, parts of a pixel too if asked for."""

import functools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import shiftproof as sp
from helpers.laws import TOLERANCE, all_shifts, stir
from shiftproof.ghs.sampler import find_pivot
from shiftproof.invariance import assert_shift_equivariant, assert_shift_invariant, copy_of, same_bits
from shiftproof.layers import RollFirst, RollToPivot, create_downsample, make_front, roll_to_pivot

LAYOUTS = {"contiguous": torch.contiguous_format, "channels last": torch.channels_last}
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@functools.cache
def network(front: bool | None = None) -> Any:
    model = sp.create_model("resnet8", method="ghs", front=front).eval()
    stir(model)
    return model


def picture(batch: int, height: int, width: int, seed: int = 0) -> Tensor:
    """8-bit pictures with a saturated sky."""
    g = torch.Generator().manual_seed(seed)
    x = (torch.rand(batch, 3, height, width, generator=g) * 255).round()
    x[:, :, : height // 3] = 255
    return x / 255


@given(
    dtype=st.sampled_from(DTYPES),
    batch=st.integers(1, 3),
    layout=st.sampled_from(sorted(LAYOUTS)),
    threads=st.integers(1, 2),
    sizes=st.tuples(st.integers(5, 40), st.integers(5, 40)),
    seed=st.integers(0, 2**16),
)
def test_a_network_gives_equal_bits_in_every_dtype_batch_and_layout(
    dtype: torch.dtype, batch: int, layout: str, threads: int, sizes: tuple[int, int], seed: int
) -> None:
    """With the front for every dtype, batch, layout, number of threads and size; without it to rounding."""
    form = LAYOUTS[layout]
    x = picture(batch, *sizes, seed).to(dtype).contiguous(memory_format=form)
    model = network().to(dtype=dtype, memory_format=form)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert_shift_invariant(model, x, shifts=3, seed=seed)
        if dtype.itemsize >= 4:
            bare = network(False).to(dtype=dtype, memory_format=form)
            noise = torch.rand_like(x)  # without flat places, whose near-ties a rounding decides
            assert sp.shift_error(bare, noise, shifts=2, seed=seed).max < 1e3 * TOLERANCE[dtype]
    finally:
        torch.set_num_threads(before)


def test_the_front_is_what_makes_float64_exact() -> None:
    """Convolutions in float64 do not round alike at every position: without the front the last bits change."""
    x = picture(1, 31, 31).double()
    assert not sp.shift_error(network(False).double(), x, shifts=16).exact
    assert sp.shift_error(network().double(), x, shifts=16).exact


def test_only_networks_that_are_invariant_by_themselves_have_one() -> None:
    """By default those of `ghs` with circular padding; on request those of `aps`; never those of `lpf`."""
    assert isinstance(network().front, RollToPivot)
    assert sp.create_model("resnet8", "ghs", padding="zeros").front is None
    assert sp.create_model("resnet8", "aps").front is None
    assert sp.create_model("resnet8", "lpf").front is None
    aps = sp.create_model("resnet8", "aps", front=True).eval()
    assert_shift_invariant(aps, picture(1, 16, 16), shifts=20)
    aligned, inner = make_front(create_downsample("align", 3, inner="lpf"), "circular", subpixel=True)
    assert isinstance(aligned, RollToPivot)
    assert (aligned.pivot_rule, aligned.subpixel) == ("max", True)
    assert type(inner).__name__ == "BlurPool"
    for arguments, message in [
        ({"method": "lpf", "front": True}, "`front=True` needs .* use a method that does, or `method='align'`"),
        ({"method": "strided", "subpixel": True}, "`subpixel=True` needs a network that is invariant"),
        ({"padding": "zeros", "front": True}, "padding 'zeros' does not move with the picture: use `padding='circul"),
        ({"front": False, "subpixel": True}, "leave `front=False` out"),
    ]:
        with pytest.raises(ValueError, match=message):
            sp.create_model("resnet8", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("rule", ["patch", "max"])
def test_the_layer_is_its_function_and_moves_bits(ndim: int, rule: str) -> None:
    x = torch.randn(2, 3, *(7, 6, 5)[:ndim])
    layer = RollToPivot(rule, ndim=ndim)
    assert same_bits(layer(x), roll_to_pivot(x, find_pivot(x, rule=rule), ndim=ndim))
    assert same_bits(layer(x).flatten(2).sort().values, x.flatten(2).sort().values)
    assert_shift_invariant(layer, x)


def test_ties_plateaus_and_nan_in_the_front() -> None:
    """Flat, periodic and binary pictures are rolled to equal bits; a sample with NaN is NaN, others are not."""
    x = torch.zeros(4, 3, 6, 8)
    x[1] = (torch.rand(3, 6, 8) > 0.5).float()
    x[2, :, ::2, ::4] = 1
    x[3, 1, 2, 3] = torch.nan
    assert_shift_invariant(RollToPivot(), x)
    assert RollToPivot()(x).isnan().flatten(1).any(1).tolist() == [False, False, False, True]
    assert RollToPivot()(x)[3].isnan().all()
    infinite = torch.rand(2, 3, 5, 5)
    infinite[0, 0, 1, 1] = torch.inf
    infinite[1] = -torch.inf
    assert_shift_invariant(RollToPivot(), infinite)


def test_maps_are_rolled_back() -> None:
    """Maps of the size of the input move with it bit for bit, smaller ones by whole steps; vectors stay."""

    class Answers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")

        def forward(self, x: Tensor) -> dict[str, Any]:
            y = self.conv(x)
            return {"map": y, "vector": y.mean((2, 3)), "more": [y[:, :1], nn.functional.avg_pool2d(y, 2)]}

    model = RollFirst(Answers().double())
    x = torch.randn(1, 3, 12, 10, dtype=torch.float64)
    y = model(x)
    for shift in all_shifts((12, 10)):
        z = model(x.roll(shift, (2, 3)))
        assert same_bits(z["map"], y["map"].roll(shift, (2, 3)))
        assert same_bits(z["more"][0], y["more"][0].roll(shift, (2, 3)))
        assert same_bits(z["vector"], y["vector"])
    assert_shift_equivariant(lambda t: model(t)["more"][1], x)
    assert torch.allclose(model.network(x)["map"], y["map"])


def test_gradients_pass_through_the_front() -> None:
    x = torch.randn(2, 1, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(RollToPivot(), x)
    assert torch.autograd.gradcheck(RollToPivot(subpixel=True), x)


def test_the_front_is_compiled_and_exported() -> None:
    x = picture(2, 9, 12)
    front = RollToPivot()
    assert same_bits(torch.compile(front, fullgraph=True, backend="aot_eager")(x), front(x))
    program = torch.export.export(front, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)).module()
    assert same_bits(program(torch.cat([x, x])), front(torch.cat([x, x])))
    assert same_bits(torch.func.vmap(lambda t: front(t[None])[0])(x), front(x))


def test_whole_pixels_still_give_equal_bits() -> None:
    for x in (picture(2, 9, 8), picture(1, 12, 7).double()):
        assert_shift_invariant(RollToPivot(subpixel=True), x)


def test_a_network_ignores_parts_of_a_pixel() -> None:
    """The logits of our own networks and of converted ones change by rounding only; without it by much more."""
    x = picture(2, 32, 32)
    model = sp.create_model("resnet8", "ghs", subpixel=True).eval()
    stir(model)
    source = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    converted = sp.convert(source, "ghs", subpixel=True)
    for exact, rough in ((model, network()), (converted, sp.convert(source, "ghs"))):
        error = sp.shift_error(exact, x, [(0.5, 0.5), (3.25, -7.1)], "fractional")
        assert error.max < 1e-4 * sp.shift_error(rough.float(), x, [(0.5, 0.5), (3.25, -7.1)], "fractional").max
        assert_shift_invariant(exact, x, shifts=4)


# what a tensor is called does not matter


class Named(Tensor):
    """A tensor with another name, such as an image of torchvision."""


@pytest.mark.parametrize("rule", ["max", "phase", "patch"])
def test_subclasses_negations_and_zero_tensors_are_handled_like_plain_ones(rule: str) -> None:
    """A shifted copy of them is a plain tensor: both must take the same way, or they round differently."""
    layer = sp.GHS2d(pivot_rule=rule)
    x = torch.randn(2, 3, 8, 8)
    negated = torch.view_as_complex(torch.randn(2, 3, 8, 8, 2)).conj().imag
    assert negated.is_neg()
    for strange in (x.as_subclass(Named), nn.Parameter(x), negated):
        copy = torch.empty(0).set_(copy_of(strange).as_subclass(Tensor).detach().resolve_neg())  # type: ignore[call-overload]
        assert same_bits(layer(strange), layer(copy))
        assert type(layer(strange)) is Tensor
    nothing = torch._efficientzerotensor((2, 3, 8, 8))
    assert not layer(nothing).any()


@pytest.mark.parametrize("rule", ["max", "phase", "energy", "patch"])
def test_half_precisions_with_ties_under_autocast_to_the_other(rule: str) -> None:
    for dtype, other in ((torch.float16, torch.bfloat16), (torch.bfloat16, torch.float16)):
        x = (torch.rand(2, 3, 8, 8) * 3).round().to(dtype)
        expected = sp.ghs2d(x, pivot_rule=rule)
        with torch.autocast("cpu", dtype=other):
            assert same_bits(sp.ghs2d(x, pivot_rule=rule), expected)
