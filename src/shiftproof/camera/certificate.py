"""What the choice of a frame is sure to withstand: motion, in whole pixels, and noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.camera.layout import Layout, Position
from shiftproof.camera.peaks import between, border, inner, rivals
from shiftproof.camera.score import norm, score


@dataclass(frozen=True)
class Certificate:
    """What cannot change the crop of one frame, except that a better peak may come into view.

    `up`, `down`, `left`, `right`: the pixels by which the camera may move that way, and both axes at once, while the
    winner and its crop stay inside.
    `gap`: how far the score of the winner is above that of any other peak, as a share of its own.
    `noise`: if every value changes by less than this (in grey levels of 0..255), the winner wins all the same.

    Without a peak all are 0.
    """

    up: int = 0
    down: int = 0
    left: int = 0
    right: int = 0
    gap: float = 0.0
    noise: float = 0.0


def certify(
    brightness: Tensor, layout: Layout, sigma: float, subpixel: bool, peak: Position | None, corner: Position
) -> Certificate:
    r"""The certificate of a frame (H, W), its winner and the corner of its crop.

    Noise of amplitude e moves a score S by at most e n, n the `norm`, and a value V `between` pixels by 1.5 times that
    (without `subpixel`, V is S). The winner p is a peak while it is above N_p, the largest score beside it. Another
    position q cannot win while V_q is below V_p, or while q is no peak. So nothing changes while

    .. math:: 2 e n < S_p - N_p \quad\text{and}\quad 2 e n < \max\left((V_p - V_q) / 1.5, N_q - S_q\right)
    """
    if peak is None:
        return Certificate()
    scores = score(brightness[None], sigma)
    maps = (inner(scores), rivals(scores), between(scores) if subpixel else inner(scores))
    own, beside, value = (layout.counted(t, border(sigma))[0].double() for t in maps)
    place = layout.in_region(peak)
    winner = value[place]
    others = torch.where(own > beside, value, 0.0)
    others[place] = 0
    least = torch.maximum((winner - value) / (1.5 if subpixel else 1.0), beside - own)
    least[place] = own[place] - beside[place]
    (down, up), (right, left) = layout.slack(peak, corner)
    return Certificate(
        up, down, left, right, gap=1 - float(others.max() / winner), noise=float(least.min()) / (2 * norm(sigma))
    )
