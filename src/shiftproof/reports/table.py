"""Cells of a table: the paper's number and ours side by side, each of ours with n, mean, spread and its records.

Everything here is made from records. A cell without one says "not run", one whose record has no such number a dash.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiftproof.experiments import paper, records
from shiftproof.experiments.records import Record
from shiftproof.training.config import Config

NOT_RUN = "not run"
NONE = "-"


@dataclass(frozen=True)
class Cell:
    """One number of the paper, if it has one, and ours, one per seed, with the files they come from.

    A `measured` number has no seeds: it is what it is. `margin`: how far the 95 % interval of one seed reaches. `run`:
    whether there is a record at all.
    """

    paper: paper.Value | None = None
    values: tuple[float, ...] = ()
    files: tuple[str, ...] = ()
    digits: int = 2
    measured: bool = False
    margin: float | None = None
    run: bool = False

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
            return NONE if self.run else NOT_RUN
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


def pooled_spread(cells: Sequence[Cell]) -> float | None:
    """The standard deviation over seeds of all cells together: of one cell with two seeds it would be a lottery."""
    several = [cell.values for cell in cells if len(cell.values) > 1]
    if not several:
        return None
    squares = sum((len(values) - 1) * statistics.variance(values) for values in several)
    return math.sqrt(squares / sum(len(values) - 1 for values in several))


def apart(a: Cell, b: Cell, spread: float | None = None) -> bool | None:
    """Whether two means differ by more than the `spread` over seeds and by more than twice their standard error.

    Where one of them has a single seed, also by more than the 95 % interval of the difference; None where neither is
    known.
    """
    if a.mean is None or b.mean is None:
        return None
    limits = []
    if spread is not None:
        limits += [spread, 2 * spread * math.sqrt(1 / len(a.values) + 1 / len(b.values))]
    if min(len(a.values), len(b.values)) == 1 and a.margin is not None and b.margin is not None:
        limits.append(math.hypot(a.margin, b.margin))
    return abs(a.mean - b.mean) > max(limits) if limits else None


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
        measured: bool = False,
    ) -> Cell:
        """The cell of a run, over all seeds there are records of: the estimate or number at a path of the metrics."""
        ours, margins = [], []
        found = self._of(config, part)
        for name, record in found:
            value = records.lookup(record["metrics"], *path)
            if isinstance(value, Mapping):
                margins.append(scale * (value["high"] - value["low"]) / 2)
                value = value["value"]
            if value is not None:
                ours.append((record["seed"], name, scale * float(value)))
        ours.sort()
        values, files = tuple(v for *_, v in ours), tuple(n for _, n, _ in ours)
        return Cell(printed, values, files, digits, measured, max(margins, default=None), run=bool(found))


def _without_seed(config: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in records.essential(config).items() if k != "run.seed"}
