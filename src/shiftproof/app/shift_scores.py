"""The scores of a network for every shift of a picture: the computation for the tab Network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.app.networks import Network
from shiftproof.invariance import Shift, ShiftError, survey

SHIFTS = 1024  # the most that are tried: all of them up to 32 x 32 pixels
PATHS = ("row", "column", "diagonal")


@dataclass(frozen=True)
class ShiftScores:
    """The scores for a grid of shifts by rows and columns, with shift (0, 0) in the middle.

    `error` is the shift error over the same shifts; `kept` is the share of them that keep the answer.
    """

    rows: list[int]
    columns: list[int]
    scores: Tensor  # (R, C, classes)
    unmoved: Tensor  # (classes,)
    error: ShiftError
    kept: float

    @property
    def answers(self) -> Tensor:
        """The class for each shift. (R, C)"""
        return self.scores.argmax(-1)

    @property
    def answer(self) -> int:
        """The class of the unmoved picture."""
        return int(self.unmoved.argmax())

    @property
    def changes(self) -> Tensor:
        """The largest change of a score for each shift. (R, C)"""
        return self.error.changes.view(len(self.rows), len(self.columns))

    def probability(self, row: int, column: int) -> tuple[int, float]:
        """The class and its probability for the shift at one place of the grid."""
        shares = self.scores[row, column].softmax(0)
        best = int(shares.argmax())
        return best, float(shares[best])

    def place(self, shift: tuple[float, float]) -> tuple[int, int]:
        """The place in the grid of a shift, or of the one nearest to it."""
        row, column = (
            min(range(len(axis)), key=lambda k: abs(axis[k] - v)) for axis, v in zip((self.rows, self.columns), shift)
        )
        return row, column

    def worst(self) -> tuple[bool, float, tuple[int, int]]:
        """Whether any shift changes the answer, the largest change of a score, and the shift that causes it.

        If some shifts change the answer, only those are compared. Of shifts that are equally bad up to rounding, the
        smallest is returned.
        """
        changed = self.answers != self.answer
        among = torch.where(changed | ~changed.any(), self.changes, -1.0)
        distance = [r * r + c * c for r in self.rows for c in self.columns]
        worst = [k for k, v in enumerate(among.flatten().tolist()) if v >= float(among.max()) * (1 - 1e-6)]
        row, column = divmod(min(worst, key=distance.__getitem__), len(self.columns))
        return bool(changed.any()), float(among.max()), (self.rows[row], self.columns[column])

    def path(self, place: tuple[int, int], path: str) -> list[tuple[int, int]]:
        """The places of the grid on a path through `place`."""
        row, column = place
        height, width = len(self.rows), len(self.columns)
        if path == PATHS[0]:
            return [(row, c) for c in range(width)]
        if path == PATHS[1]:
            return [(r, column) for r in range(height)]
        return [((row + k) % height, (column + k) % width) for k in range(-column, width - column)]


def score_shifts(network: Network, image: Tensor, progress: Callable[[int, int], object] | None = None) -> ShiftScores:
    """Try the circular shifts of a picture (1, C, H, W): all of them, or a coarser grid if there are too many."""
    rows, columns = (axis_shifts(n, grid_step(network)) for n in image.shape[2:])
    shifts: list[Shift] = [(r, c) for r in rows for c in columns]
    answers: list[Tensor] = []

    def record(x: Tensor) -> Tensor:
        answers.append(network.scores(x))
        return answers[-1]

    error, agreement = survey(record, image, shifts, batch_size=64, progress=progress)
    scores = torch.cat(answers[1:])[: len(shifts)]
    return ShiftScores(
        rows, columns, scores.view(len(rows), len(columns), -1), answers[0][0], error, agreement.reference
    )


def grid_step(network: Network) -> int:
    """The smallest odd step whose grid has at most `SHIFTS` places. An even step would hide the effect of stride 2."""
    _, height, width = network.size
    step = 1
    while math.prod(len(axis_shifts(n, step)) for n in (height, width)) > SHIFTS:
        step += 2
    return step


def axis_shifts(size: int, step: int) -> list[int]:
    """The shifts along one axis: multiples of `step`, up to half the size each way."""
    back = size // 2 // step
    return [k * step for k in range(-back, (size - 1 - size // 2) // step + 1)]
