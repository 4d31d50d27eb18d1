"""Peaks that are kept along a stream of frames, and the corners of their crops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from shiftproof.camera.layout import Choice, Layout, Position

_ALIKE = 0.5  # a spot is the one that was kept if it differs by less than this part of its own contrast
_AS_HIGH = 2  # and if its score is at least that of the kept one, divided by this


@dataclass(frozen=True)
class Kept:
    """A peak, its score, and what was seen around it: brightness in whole numbers."""

    peak: Position
    score: float
    patch: Tensor

    def find(self, brightness: Tensor, scores: Tensor, layout: Layout) -> Kept | None:
        """The same peak in the next frame (H, W), whose `scores` are 0 off peaks; None if no peak looks like it.

        It is the peak that looks most alike, and the nearest of equals.
        """
        places = (scores * _AS_HIGH >= max(self.score, 1)).nonzero()
        if not len(places):
            return None
        peaks = places + torch.tensor(layout.first, device=places.device)
        spots = _patches(brightness, peaks, len(self.patch) // 2)
        apart = (spots - self.patch).abs().sum((1, 2))
        contrast = (self.patch - self.patch.double().mean().round().int()).abs().sum()
        far = (peaks - torch.tensor(self.peak, device=peaks.device)).abs().sum(1)
        best = int((apart * sum(brightness.shape) + far).argmin())
        if float(apart[best]) >= _ALIKE * float(contrast):
            return None
        row, column = peaks[best].tolist()
        return Kept((row, column), float(scores[tuple(places[best])]), spots[best])


@dataclass
class Stream:
    """What is kept of a stream: for each view its peak, if there is one, and the corner of its crop."""

    kept: list[Kept | None] = field(default_factory=list)
    corners: list[Position] = field(default_factory=list)

    def advance(
        self, brightness: Tensor, scores: Tensor, layout: Layout, reach: int, views: int, best: Callable[[], Choice]
    ) -> Choice:
        """The peaks of the next frame and their corners: the kept ones, and in place of the lost ones the `best`.

        A crop moves with its peak. When that is lost, it stays in place and goes on with another peak; when it would
        leave the frame, it starts again: a single view from the middle, several from the crops of their peaks.
        """
        found = [None if k is None else k.find(brightness, scores, layout) for k in self.kept] or [None] * views
        fresh = [] if None not in found else [peak for peak, _ in best() if peak is not None]
        fresh = [peak for peak in fresh if peak not in [k.peak for k in found if k is not None]]
        choice: Choice = []
        for view, now in enumerate(found):
            before = self.kept[view] if self.kept else None
            corner = self.corners[view] if self.corners else None
            if now is not None and before is not None and corner is not None:
                corner = (corner[0] + now.peak[0] - before.peak[0], corner[1] + now.peak[1] - before.peak[1])
            elif fresh:
                now = _keep(fresh.pop(0), brightness, scores, layout, reach)
            if corner is None or not layout.holds(corner):
                corner = layout.center if views == 1 or now is None else layout.corner(now.peak)
            found[view] = now
            choice.append((None if now is None else now.peak, corner))
        self.kept, self.corners = found, [corner for _, corner in choice]
        return choice


def _keep(peak: Position, brightness: Tensor, scores: Tensor, layout: Layout, reach: int) -> Kept:
    """A peak, to be found again."""
    return Kept(
        peak,
        float(scores[layout.in_region(peak)]),
        _patches(brightness, torch.tensor([peak], device=brightness.device), reach)[0],
    )


def _patches(brightness: Tensor, peaks: Tensor, reach: int) -> Tensor:
    """What is seen up to `reach` around each of the `peaks` (n, 2) of a frame (H, W). (n, 2 reach + 1, 2 reach + 1)"""
    offsets = torch.arange(-reach, reach + 1, device=brightness.device)
    rows, columns = peaks[:, 0, None, None] + offsets[:, None], peaks[:, 1, None, None] + offsets
    return brightness[rows, columns]
