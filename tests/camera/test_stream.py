"""A stream keeps its peak while it is there, and its crop beside the peak while that stays in the frame."""

import torch
from torch import Tensor, nn

from helpers.scenes import photograph, spots, window
from shiftproof import Steady
from shiftproof.invariance import same_bits

SIZE = (150, 150)


def pan(scene: Tensor, start: tuple[int, int], step: tuple[int, int], count: int) -> Tensor:
    """What a camera sees that moves evenly. (count, C, 150, 150)"""
    places = [(start[0] + k * step[0], start[1] + k * step[1]) for k in range(count)]
    return torch.cat([window(scene, at, SIZE) for at in places])


def test_the_crop_starts_in_the_middle_and_stays_with_its_peak() -> None:
    scene = photograph("astronaut")
    frames = pan(scene, (150, 160), (1, -1), 12)
    steady = Steady(nn.Identity(), crop=120, sticky=True)
    crops = steady(frames)
    assert torch.equal(crops[0], frames[0, :, 15:135, 15:135].float() / 255)
    assert all(same_bits(crop, crops[0]) for crop in crops)


def test_frames_one_by_one_or_together() -> None:
    frames = pan(photograph("coffee"), (10, 20), (3, 5), 9)
    together, single = (Steady(nn.Identity(), crop=120, sticky=True, views=2) for _ in range(2))
    assert torch.equal(together(frames), torch.cat([single(frame[None]) for frame in frames]))


def test_a_better_peak_that_comes_into_view_changes_nothing() -> None:
    """For a stream; without one it wins."""
    scene = spots((80, 60))
    wide = torch.zeros(3, 150, 300, dtype=torch.uint8)
    wide[:, :100, :100] = scene // 2
    wide[:, 90:93, 160:163] = 255
    frames = pan(wide, (0, 0), (0, 3), 12)
    sticky, other = (Steady(nn.Identity(), crop=100, sticky=stays) for stays in (True, False))
    crops = sticky(frames)
    # the crop has 51 positions and starts at 25: it stays for 25 pixels
    assert all(same_bits(crop, crops[0]) for crop in crops[:9])
    assert len({tuple(p) for p in other.pivot(frames)[:, 0, 0].tolist() for p in [(p,)]}) == 2


def test_a_crop_that_would_leave_the_frame_starts_again_from_the_middle() -> None:
    wide = torch.zeros(3, 150, 300, dtype=torch.uint8)
    wide[:, 70:73, 100:103] = 255
    frames = pan(wide, (0, 0), (0, 10), 6)
    crops = Steady(nn.Identity(), crop=100, sticky=True)(frames)
    at = [int(crop[0].max(0).values.argmax()) for crop in crops]  # the column of the spot in the crop
    assert at == [75, 75, 75, 100 - 30 - 25, 45, 45]


def test_a_lost_peak_leaves_the_crop_in_place() -> None:
    """What was kept is gone from one frame to the next; another peak is kept from there on."""
    first, second = spots((50, 50), size=150), spots((90, 85), size=150)
    second[:, 83:98, 78:93] = 90  # a spot of another kind
    steady = Steady(nn.Identity(), crop=100, sticky=True)
    frames = torch.stack([first, first.roll((0, 4), (1, 2)), second, second.roll((0, 4), (1, 2))])
    crops = steady(frames)
    corners = [(25, 25), (25, 29), (25, 29), (25, 33)]
    for frame, crop, (row, column) in zip(frames, crops, corners):
        assert torch.equal(crop, frame[:, row : row + 100, column : column + 100] / 255)


def test_frames_without_peaks_show_the_same_place_again() -> None:
    flat = torch.zeros(1, 3, *SIZE, dtype=torch.uint8)
    lit = spots((60, 60), size=150)[None]
    steady = Steady(nn.Identity(), crop=100, sticky=True)
    crops = steady(torch.cat([flat, lit, lit.roll((0, 0, 5, 0), (0, 1, 2, 3)), flat, flat]))
    assert torch.equal(crops[2], lit[0, :, 25:125, 25:125] / 255)
    assert crops[3].max() == 0


def test_reset_forgets() -> None:
    frames = pan(photograph("rocket"), (60, 100), (2, 2), 6)
    steady = Steady(nn.Identity(), crop=120, sticky=True)
    once = steady(frames)
    assert not torch.equal(steady(frames[3:4]), steady.model(frames[3:4, :, 15:135, 15:135] / 255))
    steady.reset()
    assert torch.equal(steady(frames), once)


def test_asking_does_not_advance_the_stream() -> None:
    frames = pan(photograph("rocket"), (60, 100), (2, 2), 4)
    asked, left = (Steady(nn.Identity(), crop=120, sticky=True) for _ in range(2))
    for frame in frames:
        asked.pivot(frames), asked.certificate(frames), asked.corners(frames)
        assert torch.equal(asked(frame[None]), left(frame[None]))
