"""Our rows of a table against the others, column by column."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from shiftproof.experiments import significance
from shiftproof.experiments.significance import Comparison, Test
from shiftproof.reports.table import Cell, Table


def judge(table: Table, subjects: Sequence[str], columns: Sequence[str]) -> Table:
    """The table with the comparisons of `subjects`, in `columns` of percentages where more is better."""
    found = (c for subject in subjects for column in columns for c in _column(table, subject, column))
    return dataclasses.replace(table, comparisons=tuple(found))


def _column(table: Table, subject: str, column: str) -> Iterator[Comparison]:
    """A row against each of the others that were run; Holm's correction is over these."""
    where = table.columns.index(column)
    cells = {label: cells[where] for label, cells in table.rows if cells[where].values}
    ours = cells.pop(subject, None)
    if ours is None:
        return
    tests = {other: test for other, cell in cells.items() if (test := compare(ours, cell)) is not None}
    corrected = significance.holm([test.p for test in tests.values()])
    for (other, test), p in zip(tests.items(), corrected):
        yield Comparison(subject, other, column, test, p, test.verdict(p))


def compare(ours: Cell, theirs: Cell) -> Test | None:
    """The test that fits: paired, of two samples, or of two networks; None if there is nothing to judge by."""
    differences = significance.paired(ours, theirs)
    if len(differences) > 1:
        return dataclasses.replace(significance.paired_t(differences), images=_over_images(ours, theirs))
    if min(len(ours.values), len(theirs.values)) > 1:
        return significance.welch(ours.values, theirs.values)
    shared = [seed for seed in ours.seeds if seed in theirs.seeds]
    i, j = (cell.seeds.index(shared[0]) if shared else 0 for cell in (ours, theirs))
    if ours.right and theirs.right:
        a, b = significance.answers(ours.right[i]), significance.answers(theirs.right[j])
        if len(a) == len(b):
            return dataclasses.replace(significance.mcnemar(a, b), images=_over_images(ours, theirs))
    if ours.margin is None or theirs.margin is None:
        return None
    return significance.from_margins(ours.values[i] - theirs.values[j], (ours.margin, theirs.margin))


def _over_images(ours: Cell, theirs: Cell) -> tuple[float, float] | None:
    """The interval over images and the seeds that both have; None unless both have the answers to the same images."""
    shared = [seed for seed in ours.seeds if seed in theirs.seeds]
    if not (ours.right and theirs.right and shared):
        return None
    both = [[significance.answers(cell.right[cell.seeds.index(seed)]) for seed in shared] for cell in (ours, theirs)]
    if len({len(answers) for answers in (*both[0], *both[1])}) > 1:
        return None
    a, b = (np.stack(answers).astype(float) for answers in both)
    return significance.bootstrap(100 * (a - b))
