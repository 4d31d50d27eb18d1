"""What the choice of a frame is sure to withstand: motion, in whole pixels, and noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.camera.layout import Layout, Position
from shiftproof.camera.peaks import border, inner, rivals
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


def certify(brightness: Tensor, layout: Layout, sigma: float, peak: Position | None, corner: Position) -> Certificate:
    r"""The certificate of a frame (H, W), its winner and the corner of its crop.

    Noise of amplitude e moves a score by at most e n, n the `norm`. Position q cannot win while it is below the winner
    p, or no peak because it is below a neighbour. So nothing changes while

    .. math:: 2 e n < \min_{q \ne p} \bigl(\max(S_p, N_q) - S_q\bigr)

    with N_q the largest score beside q.
    """
    if peak is None:
        return Certificate()
    scores = score(brightness[None], sigma)
    beside, own = (layout.counted(t, border(sigma))[0].long() for t in (rivals(scores), inner(scores)))
    place = layout.in_region(peak)
    winner = int(own[place])
    others = torch.where(own > beside, own, 0)
    others[place] = 0
    least = torch.maximum(beside, own[place]) - own
    least[place] = winner
    (down, up), (right, left) = layout.slack(peak, corner)
    return Certificate(
        up, down, left, right, gap=1 - int(others.max()) / winner, noise=int(least.min()) / (2 * norm(sigma))
    )
