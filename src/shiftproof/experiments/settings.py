"""How a network is evaluated: part of a record's identity."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from shiftproof import checks
from shiftproof.evaluation.suite import PARTS


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to evaluate: which parts, on which images and how many of them, all shifts of how many.

    `on` is the test part of the data set, or `validation`: all images that the run held out of the training part.
    """

    on: str = "test"
    parts: tuple[str, ...] = PARTS
    weights: str = "best"
    limit: int | None = None
    shift_images: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        checks.choice("on", self.on, ("test", "validation"))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return dataclasses.asdict(self) | {"parts": list(self.parts)}
