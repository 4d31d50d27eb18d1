"""What the tables show, in sentences: where GHS is behind, ahead, equivalent, and what is undecided."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from shiftproof.experiments.significance import AHEAD, BEHIND, EQUIVALENT, MARGIN, UNDECIDED, Comparison
from shiftproof.reports.layouts import METHOD_LABELS
from shiftproof.reports.table import Cell, Table

OURS = METHOD_LABELS["ghs"]
PAIRS, CHANGE = "two random shifts agree, %", "largest change of a logit"
WORDS = {BEHIND: "behind", UNDECIDED: "undecided against", AHEAD: "ahead of", EQUIVALENT: "equivalent to"}
_MANY = 8  # more names than these are counted
Finding = tuple[str, str]  # what it is about, and the sentence


def from_tables(made: Sequence[Table]) -> list[Finding]:
    """The findings of all tables that have numbers: losses first, then what is ahead or equivalent, then agreement.

    The variants of the ablation are not rivals: they are compared below their table only.
    """
    tables = [table for table in made if table.name != "ablation"]
    subjects = dict.fromkeys(c.subject for table in tables for c in table.comparisons)
    out = [finding for subject in subjects for finding in _compared(tables, subject)]
    for table in made:
        out += _agreement(table)
        if table.name == "ablation":
            out += _ablation(table)
    return out


def _compared(tables: Sequence[Table], subject: str) -> Iterator[Finding]:
    """How one row fares in each table, verdict by verdict. What several tables repeat is said once."""
    mine: dict[tuple[str, object], tuple[Table, Comparison]] = {}
    for table in tables:
        for c in table.comparisons:
            if c.subject == subject:
                mine.setdefault((c.other, c.test), (table, c))
    for verdict, words in WORDS.items():
        places: dict[str, dict[str, list[Comparison]]] = {}
        for table, c in mine.values():
            if c.verdict == verdict and (verdict != UNDECIDED or c.test.difference < -MARGIN):
                places.setdefault(subject_of(table), {}).setdefault(c.column.removesuffix(", %"), []).append(c)
        about = f"{subject}, lower but undecided" if verdict == UNDECIDED else f"{subject} {words}"
        for place, columns in places.items():
            yield f"{about}, {place}", "; ".join(f"{name}: {listed(found)}" for name, found in columns.items()) + "."
    undecided = sum(c.verdict == UNDECIDED for _, c in mine.values())
    yield f"{subject}, undecided", f"{undecided} of {len(mine)} comparisons; they are below each table."


def subject_of(table: Table) -> str:
    """The title without the number of the table, its unit, and what the columns repeat."""
    words = table.title.partition(". ")[2] or table.title
    return words.removesuffix(", %").removeprefix("Every shift, ")


def by_verdict(table: Table) -> Iterator[tuple[str, str, Cell, dict[str, list[Comparison]]]]:
    """The comparisons of a table: row, column, its cell, and the other rows by verdict."""
    rows = dict(table.rows)
    for subject, column in dict.fromkeys((c.subject, c.column) for c in table.comparisons):
        found: dict[str, list[Comparison]] = {verdict: [] for verdict in WORDS}
        for c in table.comparisons:
            if (c.subject, c.column) == (subject, column):
                found[c.verdict].append(c)
        yield subject, column, rows[subject][table.columns.index(column)], found


def listed(found: Sequence[Comparison]) -> str:
    """The other rows, each with the difference and the number of seeds; of very many, how many they are."""
    if len(found) > _MANY:
        low, high = (f(c.test.difference for c in found) for f in (min, max))
        return f"{len(found)} rows ({low:+.2f} to {high:+.2f})"
    return ", ".join(f"{c.other} ({c.test.difference:+.2f}, n={c.test.n})" for c in found)


def _agreement(table: Table) -> Iterator[Finding]:
    """How often each method keeps its answer under circular shifts; means over seeds."""
    if not {PAIRS, CHANGE} <= set(table.columns):
        return
    agree, change = (_column(table, name) for name in (PAIRS, CHANGE))
    words = [
        f"{label} {_mean(agree[label]):.2f} % and {_mean(change[label]):.2g}" for label in agree if label in change
    ]
    if words:
        about = "two random circular shifts agree, and the largest change of a logit over all shifts, means over seeds"
        yield subject_of(table), f"{about}: {'; '.join(words)}."


def _ablation(table: Table) -> Iterator[Finding]:
    """Where the default ranks on the held-out images."""
    cells = _column(table, table.columns[0])
    ours = cells.pop(OURS, None)
    if ours is None or not cells:
        return
    order = sorted(cells, key=lambda label: -_mean(cells[label]))
    ahead = sum(_mean(cell) > _mean(ours) for cell in cells.values())
    best = ", ".join(f"{label} {cells[label].ours()}" for label in order[:3])
    yield (
        "Ablation",
        f"by its mean the default, {ours.ours()}, is number {ahead + 1} of {len(cells) + 1}; the best others: {best}.",
    )


def _mean(cell: Cell) -> float:
    return statistics.fmean(cell.values)


def _column(table: Table, name: str) -> dict[str, Cell]:
    """The cells of a column that were run, by row."""
    where = table.columns.index(name)
    return {label: cells[where] for label, cells in table.rows if cells[where].values}
