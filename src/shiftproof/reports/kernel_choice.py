"""Which kernel is the default: the rule of docs/mathematics.md, applied to the table of kernels."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shiftproof.experiments.significance import half_interval, paired
from shiftproof.reports.table import Cell, Table

SCORE, ALIASED, BEHIND = "score", "aliased energy", "behind the best, points"  # columns
LIMIT = "LPF-3"  # the row whose aliased energy must not be exceeded


class Choice(NamedTuple):
    """The candidate that the rule chooses, the best one, those tied with it, and those that alias too much."""

    chosen: str
    best: str
    tied: tuple[str, ...]
    refused: tuple[str, ...]


def candidate(label: str) -> tuple[int, float] | None:
    """Order and width of a row; None for rivals.

    >>> candidate("order 4, width 0.8")
    (4, 0.8)
    """
    words = label.replace(",", "").split()
    return (int(words[1]), float(words[3])) if words[0] == "order" else None


def choose(scores: Mapping[str, Cell], aliased: Mapping[str, float], limit: float) -> Choice:
    """The rule: the best mean score, what is tied with it by seed, of these the lowest order, then the width next to 1.

    Only candidates count whose aliased energy is at most `limit`.
    """
    names = [name for name in scores if candidate(name) is not None and scores[name].values]
    refused = tuple(name for name in names if aliased[name] > limit)
    left = {name: scores[name] for name in names if name not in refused}
    best = max(left, key=lambda name: statistics.fmean(left[name].values))
    behind = {name: paired(left[best], cell) for name, cell in left.items()}
    tied = tuple(name for name, d in behind.items() if name == best or statistics.fmean(d) <= half_interval(d))

    def plainness(name: str) -> tuple[int, float]:
        order, width = candidate(name) or (0, 0.0)
        return order, abs(math.log(width))

    return Choice(min(tied, key=plainness), best, tied, refused)


def judge(table: Table, wanted: int) -> Table:
    """The table of kernels with a column for the difference from the best candidate, and the verdict as a note.

    `wanted`: the number of seeds by which the rule decides.
    """
    place = {title: i for i, title in enumerate(table.columns)}
    scores = {label: cells[place[SCORE]] for label, cells in table.rows}
    aliased = {label: mean for label, cells in table.rows if (mean := cells[place[ALIASED]].mean) is not None}
    seeds = min(len(cell.values) for name, cell in scores.items() if candidate(name))
    if seeds < 2 or LIMIT not in aliased:
        return table  # too early
    choice = choose(scores, aliased, aliased[LIMIT])
    best = scores[choice.best]
    rows = tuple((label, (*cells, _behind(best, cells[place[SCORE]]))) for label, cells in table.rows)
    verdict = (
        f"By the rule: {choice.chosen}. The best is {choice.best}; tied with it: "
        f"{_listed(name for name in choice.tied if name != choice.best)}; aliased energy above that of {LIMIT}: "
        f"{_listed(choice.refused)}."
        if seeds >= wanted
        else f"The rule does not decide yet: {seeds} of {wanted} seeds are there for every candidate."
    )
    return dataclasses.replace(table, columns=(*table.columns, BEHIND), rows=rows, notes=(*table.notes, verdict))


def _behind(best: Cell, cell: Cell) -> Cell:
    """How far a row is behind the best candidate, by seed."""
    return dataclasses.replace(cell, values=tuple(paired(best, cell)), margin=None)


def _listed(names: Iterable[str]) -> str:
    return "; ".join(names) or "none"
