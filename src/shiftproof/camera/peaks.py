"""The peaks of a frame, best first: strict local maxima of its score; content decides where scores are equal.

Letters: B batch, H x W the frame, R the radius of the stencil.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from shiftproof.camera.layout import Position
from shiftproof.camera.score import radius, score

REACH = 2  # a peak is larger than all other scores up to this many pixels away on both axes


def border(sigma: float) -> int:
    """How many pixels along the edges of a frame hold no peak: the stencil of a neighbour would leave the frame."""
    return radius(sigma) + REACH


def rivals(scores: Tensor) -> Tensor:
    """The largest of the other scores up to `REACH` away. (B, h, w) -> (B, h - 2 REACH, w - 2 REACH)"""
    rows, columns = (size - 2 * REACH for size in scores.shape[1:])
    lines = _largest([scores.narrow(2, k, columns) for k in range(2 * REACH + 1)])
    others = [k for k in range(2 * REACH + 1) if k != REACH]
    beside = scores.narrow(1, REACH, rows)
    return _largest([lines.narrow(1, k, rows) for k in others] + [beside.narrow(2, k, columns) for k in others])


def between(scores: Tensor) -> Tensor:
    r"""The largest values up to half a pixel away, in float64. (B, h, w) -> (B, h - 2 REACH, w - 2 REACH)

    On each axis it adds what the parabola through a score s and those beside it, a and b, has above s: for a peak

    .. math:: (b - a)^2 / 8 (2s - a - b)

    so that peaks between pixels are ranked alike, however the pixels lie. It changes by at most 1.5 where scores change
    by at most 1.
    """
    s = inner(scores).double()
    total = s
    for axis in (1, 2):
        a, b = (inner(scores.roll(step, axis)).double() for step in (1, -1))
        bend = 2 * s - a - b
        top = (b - a).square() / (8 * bend.clamp(min=1))
        half = 0.375 * torch.maximum(a, b) - 0.25 * s - 0.125 * torch.minimum(a, b)
        total = total + torch.where((b - a).abs() <= bend, top, half)
    return total


def peak_scores(brightness: Tensor, sigma: float, subpixel: bool = False) -> Tensor:
    """The score where a peak is, 0 elsewhere. (B, H, W) -> (B, H - 2 border, W - 2 border)

    With `subpixel` it is that of the peak `between` pixels.
    """
    scores = score(brightness, sigma)
    own = inner(scores)
    return (between(scores) if subpixel else own) * (own > rivals(scores))


def inner(scores: Tensor) -> Tensor:
    """The scores that `rivals` has an entry for."""
    return scores[:, REACH:-REACH, REACH:-REACH]


def best_peaks(scores: Tensor, count: int, content: Callable[[int, Position], bytes]) -> list[list[Position]]:
    """The `count` best peaks of each sample, or all it has, as positions in `scores` (B, h, w), which are 0 off peaks.

    Of equal scores the one with the larger `content(sample, position)` comes first. So the choice depends on what is
    seen there, and not on where.
    """
    found: list[list[tuple[float, Position]]] = [[] for _ in scores]
    flat = scores.flatten(1)
    least = flat.amax(1) if count == 1 else flat.topk(min(count, flat.shape[1])).values[:, -1]
    candidates = (scores >= least.clamp(min=1)[:, None, None]).nonzero()
    for (sample, row, column), value in zip(candidates.tolist(), scores[tuple(candidates.T)].tolist()):
        found[sample].append((value, (row, column)))

    out = []
    for sample, peaks in enumerate(found):
        values = [value for value, _ in peaks]
        keys = {p: content(sample, p) if values.count(value) > 1 else b"" for value, p in peaks}
        out.append([p for _, p in sorted(peaks, key=lambda peak: (peak[0], keys[peak[1]]), reverse=True)[:count]])
    return out


def _largest(parts: list[Tensor]) -> Tensor:
    out = torch.maximum(parts[0], parts[1])
    for part in parts[2:]:
        torch.maximum(out, part, out=out)
    return out
