"""Where an operation that keeps its stride begins, and the kernel at every pixel: the two halves of a layer."""

from typing import Any

import pytest
import torch

import shiftproof as sp
from helpers.laws import between_borders
from shiftproof.ghs.kernel import Hermite, Local

LAYERS = {1: sp.GHS1d, 2: sp.GHS2d, 3: sp.GHS3d}


@pytest.mark.parametrize("anchor", ["center", "stay"])
@pytest.mark.parametrize(("sizes", "stride"), [((8, 6), 2), ((9, 6), 3), ((10, 12), (5, 2)), ((8,), 4), ((4, 6, 2), 2)])
def test_the_kernel_everywhere_from_the_start_in_steps_is_the_layer(
    sizes: tuple[int, ...], stride: Any, anchor: str
) -> None:
    layer: Any = LAYERS[len(sizes)](stride, kernel=Local(2, 0.8), anchor=anchor, return_selection=True)
    x = torch.randn(4, 3, *sizes, dtype=torch.float64)
    y, selection = layer(x)
    for sample, start, expected in zip(layer.smooth(x), layer.start(selection, sizes).tolist(), y):
        moved = sample.roll([-n for n in start], tuple(range(1, sample.dim())))
        if anchor == "stay":
            assert all(0 <= n < s for n, s in zip(start, layer.stride))
        taken = moved[(slice(None), *(slice(None, None, s) for s in layer.stride))]
        assert torch.allclose(taken, expected, atol=1e-12)


@pytest.mark.parametrize("padding", ["zeros", "reflect", "replicate"])
def test_between_borders_too(padding: str) -> None:
    layer = sp.GHS2d(2, kernel=Local(1), anchor="stay", padding=padding)
    x = torch.randn(5, 2, 7, 6, dtype=torch.float64)
    selection = layer.select(x)
    expected = between_borders(x, selection, 2, Local(1), padding)
    for sample, (i, j), wanted in zip(layer.smooth(x), layer.start(selection, (7, 6)).tolist(), expected):
        assert 0 <= i < 2
        assert 0 <= j < 2
        taken = sample[:, i::2, j::2]
        assert torch.allclose(taken, wanted[:, : taken.shape[1], : taken.shape[2]], atol=1e-6)


@pytest.mark.parametrize("anchor", ["center", "stay"])
@pytest.mark.parametrize(("size", "stride"), [(7, 2), (5, 3), (11, 4)])
def test_where_pixels_are_left_over_the_pivot_comes_to_the_middle(size: int, stride: int, anchor: str) -> None:
    """And lies on the grid there, so that every shift of the map gives the same samples."""
    layer = sp.GHS1d(stride, anchor=anchor)
    pivots = torch.arange(size)[:, None]
    places = (pivots - layer.start(pivots, (size,))).remainder(size)
    assert (places == size // 2 // stride * stride).all()
    assert torch.equal(sp.GHS1d(stride, grid="periodic", anchor="corner").start(pivots, (size,)), pivots)


def test_the_kernel_everywhere_keeps_a_constant_and_the_precision() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        y = sp.GHS2d(3).smooth(torch.full((2, 3, 6, 9), 2.0, dtype=dtype))
        assert y.dtype == dtype
        assert y.shape == (2, 3, 6, 9)
        assert torch.allclose(y, torch.full_like(y, 2.0), atol=1e-6)
    narrow = sp.GHS2d(1, kernel=Local(1, 0.3)).smooth(torch.ones(1, 1, 9, 9, dtype=torch.float64))
    assert torch.allclose(narrow, torch.ones_like(narrow), atol=1e-12)
    x = torch.randn(1, 1, 12, 12)
    assert torch.equal(sp.GHS2d(2).smooth(x), sp.GHS2d(2, kernel=Local(0)).smooth(x))
    with pytest.raises(ValueError, match=r"`antialias=True` needs a kernel with a window, not .*: set `kernel=Local"):
        sp.GHS2d(2, kernel=Hermite(sigma="2*band")).smooth(x)
