"""The score that peaks are found by: a second derivative of a Gaussian, in whole numbers.

Letters: B batch, C channels, H x W the frame, R the radius of the stencil.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.ghs.functions import gauss_hermite

LUMA = (2, 5, 1)  # eighths of red, green and blue
_SUMS = (2**9, 2**10)  # of the magnitudes of a Gaussian's weights and of its second derivative's: scores fit in int32


def grey(frames: Tensor) -> Tensor:
    """Eight times the brightness of 8-bit frames, or of floats in [0, 1] rounded to 8 bits. (B, C, H, W) -> (B, H, W)

    Whole numbers in int32, from 0 to 2040.
    """
    if frames.is_floating_point():
        frames = (frames.detach() * 255).round().to(torch.uint8)
    if frames.shape[1] == 1:
        return frames[:, 0].int() * sum(LUMA)
    red, green, blue = frames.int().unbind(1)
    return red * LUMA[0] + green * LUMA[1] + blue * LUMA[2]


@functools.cache
def weights(sigma: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """h_0 and its second derivative at 0, 1, .. R, as whole numbers; the latter add up to zero over -R .. R."""
    radius = math.ceil(3.5 * checks.positive("sigma", sigma))
    rows = []
    for derivative, total in zip((0, 2), _SUMS):
        h = gauss_hermite(1, torch.arange(radius + 1.0, dtype=torch.float64), sigma, derivative=derivative)[0]
        magnitude = float(2 * h.abs().sum() - h[0].abs())
        rows.append([int(v) for v in (h * (total / magnitude)).round()])
    rows[1][0] = -2 * sum(rows[1][1:])
    return tuple(rows[0]), tuple(rows[1])


def radius(sigma: float) -> int:
    """How far the stencil reaches."""
    return len(weights(sigma)[0]) - 1


def score(brightness: Tensor, sigma: float) -> Tensor:
    r"""How much a spot differs from its surroundings, on scale `sigma`. (B, H, W) -> (B, H - 2R, W - 2R)

    .. math:: S = |(h_0'' h_0^T + h_0 h_0''^T) * F|

    with the Gaussian-Hermite function h_0 of scale sigma: h_0'' is a combination of h_0 and h_2.

    * exact: sums of whole numbers in int32, so that a spot has the same score wherever it lies, on every device;
    * no padding: position 0 of the result is pixel R of the frame;
    * changes by at most `norm(sigma)` where pixels change by at most 1.
    """
    h, curved = weights(sigma)
    across, down = _correlate(brightness, h, 2), _correlate(brightness, curved, 2)
    return _correlate(across, curved, 1).add_(_correlate(down, h, 1)).abs_()


@functools.cache
def norm(sigma: float) -> int:
    """The sum of the magnitudes of the stencil, colours included: how far a change of 1 in all pixels moves a score."""
    h, curved = (torch.tensor([*w[:0:-1], *w]) for w in weights(sigma))
    stencil = torch.outer(h, curved) + torch.outer(curved, h)
    return int(stencil.abs().sum()) * sum(LUMA)


def _correlate(x: Tensor, w: tuple[int, ...], axis: int) -> Tensor:
    """Sums over -R .. R along an axis, with symmetric weights given at 0 .. R."""
    reach = len(w) - 1
    count = x.shape[axis] - 2 * reach
    out = x.narrow(axis, reach, count) * w[0]
    for k in range(1, reach + 1):
        out.add_(x.narrow(axis, reach - k, count) + x.narrow(axis, reach + k, count), alpha=w[k])
    return out
