"""The tables: the paper's numbers and ours, from the right records and from nowhere else."""

from typing import Any

import pytest

from helpers.made_up_records import cell, estimate, index, record
from shiftproof.experiments import catalogue, paper, records
from shiftproof.layers import resolve_options
from shiftproof.reports import layouts, paper_tables
from shiftproof.reports.table import Cell
from shiftproof.training.config import configure


def test_a_cell_has_n_mean_and_spread() -> None:
    """One record per seed, in the order of seeds, whatever the order of files."""
    runs = [
        record(c, 0.8 + 0.02 * c.run.seed) for c in catalogue.configs("table2", "laptop", methods=["ghs"], seeds=[1, 0])
    ]
    found = cell(paper_tables.make("table2", index(*runs), "laptop"), "ghs", "ResNet-20")
    assert found.values == pytest.approx((80.0, 82.0))
    assert found.files == ("1.json", "0.json")
    assert found.ours() == "81.00 ± 1.41 (n=2)"
    assert found.theirs() == "91.72 ± 0.18"
    assert Cell(values=(1.0,)).ours() == "1.00 (n=1)"
    assert Cell().ours() == "not run"
    assert Cell(run=True).ours() == "-"
    assert Cell().theirs() == ""


def test_only_the_runs_of_a_table_are_in_it() -> None:
    """Other settings, another preset, other images, another part of the data: not this cell."""
    right = catalogue.configs("table2", "laptop", methods=["ghs"], seeds=[0])[0]
    wrong = [
        record(configure("laptop", method="ghs", changes={"optim.lr": 0.1}), 0.1),
        record(configure("paper", method="ghs", model="resnet20"), 0.2),
        record(configure("laptop", method="ghs", dataset="cifar100"), 0.3),
        record(right, 0.4, part="validation"),
        record(configure("laptop", method="ghs", changes={"model.options": {"anchor": "corner"}}), 0.5),
    ]
    assert cell(paper_tables.make("table2", index(*wrong), "laptop"), "ghs", "ResNet-20").values == ()
    found = cell(paper_tables.make("table2", index(*wrong, record(right, 0.6)), "laptop"), "ghs", "ResNet-20")
    assert found.values == pytest.approx((60.0,))


def test_old_records_are_found_when_settings_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that does not know a setting had the value from before it existed, whatever the default is now."""
    monkeypatch.setattr(records, "ADDED_SETTINGS", {"run.compile": False})
    old = record(catalogue.configs("table2", "laptop", methods=["lpf"], seeds=[0])[0], 0.7)
    del old["config"]["run"]["compile"]
    assert cell(paper_tables.make("table2", index(old), "laptop"), "lpf", "ResNet-20").values == pytest.approx((70.0,))


def test_the_papers_numbers_are_all_there() -> None:
    """Every number of tables 1 to 4 and figure 5 stands beside ours, both GHS rows beside the paper's one."""
    printed = {table.name: table for table in paper_tables.make_all(index(), "paper")}
    for name, numbers in (("table1", paper.CONSISTENCY), ("table2", paper.ACCURACY)):
        for model, column in numbers.items():
            for method, value in column.items():
                assert cell(printed[name], method, layouts.NETWORK_LABELS[model]).paper == value
    assert cell(printed["table1"], "ghs-paper", "ResNet-18").paper == (100.0, 0.0)
    assert cell(printed["table2"], "align", "ResNet-18").paper is None
    assert cell(printed["table3"], "aps", "accuracy").paper == (77.12, None)
    assert cell(printed["table4"], "ghs", "accuracy, rotated by 180°").paper == (49.68, None)
    assert cell(printed["table4"], "ghs", "accuracy, flipped vertically").paper is None
    assert cell(printed["figure5"], "da", "accuracy, 8 px").paper == (87.8, None)
    assert all(c.ours() == "not run" for t in printed.values() for _, cells in t.rows for c in cells)


def test_paths_lead_to_metrics() -> None:
    """The tables read what an evaluation writes: erasure, flips, shifts, the matrix."""
    config = catalogue.configs("table4", "laptop", methods=["ghs"], seeds=[0])[0]
    robustness = {
        "erasure": {
            "per_batch": {str(k): {"accuracy": estimate(0.5), "consistency": estimate(1.0)} for k in (0, 4, 6, 8)}
        },
        "half_turn": {"accuracy": estimate(0.4), "consistency": estimate(0.9)},
        "vertical_flip": {"accuracy": estimate(0.3), "consistency": estimate(0.8)},
        "noise": {"0.05": {"accuracy": estimate(0.6)}},
    }
    consistency = {"aps_protocol": estimate(0.99), "all_pairs": {"pairs": estimate(0.97), "largest_change": 0.0}}
    aliasing = {"aliased": 0.01, "matrix": {"constant": [0.9, 1.1], "kept": 1.0, "leaked": 0.0, "commutation": 0.08}}
    more: dict[str, Any] = {"robustness": robustness, "consistency": consistency, "aliasing": aliasing}
    made = index(record(config, 0.8, **more))
    assert cell(paper_tables.make("figure5", made, "laptop"), "ghs", "accuracy, 6 px").values == (50.0,)
    assert cell(paper_tables.make("table4", made, "laptop"), "ghs", "consistency, rotated by 180°").values == (90.0,)
    assert cell(paper_tables.make("table4", made, "laptop"), "ghs", "accuracy, flipped vertically").values == (30.0,)
    assert cell(paper_tables.make("table1", made, "laptop"), "ghs", "ResNet-20").values == (99.0,)
    assert cell(paper_tables.make("shifts", made, "laptop"), "ghs", "largest change of a logit").values == (0.0,)
    variant = catalogue.configs("ablation", "laptop", methods=["anchor: corner"], seeds=[0])[0]
    start = {"kernel": "hermite(taper=none)", "grid": "periodic", "pivot_rule": "max"}
    assert variant.model.options == resolve_options("ghs", start | {"anchor": "corner"})
    assert variant.data.limit == 10000
    ablation = paper_tables.make("ablation", index(record(variant, 0.7, "validation", **more)), "laptop")
    assert cell(ablation, "anchor: corner", "R: largest gain").values == (1.1,)
    assert cell(ablation, "anchor: corner", "noise 0.05, %").values == (60.0,)
    assert cell(ablation, "ghs", "accuracy, %").values == ()
    assert cell(ablation, "anchor: corner", "R: largest gain").ours() == "1.10"
    assert cell(ablation, "anchor: corner", "half a pixel, %").ours() == "-"


def test_each_grid_has_its_columns() -> None:
    """Accuracy without a shift and under the worst one, agreement, the largest change; each from its own grid."""
    grids = {
        name: {
            "unshifted": estimate(0.9 + k / 100),
            "accuracy": estimate(0.5 + k / 100),
            "pairs": estimate(0.7 + k / 100),
            "largest_change": k / 4,
        }
        for k, name in enumerate(("integer", "half", "fractional", "crop"))
    }
    (config,) = catalogue.configs("subpixel", "laptop", methods=["GHS, front"])
    table = paper_tables.make("subpixel", index(record(config, 0.1, adversarial=grids)), "laptop")
    row = next(cells for label, cells in table.rows if label == "GHS, front")
    assert [c.mean for c in row] == pytest.approx([90, 50, 51, 52, 93, 53, 71, 72, 73, 0.25, 0.5, 0.75])
    assert table.columns[5] == "worst crop, %"
    assert cell(table, "ghs", "worst crop, %").values == ()  # without the front: another run


def test_the_benchmark_has_a_column_where_it_was_measured() -> None:
    """That of the official MNIST-rot, beside the paper's split."""
    config = catalogue.configs("table5", "laptop", methods=["ghs"], seeds=[0])[0]
    name = "accuracy, 50,000 images, %"
    assert name not in paper_tables.make("table5", index(record(config, 0.9)), "laptop").columns
    official = record(config, 0.9)
    official["metrics"]["accuracy"]["benchmark"] = estimate(0.8)
    table = paper_tables.make("table5", index(official), "laptop")
    assert cell(table, "ghs", name).values == pytest.approx((80.0,))
    assert cell(table, "ghs", "accuracy, %").values == pytest.approx((90.0,))
    assert cell(table, "max", name).values == ()
