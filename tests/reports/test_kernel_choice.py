"""The default kernel follows from the table of kernels by the rule that was written before the runs."""

import math

import pytest

from helpers.made_up_records import cell, estimate, index, record
from shiftproof.experiments import catalogue
from shiftproof.reports import kernel_choice, paper_tables
from shiftproof.reports.kernel_choice import choose
from shiftproof.reports.table import Cell

WOBBLE = (0.0, 0.4, -0.3, 0.1)  # of each seed, the same for every kernel: pairing takes it away


def scores(**means: float) -> dict[str, Cell]:
    """Four seeds of `order0_1=60.0` and so on; a small noise of each kernel's own."""
    out = {}
    for k, (name, mean) in enumerate(means.items()):
        order, width = name.removeprefix("order").split("_")
        own = [0.05 * math.sin(3 * k + 2 * seed) for seed in range(4)]
        values = tuple(mean + w + o for w, o in zip(WOBBLE, own))
        out[f"order {order}, width {width}"] = Cell(values=values, seeds=(0, 1, 2, 3))
    return out


def test_the_best_wins_unless_a_lower_order_is_tied_with_it() -> None:
    found = scores(order0_1=60.0, order1_1=62.0, order2_1=62.01, order4_1=61.0)
    aliased = dict.fromkeys(found, 0.01)
    choice = choose(found, aliased, 0.02)
    assert choice.best == "order 2, width 1"
    assert choice.tied == ("order 1, width 1", "order 2, width 1")
    assert choice.chosen == "order 1, width 1"
    assert choice.refused == ()


def test_what_aliases_more_than_lpf_is_out() -> None:
    """However good it is; at the limit it is in."""
    found = scores(order0_1=65.0, order1_1=62.0)
    aliased = {"order 0, width 1": 0.0201, "order 1, width 1": 0.02}
    choice = choose(found, aliased, 0.02)
    assert (choice.chosen, choice.refused) == ("order 1, width 1", ("order 0, width 1",))


def test_of_one_order_the_width_next_to_one_wins() -> None:
    """Whatever comes first."""
    found = {f"order 2, width {width}": Cell(values=(62.0, 62.5), seeds=(0, 1)) for width in ("1.25", "1", "0.8")}
    choice = choose(found, dict.fromkeys(found, 0.0), 1.0)
    assert choice.chosen == "order 2, width 1"


def test_the_table_says_what_the_rule_chose() -> None:
    """From records to the verdict; before every candidate has two seeds it says nothing."""
    made = []
    for config in catalogue.configs("kernels", "laptop", seeds=list(range(8))):
        kernel = str(config.model.options.get("kernel", ""))
        value = 0.7 if "order=4, width=1.0" in kernel else 0.6
        found = record(config, value + 0.01 * config.run.seed, part="validation")
        found["metrics"]["accuracy"]["cropped"] = {"reflect": estimate(value)}
        found["metrics"]["robustness"] = {"noise": {"0.05": {"accuracy": estimate(value)}}}
        found["metrics"]["aliasing"] = {"aliased": 0.02, "kept": 0.5}
        found["training"] = {"final": {"loss": 1.0 + config.run.seed}}
        made.append(found)
    table = paper_tables.make("kernels", index(*made), "laptop")
    assert table.columns[-1] == kernel_choice.BEHIND
    assert table.notes[-1].startswith("By the rule: order 4, width 1. ")
    assert cell(table, "order 4, width 1", "score").mean == pytest.approx(100 * (0.735 + 0.7 + 0.7) / 3)
    assert cell(table, "LPF-3", kernel_choice.BEHIND).values == pytest.approx([10.0] * 8)
    assert cell(table, "LPF-3", "loss in training").values == tuple(range(1, 9))
    early = paper_tables.make("kernels", index(*made[: len(made) // 2]), "laptop")
    assert early.notes[-1] == "The rule does not decide yet: 4 of 8 seeds are there for every candidate."
    first = paper_tables.make("kernels", index(*made[: len(made) // 8]), "laptop")
    assert kernel_choice.BEHIND not in first.columns
