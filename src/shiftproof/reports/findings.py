"""What the tables show, in sentences: where GHS is ahead, where it ties, where it is behind."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from shiftproof.reports.paper_tables import METHOD_LABELS
from shiftproof.reports.table import Cell, Table, differ, pooled_spread

OURS = METHOD_LABELS["ghs"]
# table -> the columns in which methods are compared; None: every column
_JUDGED: dict[str, tuple[str, ...] | None] = {
    "table2": None,
    "shifts": ("accuracy, camera moved, %", "agreement, camera moved, %"),
    "table3": ("accuracy",),
    "table4": ("accuracy, rotated by 180°",),
    "figure5": ("accuracy, 4 px", "accuracy, 8 px"),
    "table5": ("accuracy, %", "accuracy, camera moved, %", "agreement, rotated again, %"),
}
_FRONT = "GHS, front"  # compared with the other rows of its table, in these columns
_WORST = ("accuracy, %", "worst half pixel, %", "worst eighth, %", "worst crop, %")
_AGREE, _CHANGE = "two random shifts agree, %", "largest change of a logit"


RULE = (
    "Two methods are tied unless they differ by more than the spread over seeds, pooled over the rows, and by more "
    "than twice the standard error; with a single seed, also by more than the 95 % interval. In brackets: GHS minus "
    "the other."
)
Finding = tuple[str, str]  # what it is about, and the sentence


def from_tables(made: Sequence[Table]) -> list[Finding]:
    """The findings of all tables that have numbers."""
    out: list[Finding] = []
    for table in made:
        if table.name in ("shifts", "table5"):
            out += _agreement(table)
        if table.name in _JUDGED:
            out += _comparisons(table, _JUDGED[table.name] or table.columns)
        if table.name == "subpixel":
            out += _comparisons(table, _WORST, _FRONT)
        if table.name == "ablation":
            out += _ablation(table)
    return out


def _mean(cell: Cell) -> float:
    return statistics.fmean(cell.values)


def _column(table: Table, name: str) -> dict[str, Cell]:
    """The cells of a column that were run, by row."""
    where = table.columns.index(name)
    return {label: cells[where] for label, cells in table.rows if cells[where].values}


def _agreement(table: Table) -> Iterator[Finding]:
    """How often each method keeps its answer under all circular shifts."""
    agree, change = _column(table, _AGREE), _column(table, _CHANGE)
    words = [
        f"{label} {_mean(agree[label]):.2f} % ({max(change[label].values):.2g})" for label in agree if label in change
    ]
    if words:
        yield _subject(table), f"pairs of circular shifts that agree (largest change of a logit): {_and(words)}."


def _comparisons(table: Table, columns: Sequence[str], label: str = OURS) -> Iterator[Finding]:
    for name in columns:
        cells = _column(table, name)
        ours = cells.pop(label, None)
        if ours is not None and cells:
            yield f"{_subject(table)}, {name.removesuffix(', %')}", compare(ours, cells, label)


def _subject(table: Table) -> str:
    """The title without the number of the table, its unit, and what the column repeats."""
    words = table.title.partition(". ")[2] or table.title
    return words.removesuffix(", %").removeprefix("Every shift, ")


def compare(ours: Cell, others: dict[str, Cell], label: str = OURS) -> str:
    """Ours against each of the others."""
    groups: dict[str, list[str]] = {"ahead of": [], "tied with": [], "behind": []}
    spread = pooled_spread([ours, *others.values()])
    for other, cell in others.items():
        difference = _mean(ours) - _mean(cell)
        group = "tied with" if not differ(ours, cell, spread) else "ahead of" if difference > 0 else "behind"
        groups[group].append(f"{other} ({difference:+.{ours.digits}f})")
    parts = [f"{group} {_and(names)}" for group, names in groups.items() if names]
    return f"{label} {ours.ours()}: {'; '.join(parts)}."


def _ablation(table: Table) -> Iterator[Finding]:
    """Where the default ranks on the held-out images."""
    cells = _column(table, table.columns[0])
    ours = cells.pop(OURS, None)
    if ours is None or not cells:
        return
    order = sorted(cells, key=lambda label: -_mean(cells[label]))
    ahead = [label for label in order if _mean(cells[label]) > _mean(ours)]
    spread = pooled_spread([ours, *cells.values()])
    better = [label for label in ahead if differ(ours, cells[label], spread)]
    best = ", ".join(f"{label} {cells[label].ours()}" for label in order[:3])
    verdict = f"better than the default: {_and(better)}" if better else "none is better by more than the spread"
    yield (
        "Ablation",
        f"the default, {ours.ours()}, is number {len(ahead) + 1} of {len(cells) + 1}; the best others are {best}; "
        f"{verdict}. By chance, about one in twenty comparisons looks like more than a tie. {compare(ours, cells)}",
    )


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
