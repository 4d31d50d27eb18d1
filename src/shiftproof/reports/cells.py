"""Cells of a table: the paper's number and ours side by side, each of ours with n, mean, spread and its records.

Everything here is made from records. A cell without one says "not run".
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiftproof.reports import paper, records
from shiftproof.reports.records import Record
from shiftproof.training.config import Config

NOT_RUN = "not run"


@dataclass(frozen=True)
class Cell:
    """One number of the paper, if it has one, and ours, one per seed, with the files they come from.

    A `measured` number has no seeds: it is what it is. `margin`: how far the 95 % interval of one seed reaches.
    """

    paper: paper.Value | None = None
    values: tuple[float, ...] = ()
    files: tuple[str, ...] = ()
    digits: int = 2
    measured: bool = False
    margin: float | None = None

    @property
    def mean(self) -> float | None:
        """Of ours, or None where nothing was run."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds, from two seeds on."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def ours(self) -> str:
        """Mean, spread and n in words."""
        if self.mean is None:
            return NOT_RUN
        if self.measured:
            return f"{self.mean:.{self.digits}f}"
        spread = "" if self.spread is None else f" ± {self.spread:.{self.digits}f}"
        return f"{self.mean:.{self.digits}f}{spread} (n={len(self.values)})"

    def theirs(self) -> str:
        """What the paper prints."""
        if self.paper is None:
            return ""
        value, spread = self.paper
        return f"{value:.{self.digits}f}" + ("" if spread is None else f" ± {spread:.{self.digits}f}")


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns, and what has to be said about them."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    notes: tuple[str, ...] = field(default=())

    def files(self) -> list[str]:
        """The records behind the table."""
        return sorted({f for _, cells in self.rows for cell in cells for f in cell.files})

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        rows = [
            {
                "row": label,
                "cells": [
                    {"column": c, "paper": cell.paper, "values": list(cell.values), "records": list(cell.files)}
                    for c, cell in zip(self.columns, cells)
                ],
            }
            for label, cells in self.rows
        ]
        return {"name": self.name, "title": self.title, "rows": rows, "notes": list(self.notes)}


def apart(a: Cell, b: Cell) -> bool | None:
    """Whether two means differ by more than the larger spread over seeds.

    Where there is one seed only, by more than the 95 % interval of the difference; None where that is not known either.
    """
    if a.mean is None or b.mean is None:
        return None
    if a.spread is not None and b.spread is not None:
        return abs(a.mean - b.mean) > max(a.spread, b.spread)
    if a.margin is not None and b.margin is not None:
        return abs(a.mean - b.mean) > math.hypot(a.margin, b.margin)
    return None


class Shelf:
    """Records by what was run: everything but the seed."""

    def __init__(self, found: Mapping[Path, Record]) -> None:
        self._by_run: dict[str, list[tuple[str, Record]]] = {}
        for path, record in found.items():
            if record["config"] is not None:
                run = (_without_seed(record["config"]), record["dataset"]["name"], record["dataset"]["part"])
                self._by_run.setdefault(records.digest(run), []).append((path.name, record))

    def sources(self, config: Config, part: str = "test") -> set[str]:
        """Where the images of a run came from, as its records say."""
        return {record["dataset"]["source"] for _, record in self._of(config, part)}

    def _of(self, config: Config, part: str) -> list[tuple[str, Record]]:
        return self._by_run.get(records.digest((_without_seed(config.to_dict()), config.data.name, part)), [])

    def cell(
        self,
        config: Config,
        path: Sequence[str],
        printed: paper.Value | None = None,
        *,
        part: str = "test",
        scale: float = 100.0,
        digits: int = 2,
    ) -> Cell:
        """The cell of a run, over all seeds there are records of: the estimate or number at a path of the metrics."""
        ours, margins = [], []
        for name, record in self._of(config, part):
            value = records.lookup(record["metrics"], *path)
            if isinstance(value, Mapping):
                margins.append(scale * (value["high"] - value["low"]) / 2)
                value = value["value"]
            if value is not None:
                ours.append((record["seed"], name, scale * float(value)))
        ours.sort()
        values, files = tuple(v for *_, v in ours), tuple(n for _, n, _ in ours)
        return Cell(printed, values, files, digits, margin=max(margins, default=None))


def _without_seed(config: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in records.essential(config).items() if k != "run.seed"}
