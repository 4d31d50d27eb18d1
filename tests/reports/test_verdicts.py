"""Which test compares two cells, and what a table says of all of them."""

import pytest
import torch

from shiftproof.evaluation.statistics import pack
from shiftproof.experiments.significance import BEHIND, UNDECIDED
from shiftproof.reports import findings, table_formats, verdicts
from shiftproof.reports.table import Cell, Table

SEEDS = (0, 1, 2, 3)
OURS = Cell(values=(80.0, 81.0, 80.5, 80.2), seeds=SEEDS, margin=1.0)
BETTER = Cell(values=(84.0, 85.1, 84.4, 84.3), seeds=SEEDS, margin=1.0)
NEARBY = Cell(values=(80.4, 80.2, 81.4, 79.9), seeds=SEEDS, margin=1.0)


def answers(wrong: range) -> str:
    right = torch.ones(100, dtype=torch.bool)
    right[list(wrong)] = False
    return pack(right)


def name(a: Cell, b: Cell) -> str | None:
    found = verdicts.compare(a, b)
    return None if found is None else found.name


def test_the_test_fits_the_seeds() -> None:
    """Paired where two seeds are shared; Welch's where none are; intervals or McNemar's for one network each."""
    assert name(OURS, BETTER) == "paired t"
    assert name(OURS, Cell(values=(1.0, 2.0), seeds=(7, 8))) == "Welch"
    one = Cell(values=(80.0,), seeds=(3,), margin=1.0)
    found = verdicts.compare(OURS, one)
    assert found is not None
    assert (found.name, found.n) == ("intervals", 1)
    assert found.difference == pytest.approx(80.2 - 80.0)  # of the seed that both have
    assert name(OURS, Cell(values=(80.0,), seeds=(0,))) is None
    a = Cell(values=(90.0,), seeds=(0,), right=(answers(range(10)),))
    b = Cell(values=(80.0,), seeds=(0,), right=(answers(range(20)),))
    assert name(a, b) == "McNemar"
    assert name(a, Cell(values=(80.0,), seeds=(0,), right=(pack(torch.ones(3)),))) is None  # of other images


def test_stored_answers_add_an_interval_over_images() -> None:
    a = Cell(values=(90.0, 88.0), seeds=(0, 1), right=(answers(range(10)), answers(range(12))))
    b = Cell(values=(80.0, 79.0), seeds=(1, 0), right=(answers(range(20)), answers(range(21))))
    found = verdicts.compare(a, b)
    assert found is not None
    assert found.images is not None
    assert found.images[0] < 10 < found.images[1]
    same = verdicts.compare(a, a)
    assert same is not None
    assert same.images == (0.0, 0.0)
    assert verdicts.compare(a, Cell(values=b.values, seeds=b.seeds)).images is None  # type: ignore[union-attr]


def judged() -> Table:
    rows = (("GHS", (OURS, OURS)), ("LPF-3", (BETTER, NEARBY)), ("APS-3", (NEARBY, Cell())))
    table = Table("table2", "Table 9. Things, %", ("accuracy, %", "size"), rows)
    return verdicts.judge(table, ["GHS", "absent"], ["accuracy, %"])


def test_a_table_is_read_column_by_column() -> None:
    """Each row against ours, with Holm's correction over the rows; columns that are no percentages are left out."""
    found = {c.other: c for c in judged().comparisons}
    assert {other: c.verdict for other, c in found.items()} == {"LPF-3": BEHIND, "APS-3": UNDECIDED}
    assert found["LPF-3"].p == pytest.approx(2 * found["LPF-3"].test.p)
    assert {c.column for c in found.values()} == {"accuracy, %"}


def test_every_form_of_a_table_shows_the_comparisons() -> None:
    """Markdown names them, the cells of a page explain them, JSON has every number; findings begin with the losses."""
    table = judged()
    text = table_formats.to_markdown(table, "records")
    assert "| GHS, accuracy: 80.42 ± 0.43 (n=4) | LPF-3 (-4.02, n=4) | APS-3 (-0.05, n=4) |  |  |" in text
    page = table_formats.to_html(table)
    assert 'title="GHS minus LPF-3: -4.02 points, 95 % -4.' in page
    assert table.to_dict()["comparisons"][0]["verdict"] == "behind"
    first = findings.from_tables([table])[0]
    assert first == ("GHS behind, Things", "accuracy: LPF-3 (-4.02, n=4).")
