"""How often a moving window keeps its crop: the choice at every position of a window in a scene, from one search.

Letters: U x V positions of the window.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from shiftproof.camera.layout import Layout, Position


def corners_in_scene(
    scores: Tensor, layout: Layout, edge: int, positions: Position, tied: Callable[[Position], Position]
) -> Tensor:
    """The corner of the crop, in the scene, of a window at each of its U x V positions. (U, V, 2)

    `scores` (h, w) are those of the peaks of the whole scene without `edge` pixels along its edges, 0 off peaks. Peaks
    are local, so those of a window are among them, and the best one is a sliding maximum. `tied(position)` gives the
    corner, in the window, where several peaks share it.
    """
    rank = torch.unique(scores, return_inverse=True)[1]
    index = torch.arange(scores.numel(), device=scores.device).view_as(scores)
    count = scores.numel()
    coded = [rank * count + index, rank * count + count - 1 - index]  # of equal scores the last, and the first
    for axis in (0, 1):
        size = layout.stop[axis] - layout.first[axis]
        start = layout.first[axis] - edge
        coded = [_sliding_maximum(c.narrow(axis, start, positions[axis] + size - 1), axis, size) for c in coded]
    last, first = coded[0] % count, count - 1 - coded[1] % count
    at = [torch.arange(n, device=scores.device) for n in positions]
    u, v = torch.meshgrid(*at, indexing="ij")
    row, column = last // scores.shape[1] + edge - u, last % scores.shape[1] + edge - v  # of the winner in its window
    none = scores.flatten()[last] == 0
    corners = [torch.where(none, center, corner) for center, corner in zip(layout.center, layout.corner((row, column)))]
    out = torch.stack([corners[0] + u, corners[1] + v], -1)
    for i, j in ((last != first) & ~none).nonzero().tolist():
        corner = tied((i, j))
        out[i, j] = torch.tensor([corner[0] + i, corner[1] + j])
    return out


def same_crops(corners: Tensor, motion: Position) -> float:
    """The share of the positions (U, V, 2) at which the crop stays in place after a motion of the window."""
    size = corners.shape[:2]
    if any(abs(m) >= n for m, n in zip(motion, size)):
        raise ValueError(
            f"`motion` (={motion}) must be smaller than the {size[0]} x {size[1]} positions of the window in the scene."
        )
    before, after = corners, corners
    for axis, m in enumerate(motion):
        count = size[axis] - abs(m)
        before, after = before.narrow(axis, max(0, -m), count), after.narrow(axis, max(0, m), count)
    return float((before == after).all(-1).double().mean())


def _sliding_maximum(x: Tensor, axis: int, size: int) -> Tensor:
    """The maxima of `size` entries in a row along an axis, by doubling."""
    reached = 1
    while reached < size:
        step = min(reached, size - reached)
        count = x.shape[axis] - step
        x = torch.maximum(x.narrow(axis, 0, count), x.narrow(axis, step, count))
        reached += step
    return x
