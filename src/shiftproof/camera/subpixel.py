"""Parts of a pixel: where a peak lies between pixels, and a crop resampled so that it lies on one.

Letters: r radius of the neighbourhood, m radius of the interpolation, s sigma.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from shiftproof.camera.score import LUMA
from shiftproof.ghs.functions import gauss_hermite

MARGIN = 6  # m: pixels that the interpolation needs around a crop
_BETA = 7.0  # of Kaiser's window
_STEPS = 12
_FARTHEST = 1.5  # pixels from a peak of whole pixels to the one between them


def reach(sigma: float) -> int:
    """r: beyond it, all derivatives are below 1e-4 of their largest value."""
    return math.ceil(6 * sigma)


def refine(neighbourhood: Tensor, sigma: float) -> tuple[float, float]:
    r"""Where the score has its extremum, (row, column) from the middle of a neighbourhood (C, 2r + 1, 2r + 1).

    The score is a smooth function of real positions d, since h_0 is one. With the moments of the neighbourhood about d,

    .. math:: M_{pq}(d) = \sum_{ij} h_0^{(p)}(i - d_1)\, F_{ij}\, h_0^{(q)}(j - d_2)

    it is S = M_20 + M_02, its gradient -(M_30 + M_12, M_21 + M_03), its Hessian made of M_40 + M_22, M_22 + M_04 and
    M_31 + M_13; Newton's steps go from there. (0, 0) where they do not arrive.
    """
    channels = neighbourhood.cpu().double()
    f = channels[0] if len(channels) == 1 else sum(w * c for w, c in zip(LUMA, channels))
    x = torch.arange(-(len(f) // 2), len(f) // 2 + 1, dtype=torch.float64)
    d = torch.zeros(2, dtype=torch.float64)
    for _ in range(_STEPS):
        m = _derivatives(x - d[0], sigma) @ f @ _derivatives(x - d[1], sigma).mT  # (5, 5)
        gradient = -torch.stack([m[3, 0] + m[1, 2], m[2, 1] + m[0, 3]])
        mixed = m[3, 1] + m[1, 3]
        hessian = torch.stack([m[4, 0] + m[2, 2], mixed, mixed, m[2, 2] + m[0, 4]]).view(2, 2)
        if float(torch.det(hessian)) <= 0:
            return 0.0, 0.0  # a saddle
        step = torch.linalg.solve(hessian, gradient)
        d = d - step
        if float(d.abs().max()) > _FARTHEST:
            return 0.0, 0.0
        if float(step.abs().max()) < 1e-10:
            break
    row, column = d.tolist()
    return row, column


def _derivatives(x: Tensor, sigma: float) -> Tensor:
    """h_0 and its first four derivatives: h^(n+1) = -(x h^(n) + n h^(n-1)) / s^2. (5, 2r + 1)"""
    h = [gauss_hermite(1, x, sigma)[0]]
    for n in range(4):
        h.append(-(x * h[n] + (n * h[n - 1] if n else 0)) / sigma**2)
    return torch.stack(h)


def resample(block: Tensor, fraction: tuple[float, float]) -> Tensor:
    """The picture at positions moved by a `fraction` of a pixel, from -1/2 to 1/2 on each axis.

    Windowed sinc (Kaiser), a sum in a fixed order, so that a pixel's bits do not depend on where it is.

    Shape: (C, h + 2m, w + 2m) -> (C, h, w).
    """
    out = block
    for axis, part in zip((1, 2), fraction):
        count = out.shape[axis] - 2 * MARGIN
        taps = _taps(part)
        total = out.narrow(axis, 0, count) * taps[0]
        for k, tap in enumerate(taps[1:], 1):
            total = total + out.narrow(axis, k, count) * tap
        out = total
    return out


def _taps(part: float) -> list[float]:
    """The weights of the pixels -m .. m for the value at `part`; they add up to 1."""
    x = torch.arange(-MARGIN, MARGIN + 1, dtype=torch.float64) - part
    window = torch.i0(_BETA * (1 - (x / (MARGIN + 0.5)).square()).clamp(min=0).sqrt())
    taps = torch.sinc(x) * window
    weights: list[float] = (taps / taps.sum()).tolist()
    return weights
