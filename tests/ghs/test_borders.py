"""The local kernel beside borders that are not wrapped, for networks that keep their padding."""

from typing import Any

import pytest
import torch
from torch import nn

import shiftproof as sp
from helpers.laws import between_borders
from shiftproof.ghs.kernel import Local
from shiftproof.ghs.sampling import ghs2d
from shiftproof.layers import create_downsample

BORDERS = ["zeros", "reflect", "replicate"]
LAYERS = {1: sp.GHS1d, 2: sp.GHS2d, 3: sp.GHS3d}


@pytest.mark.parametrize("padding", BORDERS)
@pytest.mark.parametrize(
    ("sizes", "stride"), [((8, 6), 2), ((7, 9), 2), ((5, 4), 3), ((1, 3), 2), ((9,), 2), ((4, 5, 6), 2), ((3, 40), 8)]
)
@pytest.mark.parametrize("kernel", [Local(0), Local(4, 0.8)], ids=str)
def test_it_is_the_definition(kernel: Local, sizes: tuple[int, ...], stride: int, padding: str) -> None:
    x = torch.randn(3, 2, *sizes, dtype=torch.float64)
    layer = LAYERS[len(sizes)](stride, kernel=kernel, anchor="stay", padding=padding, return_selection=True)
    y, selection = layer(x)
    assert torch.allclose(y, between_borders(x, selection, stride, kernel, padding), atol=1e-6)


@pytest.mark.parametrize("kernel", [Local(0), Local(2)], ids=str)
def test_far_from_the_border_it_is_the_wrapped_kernel(kernel: Local) -> None:
    x = torch.randn(2, 1, 96, 96, dtype=torch.float64)
    wrapped, selection = ghs2d(x, kernel=kernel, anchor="stay", return_selection=True)
    for padding in BORDERS:
        y = sp.GHS2d(kernel=kernel, anchor="stay", padding=padding)(x, selection)
        assert torch.allclose(y[..., 18:30, 18:30], wrapped[..., 18:30, 18:30], atol=1e-6)
        assert not torch.allclose(y, wrapped, atol=1e-3)


def test_a_constant_keeps_its_value_except_beside_zeros() -> None:
    x = torch.full((1, 1, 64, 64), 3.0)
    for padding in BORDERS:
        y = sp.GHS2d(kernel=Local(3), anchor="stay", padding=padding)(x)
        assert torch.allclose(y[..., 14:18, 14:18], torch.full((1, 1, 4, 4), 3.0), atol=1e-5)
        assert torch.allclose(y, torch.full_like(y, 3.0), atol=1e-5) == (padding != "zeros")


def test_samples_lie_where_the_frame_says() -> None:
    """A bump is found at its place, by the grid with the phase of the pivot."""
    x = torch.zeros(1, 1, 16, 16)
    x[..., 5, 12] = 1.0
    layer = sp.GHS2d(2, kernel=Local(1), anchor="stay", padding="zeros", return_selection=True)
    y, selection = layer(x)
    at = torch.stack(torch.unravel_index(y[0, 0].argmax(), y.shape[2:]))[None]
    assert torch.equal(layer.frame(selection, (16, 16)).to_picture(at), torch.tensor([[5.0, 12.0]]).double())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_dtypes_gradients_and_nan(dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 7, 8).to(dtype)
    layer = sp.GHS2d(2, kernel=Local(1), anchor="stay", padding="reflect")
    selection = layer.select(x)
    y = layer(x, selection)
    assert y.dtype == dtype
    assert torch.allclose(y.double(), layer(x.double(), selection), atol=2e-2)
    x[1, 0, 2, 2] = torch.nan
    out = layer(x)
    assert out[1].isnan().all()
    assert torch.equal(out[0], y[0])
    z = torch.randn(2, 1, 5, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: layer(t, torch.tensor([[1, 2], [4, 3]])), z)


def test_exported_with_open_sizes() -> None:
    layer, x = sp.GHS2d(2, kernel=Local(1), anchor="stay", padding="zeros"), torch.randn(2, 3, 8, 10)
    dims = {0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO}
    program = torch.export.export(layer, (x,), dynamic_shapes={"x": dims}).module()
    for sizes in ((8, 10), (12, 6)):
        x = torch.randn(3, 3, *sizes)
        assert torch.allclose(program(x), layer(x), atol=1e-5)


def test_it_guarantees_nothing_and_says_so() -> None:
    layer = create_downsample("ghs", 3, padding="reflect")
    assert layer.law == "none"
    assert repr(layer) == "GHS2d(stride=2, kernel=Local(order=0, width=1.0), anchor='stay', padding='reflect')"
    network = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    report = sp.conversion_report(sp.convert(network, padding=None))
    assert report.law == "none"
    assert "padding='zeros'" in report.replaced[0].now


@pytest.mark.parametrize(
    "options",
    [{"anchor": "stay"}, {"kernel": Local(1)}, {"kernel": Local(1), "anchor": "stay", "output_size": 3}],
)
def test_what_has_no_border_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"`padding='zeros'` needs a kernel with a window.*: set `kernel=Local"):
        sp.GHS2d(2, padding="zeros", **options)
