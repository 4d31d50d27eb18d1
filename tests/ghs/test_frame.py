"""Frames: from positions on a map to positions in the picture, and back."""

import pytest
import torch

from shiftproof.ghs.frame import Frame
from shiftproof.ghs.kernel import Local
from shiftproof.layers import GHS2d


def test_there_and_back() -> None:
    """`from_picture` inverts `to_picture`, and the picture is its own frame."""
    x = torch.zeros(2, 1, 12, 9)
    assert torch.equal(
        Frame.of(x).to_picture(torch.tensor([[3, 4], [11, 8]])), torch.tensor([[3.0, 4], [11, 8]]).double()
    )
    frame = Frame.of(x).then(Frame((12, 9), torch.tensor([[1.5, 0.0], [7.0, 2.0]]), (2.0, 1.5)))
    positions = torch.rand(2, 7, 2, dtype=torch.float64) * torch.tensor([6, 6])
    pixels = frame.to_picture(positions)
    assert (pixels >= 0).all()
    assert (pixels < torch.tensor([12, 9])).all()
    assert torch.allclose(frame.from_picture(pixels), positions)


def test_numbers_are_float64_on_the_device_of_the_pictures() -> None:
    frame = Frame.of(torch.zeros(2, 1, 12, 9, device="meta"))
    assert frame.offset.dtype == torch.float64
    assert frame.offset.is_meta
    frame = frame.then(GHS2d(anchor="stay").frame(torch.zeros(2, 2, dtype=torch.int64, device="meta"), (12, 9)))
    assert frame.to_picture(torch.zeros(2, 5, 2, device="meta")).is_meta
    assert Frame.of(torch.zeros(1, 1, 3)).offset.dtype == torch.float64


@pytest.mark.parametrize("sizes", [(16, 12), (15, 18)])
@pytest.mark.parametrize("anchors", [("stay", "stay"), ("stay", "center"), ("center", "corner")])
def test_positions_move_with_the_picture_along_a_chain(anchors: tuple[str, str], sizes: tuple[int, int]) -> None:
    """The largest value of the last of several maps lies at a place that follows every shift of the picture."""
    down = [GHS2d(2, anchor=a, kernel=Local(1), grid="periodic", return_selection=True) for a in anchors]
    x = torch.rand(3, 2, *sizes)

    def peak(x: torch.Tensor) -> torch.Tensor:
        frame = Frame.of(x)
        for layer in down:
            size = x.shape[2:]
            x, selection = layer(x)
            frame = frame.then(layer.frame(selection, size))
        best = x.amax(1).flatten(1).argmax(1)
        return frame.to_picture(torch.stack(torch.unravel_index(best, x.shape[2:]), 1))

    expected = peak(x)
    for shift in ((1, 0), (0, 1), (5, 7), (14, 3)):
        there = (expected + torch.tensor(shift)) % torch.tensor(sizes)
        apart = (peak(x.roll(shift, (2, 3))) - there).abs()
        assert torch.minimum(apart, torch.tensor(sizes) - apart).max() < 1e-9


def test_a_feature_is_found_where_it_is() -> None:
    """A bump of the picture is at its own place, not only at one that moves along."""
    x = torch.zeros(1, 1, 16, 16)
    x[..., 5, 12] = 1.0
    for anchor in ("stay", "center"):
        layer = GHS2d(2, anchor=anchor, return_selection=True)
        y, selection = layer(x)
        at = torch.stack(torch.unravel_index(y[0, 0].argmax(), y.shape[2:]))[None]
        assert torch.equal(layer.frame(selection, (16, 16)).to_picture(at), torch.tensor([[5.0, 12.0]]).double())


def test_positions_of_another_batch_are_refused() -> None:
    frame = Frame.of(torch.zeros(2, 1, 8, 8))
    for wrong in (torch.zeros(2), torch.zeros(3, 2), torch.zeros(2, 3)):
        with pytest.raises(ValueError, match=r"positions .shape .* must have the shape .2, ..., 2.: one row for each"):
            frame.to_picture(wrong)
