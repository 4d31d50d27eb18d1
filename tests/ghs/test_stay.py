"""`anchor="stay"`: the grid takes the phase of the pivot, the map keeps its place."""

import math
from fractions import Fraction
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from helpers.laws import all_shifts, hard_maps
from shiftproof.ghs.backend import native
from shiftproof.ghs.kernel import GHS, Local
from shiftproof.ghs.sampling import ghs2d
from shiftproof.invariance import same_bits
from shiftproof.layers import GHS1d, GHS2d, GHS3d

LAYERS = {1: GHS1d, 2: GHS2d, 3: GHS3d}


def stays(layer: Any, x: Tensor) -> None:
    """For every shift the output is that of `x`, rolled by what the frames say."""
    axes = tuple(range(2, x.dim()))
    expected, selection = layer(x)
    before = layer.frame(selection, x.shape[2:])
    for shift in all_shifts(tuple(x.shape[2:])):
        moved = torch.empty_like(x).copy_(x.roll(shift, axes))
        y, found = layer(moved)
        after = layer.frame(found, x.shape[2:])
        step = torch.tensor(before.step, dtype=torch.float64)
        steps = (before.offset + found - selection - after.offset) / step  # a periodic map may have moved by less
        assert torch.allclose(steps, steps.round(), atol=1e-9)
        for one, other, roll in zip(y, expected, steps.round().long().tolist()):
            assert same_bits(one, other.roll(roll, tuple(range(1, one.dim())))), shift


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("kernel", [GHS, Local(2)], ids=str)
@pytest.mark.parametrize(("sizes", "stride"), [((6, 4), 2), ((5, 7), 2), ((4, 7), (2, 3)), ((8, 9), 3), ((3, 1), 1)])
@pytest.mark.parametrize("grid", ["anchored", "periodic"])
def test_the_output_is_rolled_and_nothing_else(
    sizes: tuple[int, int], stride: Any, kernel: Any, grid: str, compiled: bool
) -> None:
    """Bit for bit under every shift, at every size, with ties and infinities, in both layouts."""
    with mock.patch.object(native, "library", native.library if compiled else None):
        x = torch.cat([m for m in hard_maps(sizes).values() if m.isfinite().all()])
        layer = GHS2d(stride, kernel=kernel, grid=grid, anchor="stay", return_selection=True)
        for form in (torch.contiguous_format, torch.channels_last):
            stays(layer, x.contiguous(memory_format=form))


@pytest.mark.parametrize("ndim", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_in_other_dimensions_and_precisions(ndim: int, dtype: torch.dtype) -> None:
    sizes = (5, 4, 3)[:ndim]
    x = torch.cat(list(hard_maps(sizes).values())[:4]).to(dtype)
    stays(LAYERS[ndim](2, anchor="stay", return_selection=True), x)


@pytest.mark.parametrize("sizes", [(8, 12), (7, 9), (6, 5)])
@pytest.mark.parametrize("stride", [2, 3])
def test_it_is_the_centred_output_rolled(stride: int, sizes: tuple[int, int]) -> None:
    """By as many steps as bring the first sample to the first pixel, counted in fractions."""
    x = torch.randn(6, 2, *sizes)
    expected, selection = ghs2d(x, stride, return_selection=True)
    rows = []
    for sample, pivot in zip(expected, selection.tolist()):
        for axis, (p, m) in enumerate(zip(pivot, sizes), start=1):
            n = -(-m // stride)
            on_pixels = m % 2 == 0 or n % 2 == 1  # whether a sample is on the middle pixel
            first = m // 2 - n // 2 * Fraction(m, n) if on_pixels else Fraction(m, 2 * n) - Fraction(1, 2)
            sample = sample.roll(math.floor((p - m // 2 + first) / Fraction(m, n)), axis)
        rows.append(sample)
    assert same_bits(ghs2d(x, stride, anchor="stay"), torch.stack(rows))


@pytest.mark.parametrize("size", [8, 9, 12, 15])
def test_the_map_moves_by_less_than_a_step(size: int) -> None:
    """The first sample lies less than a step from the first pixel, so a bump stays where it was."""
    x = torch.randn(20, 2, size, size)
    layer = GHS2d(2, anchor="stay")
    selection = layer.select(x)
    frame = layer.frame(selection, x.shape[2:])
    step = torch.tensor(frame.step)
    assert ((frame.offset >= 0) & (frame.offset < step)).all()
    y = layer(x, selection)
    centred = GHS2d(2)(x, selection)  # the same samples from the pivot's point of view
    assert torch.equal(y.flatten(2).sort().values, centred.flatten(2).sort().values)
    bump = torch.zeros(1, 1, size, size)
    bump[..., size // 2, 1] = 1.0
    at = torch.stack(torch.unravel_index(layer(bump)[0, 0].argmax(), y.shape[2:]))
    place = layer.frame(layer.select(bump), bump.shape[2:]).to_picture(at[None])
    assert (place - torch.tensor([[size // 2, 1]])).abs().max() <= frame.step[0] / 2


def test_a_sample_with_nan_is_nan_and_others_do_not_notice() -> None:
    x = torch.randn(3, 2, 6, 6)
    expected = ghs2d(x, anchor="stay")
    x[1, 0, 2, 3] = torch.nan
    y = ghs2d(x, anchor="stay")
    assert y[1].isnan().all()
    assert same_bits(y[::2], expected[::2])


@pytest.mark.parametrize("anchor", ["stay", "center"])
def test_gradients_of_every_order(anchor: str) -> None:
    x = torch.randn(2, 2, 5, 4, dtype=torch.float64, requires_grad=True)
    layer = GHS2d(2, anchor=anchor)
    selection = layer.select(x)
    assert torch.autograd.gradcheck(lambda t: layer(t, selection), x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda t: layer(t, selection).square(), x)


def test_compiled_code_gives_the_gradient_of_torch() -> None:
    x = torch.randn(2, 3, 9, 6, requires_grad=True)
    gradients = []
    for library in (native.library, None):
        with mock.patch.object(native, "library", library):
            y = ghs2d(x, 3, anchor="stay")
            gradients.append(torch.autograd.grad((y * torch.arange(y.numel()).view_as(y)).sum(), x)[0])
    assert torch.allclose(gradients[0], gradients[1], atol=1e-3)


def test_vmap() -> None:
    x = torch.randn(3, 2, 2, 6, 5)
    layer = GHS2d(2, anchor="stay")
    assert torch.allclose(torch.vmap(layer)(x), torch.stack([layer(sample) for sample in x]), atol=1e-6)


def test_exported_with_open_sizes() -> None:
    layer, x = GHS2d(2, anchor="stay"), torch.randn(2, 3, 8, 10)
    dims = {0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO}
    program = torch.export.export(layer, (x,), dynamic_shapes={"x": dims}).module()
    for sizes in ((8, 10), (7, 9), (12, 5)):
        x = torch.randn(3, 3, *sizes)
        assert torch.allclose(program(x), layer(x), atol=1e-5)


def test_layers_of_networks_stay() -> None:
    """With the options they had; the paper's layer, whose grid has ends, is left alone."""
    layer = GHS2d(3, kernel=Local(4), ties="window", return_selection=True)
    twin = GHS2d(3, kernel=Local(4), ties="window", return_selection=True, anchor="stay")
    assert repr(layer.staying()) == repr(twin)
    assert twin.staying() is twin
    assert GHS2d.paper().staying().anchor == "corner"
    inclusive = GHS2d(2, grid="inclusive")
    assert inclusive.staying() is inclusive


def test_what_cannot_be_rolled_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"`anchor='stay'` rolls samples that are equally spaced.* set `grid='periodic'`"
    ):
        GHS2d(2, grid="inclusive", anchor="stay")
