"""The findings: what differs, what is tied, in sentences."""

import pytest

from helpers.made_up_records import estimate, index, record
from shiftproof.experiments import catalogue
from shiftproof.reports import findings, paper_tables
from shiftproof.reports.table import Cell, differ, pooled_spread


def test_a_difference_within_the_spread_is_a_tie() -> None:
    a, b, c = Cell(values=(90.0, 91.0)), Cell(values=(90.4, 91.2)), Cell(values=(95.0, 95.1))
    spread = pooled_spread([a, b, c, Cell(values=(1.0,)), Cell()])
    assert spread == pytest.approx(((0.5 + 0.32 + 0.005) / 3) ** 0.5)
    assert differ(a, b, spread) is False
    assert differ(a, c, spread) is True
    assert differ(a, Cell(values=(95.0,))) is None
    assert pooled_spread([Cell(values=(1.0,))]) is None
    # of two seeds each more than 2 spreads apart, of twenty more than 1, though the standard error is smaller
    two, twenty = Cell(values=(0.0,) * 2), Cell(values=(0.0,) * 20)
    assert [differ(two, Cell(values=(v,) * 2), 1.0) for v in (1.9, 2.1)] == [False, True]
    assert [differ(twenty, Cell(values=(v,) * 20), 1.0) for v in (0.9, 1.1)] == [False, True]
    one, near, far = (Cell(values=(v,), margin=0.7) for v in (84.0, 84.9, 85.1))  # of one seed: 0.99 apart
    assert differ(one, near) is False
    assert differ(one, far) is True
    assert differ(one, near, 0.01) is False
    assert differ(one, far, 0.01) is True
    assert differ(one, far, 0.5) is False
    assert differ(one, Cell()) is None


def test_findings_name_what_is_ahead_tied_and_behind() -> None:
    """By the rule, for what was run; nothing if nothing was run."""
    right = {"ghs": (0.90, 0.92), "strided": (0.80, 0.82), "lpf": (0.91, 0.92), "aps": (0.95, 0.96)}
    made = []
    for method, values in right.items():
        for config, value in zip(
            catalogue.configs("table2", "laptop", methods=[method], seeds=[0, 1]), values, strict=True
        ):
            pairs = {
                "pairs": estimate(1.0 if method == "ghs" else 0.9),
                "largest_change": 0.0 if method == "ghs" else 2,
            }
            made.append(record(config, value, consistency={"all_pairs": pairs}))
    drawn = paper_tables.make_all(index(*made), "laptop")
    found = dict(findings.from_tables(drawn))
    assert found["Classification accuracy on CIFAR-10, ResNet-20"] == (
        "GHS 91.00 ± 1.41 (n=2): ahead of Baseline (strided) (+10.00); tied with LPF-3 (-0.50); behind APS-3 (-4.50)."
    )
    assert "APS-3 90.00 % (2) and GHS 100.00 % (0)." in found["CIFAR-10, ResNet-20"]
    assert "Ablation" not in found
    assert findings.from_tables(paper_tables.make_all(index(), "laptop")) == []


def test_the_front_is_compared_with_the_network_without_it() -> None:
    """What it wins and what it loses, by the intervals of single runs."""
    made = []
    for row, (unshifted, worst) in {"ghs": (0.9, 0.5), "GHS, front": (0.8, 0.79), "lpf": (0.81, 0.4)}.items():
        (config,) = catalogue.configs("subpixel", "laptop", methods=[row])
        integer = {"unshifted": estimate(unshifted, 0.01), "accuracy": estimate(0.0, 0.01)}
        adversarial = {"integer": integer, "fractional": {"accuracy": estimate(worst, 0.01)}}
        made.append(record(config, 0.0, adversarial=adversarial))
    found = dict(findings.from_tables([paper_tables.make("subpixel", index(*made), "laptop")]))
    about = "Parts of a pixel, CIFAR-10, ResNet-20"
    assert found == {
        f"{about}, accuracy": "GHS, front 80.00 (n=1): tied with LPF-3 (-1.00); behind GHS (-10.00).",
        f"{about}, worst eighth": "GHS, front 79.00 (n=1): ahead of LPF-3 (+39.00) and GHS (+29.00).",
    }


def test_the_ablation_ranks_the_default() -> None:
    """The place of the default, and what is better than it."""
    right = {"ghs": 0.60, "anchor: corner": 0.61, "orders: 2N": 0.70, "orders: N": 0.50}
    made = [
        record(catalogue.configs("ablation", "laptop", methods=[name], seeds=[0])[0], value, "validation")
        for name, value in right.items()
    ]
    ((about, words),) = findings.from_tables([paper_tables.make("ablation", index(*made), "laptop")])
    assert about == "Ablation"
    assert "the default, 60.00 (n=1), is number 3 of 4" in words
    assert "better than the default: orders: 2N." in words
