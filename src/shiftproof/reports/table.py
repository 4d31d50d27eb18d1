"""A table of results: in each cell the paper's number and ours, with n, mean, spread and the records it comes from.

A cell without a record says "not run"; a cell whose records lack the number shows a dash.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shiftproof.experiments import paper, records
from shiftproof.experiments.records import Record
from shiftproof.experiments.significance import Comparison

NOT_RUN = "not run"
NONE = "-"
OURS = "GHS", "GHS of the paper"  # the rows that are compared with the others
PERCENT = 100.0  # the scale of shares of images, of which more is better


@dataclass(frozen=True)
class Cell:
    """The paper's number, if it has one, and ours, one per seed, with the files they come from.

    A `measured` number does not depend on the seed and is shown without spread. `margin`: half the 95 % interval of
    one seed. `run`: whether there is a record at all. `seeds`: of the values. `right`: for each seed, the answers to
    every image, packed; empty unless every record has them. `network`: the paper's, where it is not ours.
    """

    paper: paper.Value | None = None
    values: tuple[float, ...] = ()
    files: tuple[str, ...] = ()
    digits: int = 2
    measured: bool = False
    margin: float | None = None
    run: bool = False
    seeds: tuple[int, ...] = ()
    right: tuple[str, ...] = ()
    network: str = ""

    @property
    def mean(self) -> float | None:
        """Of our numbers; None if nothing was run."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds; None for fewer than two seeds."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def ours(self) -> str:
        """Our mean, spread and n as text."""
        if self.mean is None:
            return NONE if self.run else NOT_RUN
        if self.measured:
            return f"{self.mean:.{self.digits}f}" if self.mean else "0"  # exactly zero
        spread = "" if self.spread is None else f" ± {self.spread:.{self.digits}f}"
        return f"{self.mean:.{self.digits}f}{spread} (n={len(self.values)})"

    def theirs(self) -> str:
        """The paper's number as text."""
        if self.paper is None:
            return ""
        value, spread = self.paper
        text = f"{value:.{self.digits}f}" + ("" if spread is None else f" ± {spread:.{self.digits}f}")
        return f"{text} ({self.network})" if self.network else text


@dataclass(frozen=True)
class Table:
    """Rows of cells, the names of the columns, notes to the reader, and how our rows compare with the others."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    notes: tuple[str, ...] = ()
    in_records: bool = True  # where its files are: among the records, or next to the document
    comparisons: tuple[Comparison, ...] = ()

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
        compared = [comparison.to_dict() for comparison in self.comparisons]
        return {
            "name": self.name,
            "title": self.title,
            "rows": rows,
            "comparisons": compared,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Column:
    """A column of a table: where its numbers are in a record, and the paper's numbers by method.

    With `more` paths it shows the mean of all of them; `earlier` is where records have it that lack the `path`.
    """

    title: str
    path: tuple[str, ...]
    scale: float = PERCENT
    digits: int = 2
    printed: Mapping[str, paper.Value] = field(default_factory=dict)
    model: str | None = None  # if each column is another network
    optional: bool = False  # left out where no record has it
    part: str = "metrics"  # of the record
    more: tuple[tuple[str, ...], ...] = ()
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """A table of runs: title, columns, notes, and the rows that are compared with the others.

    In the words, `{network}` stands for the network that the preset trains, `{sources}` for where the data came from,
    `{images}` for how many images agreement was measured on.
    """

    title: str
    columns: Sequence[Column]
    notes: Sequence[str] = ()
    subjects: Sequence[str] = OURS


def record_cell(found: Sequence[tuple[str, Record]], column: Column, printed: paper.Value | None) -> Cell:
    """The cell of a run, over the records of all its seeds: the estimate or number that the column names.

    Of several records of a seed the newest counts that has the number.
    """
    ours, margins = dict[int, tuple[str, float, str]](), []
    for name, record in sorted(found, key=lambda pair: pair[1]["created"]):
        several = [records.lookup(record[column.part], *path) for path in (column.path, *column.more)]
        if several == [None] and column.earlier:
            several = [records.lookup(record[column.part], *column.earlier)]
        margins += [column.scale * (v["high"] - v["low"]) / 2 for v in several if isinstance(v, Mapping)]
        right = several[0].get("right", "") if len(several) == 1 and isinstance(several[0], Mapping) else ""
        several = [v["value"] if isinstance(v, Mapping) else v for v in several]
        if None not in several:
            ours[record["seed"]] = name, column.scale * statistics.fmean(several), right
    seeds = sorted(ours)
    values, files = tuple(ours[k][1] for k in seeds), tuple(ours[k][0] for k in seeds)
    packed = tuple(ours[k][2] for k in seeds)
    measured = column.path[0] == "aliasing"  # of the method, whatever the seed
    margin = max(margins, default=None)
    right = packed if all(packed) else ()
    return Cell(printed, values, files, column.digits, measured, margin, bool(found), tuple(seeds), right)
