"""The way back: `upsample`, the twin of `ghs2d`."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor

import shiftproof as sp
from helpers.laws import all_shifts, hard_maps
from shiftproof.ghs.backend import native
from shiftproof.ghs.kernel import GHS, Local
from shiftproof.ghs.matrix import sampling_matrix
from shiftproof.invariance import same_bits
from shiftproof.maps.shifts import circular_shift

DOWN = {1: sp.GHS1d, 2: sp.GHS2d, 3: sp.GHS3d}
UP = {1: sp.GHSUp1d, 2: sp.GHSUp2d, 3: sp.GHSUp3d}


def neighbours(y: Tensor) -> Tensor:
    """Something that moves with its map bit for bit, and is no symmetry."""
    return y.roll(1, -1).relu() - 2 * y


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("anchor", ["stay", "center"])
@pytest.mark.parametrize(("sizes", "stride"), [((6, 4), 2), ((5, 7), 2), ((4, 7), (2, 3)), ((3, 1), 1)])
def test_down_and_up_moves_with_the_map(sizes: tuple[int, int], stride: Any, anchor: str, compiled: bool) -> None:
    """up(f(down(x))), bit for bit, for every circular shift, ties and plateaus included, in both layouts."""
    options: dict[str, Any] = {"kernel": Local(1), "anchor": anchor}
    down, up = sp.GHS2d(stride, return_selection=True, **options), sp.GHSUp2d(stride, **options)

    def there_and_back(x: Tensor) -> tuple[Tensor, Tensor]:
        y, selection = down(x)
        return up(neighbours(y), selection, sizes), selection

    with mock.patch.object(native, "library", native.library if compiled else None):
        maps = torch.cat([m for m in hard_maps(sizes).values() if m.isfinite().all()])
        for form in (torch.contiguous_format, torch.channels_last):
            x = maps.contiguous(memory_format=form)
            expected, before = there_and_back(x)
            assert expected.shape == x.shape
            for shift in all_shifts(sizes):
                moved = torch.empty_like(x).copy_(x.roll(shift, (2, 3)))
                y, after = there_and_back(moved)
                # what repeats is moved as far as its pivot, which is the same modulo a period
                assert torch.equal(circular_shift(x, after - before, (2, 3)), moved)
                assert same_bits(y, circular_shift(expected, after - before, (2, 3)))


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_every_dimension_and_dtype(ndim: int) -> None:
    x = torch.randn(2, 3, *(7, 6, 5)[:ndim], dtype=torch.float64)
    down, up = DOWN[ndim](2, anchor="stay", return_selection=True), UP[ndim](2, anchor="stay")
    axes = tuple(range(2, x.dim()))
    y, selection = down(x)
    expected = up(y, selection, x.shape[2:])
    y, selection = down(x.roll((1, 2, 3)[:ndim], axes))
    assert same_bits(up(y, selection, x.shape[2:]), expected.roll((1, 2, 3)[:ndim], axes))
    assert up(y.half(), selection, x.shape[2:]).dtype == torch.float16


@pytest.mark.parametrize("sizes", [(8, 12), (7, 9)])
@pytest.mark.parametrize("kernel", [GHS, Local(0), Local(4, 0.8)], ids=str)
def test_a_constant_keeps_its_value(kernel: Any, sizes: tuple[int, int]) -> None:
    x = torch.rand(2, 1, *sizes, dtype=torch.float64)
    y, selection = sp.ghs2d(x, 2, kernel=kernel, anchor="stay", return_selection=True)
    out = sp.upsample(torch.full_like(y, 3.0), selection, sizes, kernel=kernel, anchor="stay")
    assert torch.allclose(out, torch.full_like(x, 3.0), atol=1e-12)


def test_it_is_the_definition() -> None:
    """(U^T G U) rolled from the center to the pivot, for U = R with its columns divided by their sums."""
    x = torch.randn(1, 1, 8, 6, dtype=torch.float64)
    y, selection = sp.ghs2d(x, return_selection=True)
    rows, columns = (sampling_matrix(m, m // 2) for m in (8, 6))
    whole = (rows / rows.sum(0)).T @ y[0, 0].numpy() @ (columns / columns.sum(0))
    p = selection[0].tolist()
    assert np.allclose(sp.upsample(y, selection)[0, 0], np.roll(whole, (p[0] - 4, p[1] - 3), (0, 1)))


@pytest.mark.parametrize("stride", [2, 3])
def test_a_smooth_picture_comes_back_in_its_place(stride: int) -> None:
    """Not only with it: waves far below the limit are restored where they were."""
    i = torch.arange(24, dtype=torch.float64)
    x = (torch.cos(2 * torch.pi * i / 24)[:, None] + torch.sin(2 * torch.pi * i / 24))[None, None]
    for anchor in ("stay", "center"):
        y, selection = sp.ghs2d(x, stride, kernel=Local(4), anchor=anchor, return_selection=True)
        back = sp.upsample(y, selection, stride=stride, kernel=Local(4), anchor=anchor)
        assert (back - x).abs().max() < 0.05


def test_gradients_of_every_order() -> None:
    x = torch.randn(2, 2, 5, 4, dtype=torch.float64)
    y, selection = sp.ghs2d(x, anchor="stay", return_selection=True)
    y.requires_grad_()

    def back(t: Tensor) -> Tensor:
        return sp.upsample(t, selection, (5, 4), anchor="stay")

    assert torch.autograd.gradcheck(back, y, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda t: back(t).square(), y)


def test_exported_with_open_sizes() -> None:
    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.up = sp.GHS2d(2, anchor="stay", return_selection=True), sp.GHSUp2d(2, anchor="stay")

        def forward(self, x: Tensor) -> Tensor:
            y, selection = self.down(x)
            out: Tensor = self.up(y, selection, x.shape[2:])
            return out

    both, x = Both(), torch.randn(2, 3, 8, 10)
    dims = {0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO}
    program = torch.export.export(both, (x,), dynamic_shapes={"x": dims}).module()
    for sizes in ((8, 10), (7, 9), (12, 5)):
        x = torch.randn(3, 3, *sizes)
        assert torch.allclose(program(x), both(x), atol=1e-5)


def test_transforms_and_shapes_without_values() -> None:
    """Where nobody may look at values: under vmap, with gradients or not, and on the meta device."""
    x = torch.randn(3, 2, 2, 6, 5)
    down, up = sp.GHS2d(2, anchor="stay", return_selection=True), sp.GHSUp2d(2, anchor="stay")

    def there_and_back(x: Tensor) -> Tensor:
        y, selection = down(x)
        out: Tensor = up(y, selection, x.shape[2:])
        return out

    expected = torch.stack([there_and_back(sample) for sample in x])
    assert torch.allclose(torch.vmap(there_and_back)(x), expected, atol=1e-6)
    grad = torch.func.grad(lambda t: there_and_back(t).square().sum())
    each = torch.stack([grad(sample) for sample in x])
    assert torch.allclose(torch.vmap(grad)(x), each, atol=1e-5)
    y = up(torch.zeros(2, 3, 3, 3, device="meta"), torch.zeros(2, 2, dtype=torch.int64, device="meta"), (6, 5))
    assert y.shape == (2, 3, 6, 5)
    assert y.is_meta


def test_a_map_without_a_pivot_is_nan() -> None:
    x = torch.randn(2, 1, 4, 4)
    x[0, 0, 1, 1] = torch.nan
    y, selection = sp.ghs2d(x, return_selection=True)
    out = sp.upsample(torch.ones_like(y), selection)
    assert out[0].isnan().all()
    assert out[1].isfinite().all()


def test_what_does_not_fit_is_refused() -> None:
    x = torch.randn(2, 3, 8, 6)
    y, selection = sp.ghs2d(x, return_selection=True)
    assert sp.upsample(y, selection, x.shape).shape == x.shape  # as `nn.MaxUnpool2d` takes it
    assert sp.upsample(y, selection, (7, 6)).shape[2:] == (7, 6)
    with pytest.raises(ValueError, match=r"`output_size` .=.9, 6.. gives maps of sizes .5, 3., and `y` has .4, 3."):
        sp.upsample(y, selection, (9, 6))
    with pytest.raises(ValueError, match=r"`output_size` .*must have one entry per axis"):
        sp.upsample(y, selection, (8, 6, 2))
    with pytest.raises(ValueError, match=r"`selection` .* take it from `select` on a map of the same batch"):
        sp.upsample(y, selection[:1])
    with pytest.raises(ValueError, match=r"`selection` .up to 7 on axis 0. must lie inside the map .size 7 there."):
        sp.upsample(y, torch.tensor([[7, 0], [0, 0]]), (7, 6))
    with pytest.raises(ValueError, match=r"^`y` .shape .2, 3, 4.. must "):
        sp.GHSUp2d()(y[..., 0], selection)
    with pytest.raises(TypeError, match=r"`selection` must be an int64 tensor"):
        sp.upsample(y, selection.float())
    with pytest.raises(ValueError, match="has no way back here: a column of the 1 x 64 matrix sums to"):
        sp.GHSUp1d(64, kernel="hermite(orders=1, sigma=0.01)")(
            torch.ones(1, 1, 1), torch.zeros(1, 1, dtype=torch.int64)
        )
