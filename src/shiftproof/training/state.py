"""How far a run is: what its checkpoints keep beside the tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(kw_only=True)
class RunState:
    """Counters, sums and results so far; the names of the fields are those in the file."""

    data: str  # the checksum of the images
    threads: int
    processes: int
    epoch: int = 0  # finished epochs
    step: int = 0  # finished steps of the current epoch
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])  # of this epoch: loss, right answers, images
    seconds: float = 0.0
    best: dict[str, Any] | None = None  # the best epoch, and the number by which it was judged
    history: list[dict[str, Any]] = field(default_factory=list)  # one row per epoch
    scaler: dict[str, Any] = field(default_factory=dict)  # of fp16

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> RunState:
        """The state that `to_dict` wrote."""
        try:
            return cls(**saved)
        except TypeError as error:
            raise ValueError(f"not the state of a run: {error}") from None

    def add(self, sums: Sequence[float]) -> tuple[float, float]:
        """Count a step; returns loss and accuracy of the epoch so far."""
        self.sums = [a + b for a, b in zip(self.sums, sums)]
        self.step += 1
        return self.sums[0] / self.sums[2], self.sums[1] / self.sums[2]

    def end_epoch(self, checked: Mapping[str, Any], seconds: float) -> bool:
        """Add the row of the epoch to the history, with what was `checked`; returns whether it is the best so far."""
        loss, right, count = self.sums
        row = {"epoch": self.epoch + 1, "loss": loss / count, "accuracy": right / count, **checked}
        judged = row.get("validation_accuracy", float(self.epoch))  # without validation the last epoch is the best
        self.history.append(row)
        self.epoch, self.step, self.sums, self.seconds = self.epoch + 1, 0, [0.0, 0.0, 0.0], seconds
        better = self.best is None or judged > self.best["judged"]
        if better:
            self.best = {"epoch": self.epoch, "judged": judged}
        return bool(better)
