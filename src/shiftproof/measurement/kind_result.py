"""What one kind of shift, such as the circular ones, does to the answers of a network."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from shiftproof.invariance import Shift
from shiftproof.reports.words import percent, shift_text

TITLES = ("shifts", "tried", "pairs agree", "answer kept", "largest change", "mean change", "worst shift", "bits equal")


@dataclass(frozen=True)
class ImageResult:
    """One image under the shifts of one kind: the share that kept its answer, and the worst shift.

    The worst shift is the one with the largest change of the scores, among those that change the answer if any does.
    """

    name: str
    kept: float
    shift: Shift
    change: float
    before: int
    after: int


@dataclass(frozen=True)
class KindResult:
    """All images under the shifts of one kind; the numbers are those of `ShiftError` and `Consistency`.

    `changes` and `kept` have one entry for each of the `shifts`; `change_map` and `kept_map` cover the grid of all
    shifts.
    """

    kind: str
    pairs: float
    reference: float
    max: float
    mean: float
    worst: Shift
    exact: bool
    shifts: list[Shift]
    changes: Tensor
    kept: Tensor
    change_map: Tensor
    kept_map: Tensor
    images: list[ImageResult]

    def row(self) -> list[str]:
        """The row of the table, in the order of `TITLES`."""
        total = self.change_map.numel()
        return [
            self.kind,
            f"{len(self.shifts):,} of {total:,}" if len(self.shifts) != total else f"all {total:,}",
            percent(self.pairs),
            percent(self.reference),
            f"{self.max:.3g}",
            f"{self.mean:.3g}",
            "" if self.exact else shift_text(self.worst),
            "yes" if self.exact else "no",
        ]
