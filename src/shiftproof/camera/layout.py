"""Where peaks count in a frame, and where the crop of a peak lies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

Position = tuple[int, int]  # (row, column)
Choice = list[tuple[Position | None, Position]]  # peaks of a frame, best first, each with the corner of its crop
T = TypeVar("T", int, Tensor)
REGIONS = ("frame", "center")


@dataclass(frozen=True)
class Layout:
    """Peaks count from `first` to before `stop`; crops lie from `low` to before `low + positions`; all (row, column).

    In its scene, a peak has a lattice of crops: one around it, and others `positions` pixels apart on each axis. Just
    one of them lies in the frame, and that is the crop of the peak. So the peak may be anywhere.
    """

    crop: Position
    first: Position
    stop: Position
    low: Position
    positions: Position

    def corner(self, peak: tuple[T, T]) -> tuple[T, T]:
        """The upper left corner of the crop of a peak, or of many: two numbers or two tensors."""
        axes = zip(peak, self.crop, self.low, self.positions)
        return _pair(low + (at - size // 2 - low) % count for at, size, low, count in axes)

    @property
    def center(self) -> Position:
        """The corner of the crop in the middle."""
        return _pair(low + count // 2 for low, count in zip(self.low, self.positions))

    def counted(self, scores: Tensor, edge: int) -> Tensor:
        """The scores (B, h, w), which leave out `edge` pixels along the edges, where peaks count. (B, n, m)"""
        rows, columns = (slice(a - edge, b - edge) for a, b in zip(self.first, self.stop))
        return scores[:, rows, columns]

    def in_region(self, peak: Position) -> Position:
        """Where a position of the frame is among the scores that count."""
        return _pair(at - first for at, first in zip(peak, self.first))

    def in_frame(self, place: Position) -> Position:
        """Where a position among the scores that count is in the frame."""
        return _pair(at + first for at, first in zip(place, self.first))

    def holds(self, corner: Position) -> bool:
        """Whether a crop at this corner lies in the frame."""
        return all(low <= at < low + count for at, low, count in zip(corner, self.low, self.positions))

    def slack(self, peak: Position, corner: Position) -> list[tuple[int, int]]:
        """How far each axis may move down and up its numbers before the peak or its crop leaves its place."""
        return [
            (min(at - first, c - low), min(stop - 1 - at, low + count - 1 - c))
            for at, c, first, stop, low, count in zip(peak, corner, self.first, self.stop, self.low, self.positions)
        ]


def plan_layout(frame: Position, crop: Position, region: str, edge: int, margin: int = 0) -> Layout:
    """The layout of frames of a size; no peak counts in the `edge`, and all crops have a `margin` around them.

    `region`: peaks count in the whole `"frame"`, except where the score does not reach, or in its `"center"`, where the
    crop lies around the peak.
    """
    low = margin, margin
    positions = tuple(n - m - 2 * margin + 1 for n, m in zip(frame, crop))
    if region == "center":
        first = tuple(max(edge, margin + m // 2) for m in crop)
        stop = tuple(min(n - edge, margin + m // 2 + count) for n, m, count in zip(frame, crop, positions))
    else:
        first, stop = (edge, edge), tuple(n - edge for n in frame)
    if min(positions) < 1 or any(a >= b for a, b in zip(first, stop)):
        least = [max(m + 2 * margin, 2 * edge + 1) for m in crop]
        raise ValueError(
            f"`frames` ({frame[0]} x {frame[1]} pixels) must be at least {least[0]} x {least[1]} for crops of "
            f"{crop[0]} x {crop[1]}, and larger for the crop to follow the scene: pass larger frames, or a smaller "
            "`crop`."
        )
    return Layout(crop, _pair(first), _pair(stop), low, _pair(positions))


def _pair(values: Iterable[T]) -> tuple[T, T]:
    row, column = values
    return row, column
