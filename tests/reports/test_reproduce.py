"""Tables and figures from records: the paper's number, ours, and nothing from anywhere else."""

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from shiftproof.commands.main import main
from shiftproof.experiments import bench, catalogue, paper, records, sweep
from shiftproof.layers import resolve_options
from shiftproof.reports import findings, html_page, paper_tables, render, reproduce
from shiftproof.reports.table import Cell, Shelf, Table, apart, pooled_spread
from shiftproof.training.config import Config, configure

ROOT = Path(__file__).parents[2]


def estimate(value: float, margin: float = 0.0) -> dict[str, Any]:
    return {"value": value, "low": value - margin, "high": value + margin, "n": 100}


def record(config: Config, accuracy: float, part: str = "test", **metrics: Any) -> records.Record:
    """A record of a run that never was."""
    settings = {"on": part}
    return records.make(
        key=records.identity(config.to_dict(), config.model.name, config.data.name, settings),
        name="made-up",
        model={
            "source": "run",
            "name": config.model.name,
            "method": config.recipe,
            "parameters": 1,
            "weights": "best",
            "sha256": "0" * 64,
        },
        seed=config.run.seed,
        config=config.to_dict(),
        training={"steps": 1},
        dataset={"name": config.data.name, "part": part, "source": "", "checksum": "0" * 64, "images": 1, "size": [3]},
        settings=settings,
        seconds=1.0,
        metrics={"accuracy": {"clean": estimate(accuracy, margin=0.01)}, **metrics},
    )


def shelf(*found: records.Record) -> Shelf:
    return Shelf({Path(f"{i}.json"): r for i, r in enumerate(found)})


def cell(table: Table, row: str, column: str) -> Cell:
    cells = dict(table.rows)[paper_tables.NAMES.get(row, row)]
    return cells[table.columns.index(column)]


def test_the_benchmark_has_a_column_where_it_was_measured() -> None:
    """That of the official MNIST-rot, beside the paper's split."""
    config = catalogue.configs("table5", "laptop", methods=["ghs"], seeds=[0])[0]
    name = "accuracy, 50,000 images, %"
    assert name not in paper_tables.table5(shelf(record(config, 0.9)), "laptop").columns
    official = record(config, 0.9)
    official["metrics"]["accuracy"]["benchmark"] = estimate(0.8)
    table = paper_tables.table5(shelf(official), "laptop")
    assert cell(table, "ghs", name).values == pytest.approx((80.0,))
    assert cell(table, "ghs", "accuracy, %").values == pytest.approx((90.0,))
    assert cell(table, "max", name).values == ()


def test_a_cell_has_n_mean_and_spread() -> None:
    """One record per seed, in the order of seeds, whatever the order of files."""
    runs = [
        record(c, 0.8 + 0.02 * c.run.seed) for c in catalogue.configs("table2", "laptop", methods=["ghs"], seeds=[1, 0])
    ]
    found = cell(paper_tables.table2(shelf(*runs), "laptop"), "ghs", "ResNet-20")
    assert found.values == pytest.approx((80.0, 82.0))
    assert found.files == ("1.json", "0.json")
    assert found.ours() == "81.00 ± 1.41 (n=2)"
    assert found.theirs() == "91.72 ± 0.18"
    assert Cell(values=(1.0,)).ours() == "1.00 (n=1)"
    assert Cell().ours() == "not run"
    assert Cell(run=True).ours() == "-"
    assert Cell().theirs() == ""


def test_only_the_runs_of_a_table_stand_in_it() -> None:
    """Other settings, another preset, other images, another part of the data: not this cell."""
    right = catalogue.configs("table2", "laptop", methods=["ghs"], seeds=[0])[0]
    wrong = [
        record(configure("laptop", method="ghs", changes={"optim.lr": 0.1}), 0.1),
        record(configure("paper", method="ghs", model="resnet20"), 0.2),
        record(configure("laptop", method="ghs", dataset="cifar100"), 0.3),
        record(right, 0.4, part="validation"),
        record(configure("laptop", method="ghs", changes={"model.options": {"anchor": "corner"}}), 0.5),
    ]
    assert cell(paper_tables.table2(shelf(*wrong), "laptop"), "ghs", "ResNet-20").values == ()
    found = cell(paper_tables.table2(shelf(*wrong, record(right, 0.6)), "laptop"), "ghs", "ResNet-20")
    assert found.values == pytest.approx((60.0,))


def test_old_records_are_found_when_settings_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that does not know a setting had the value from before it existed, whatever the default is now."""
    monkeypatch.setattr(records, "ADDED_SETTINGS", {"run.compile": False})
    old = record(catalogue.configs("table2", "laptop", methods=["lpf"], seeds=[0])[0], 0.7)
    del old["config"]["run"]["compile"]
    assert cell(paper_tables.table2(shelf(old), "laptop"), "lpf", "ResNet-20").values == pytest.approx((70.0,))


def test_the_papers_numbers_are_all_there() -> None:
    """Every number of tables 1 to 4 and figure 5 stands beside ours, both GHS rows beside the paper's one."""
    printed = {name: make(shelf(), "paper") for name, make in paper_tables.TABLES.items()}
    for name, numbers in (("table1", paper.CONSISTENCY), ("table2", paper.ACCURACY)):
        for method, row in numbers.items():
            for model, value in row.items():
                assert cell(printed[name], method, paper_tables.NETWORKS[model]).paper == value
    assert cell(printed["table1"], "ghs-paper", "ResNet-18").paper == (100.0, 0.0)
    assert cell(printed["table2"], "align", "ResNet-18").paper is None
    assert cell(printed["table3"], "aps", "accuracy").paper == (77.12, None)
    assert cell(printed["table4"], "ghs", "accuracy, turned by 180°").paper == (49.68, None)
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
    made = shelf(record(config, 0.8, **more))
    assert cell(paper_tables.erasure(made, "laptop"), "ghs", "accuracy, 6 px").values == (50.0,)
    assert cell(paper_tables.table4(made, "laptop"), "ghs", "consistency, turned by 180°").values == (90.0,)
    assert cell(paper_tables.table4(made, "laptop"), "ghs", "accuracy, flipped vertically").values == (30.0,)
    assert cell(paper_tables.table1(made, "laptop"), "ghs", "ResNet-20").values == (99.0,)
    assert cell(paper_tables.shifts(made, "laptop"), "ghs", "largest change of a logit").values == (0.0,)
    variant = catalogue.configs("ablation", "laptop", methods=["anchor: corner"], seeds=[0])[0]
    start = {"kernel": "hermite(taper=none)", "grid": "periodic", "pivot_rule": "max"}
    assert variant.model.options == resolve_options("ghs", start | {"anchor": "corner"})
    assert variant.data.limit == 10000
    ablation = paper_tables.ablation(shelf(record(variant, 0.7, "validation", **more)), "laptop")
    assert cell(ablation, "anchor: corner", "R: largest gain").values == (1.1,)
    assert cell(ablation, "anchor: corner", "noise 0.05, %").values == (60.0,)
    assert cell(ablation, "ghs", "accuracy, %").values == ()
    assert cell(ablation, "anchor: corner", "R: largest gain").ours() == "1.10"
    assert cell(ablation, "anchor: corner", "half a pixel, %").ours() == "-"


def test_every_variant_of_the_ablation_runs() -> None:
    """Each row is a network of its own."""
    from shiftproof.models import create_model

    configs = catalogue.configs("ablation", "smoke", seeds=[0])
    assert len({records.identity(c.to_dict(), "", "", {}) for c in configs}) == len(catalogue.ABLATION)
    for c in configs:
        model = create_model(c.model.name, c.model.method, head=c.model.head, share=c.model.share, **c.model.options)
        assert model(torch.rand(2, 3, 32, 32)).isfinite().all()
    assert catalogue.settings("ablation", "laptop").on == "validation"


def test_a_difference_within_the_spread_is_a_tie() -> None:
    a, b, c = Cell(values=(90.0, 91.0)), Cell(values=(90.4, 91.2)), Cell(values=(95.0, 95.1))
    spread = pooled_spread([a, b, c, Cell(values=(1.0,)), Cell()])
    assert spread == pytest.approx(((0.5 + 0.32 + 0.005) / 3) ** 0.5)
    assert apart(a, b, spread) is False
    assert apart(a, c, spread) is True
    assert apart(a, Cell(values=(95.0,))) is None
    assert pooled_spread([Cell(values=(1.0,))]) is None
    # of two seeds each more than 2 spreads apart, of twenty more than 1, though the standard error is smaller
    two, twenty = Cell(values=(0.0,) * 2), Cell(values=(0.0,) * 20)
    assert [apart(two, Cell(values=(v,) * 2), 1.0) for v in (1.9, 2.1)] == [False, True]
    assert [apart(twenty, Cell(values=(v,) * 20), 1.0) for v in (0.9, 1.1)] == [False, True]
    one, near, far = (Cell(values=(v,), margin=0.7) for v in (84.0, 84.9, 85.1))  # of one seed: 0.99 apart
    assert apart(one, near) is False
    assert apart(one, far) is True
    assert apart(one, near, 0.01) is False
    assert apart(one, far, 0.01) is True
    assert apart(one, far, 0.5) is False
    assert apart(one, Cell()) is None


def test_the_reading_names_what_is_ahead_tied_and_behind() -> None:
    """Of what was run, by the rule; as a list in the document, and nothing where nothing was run."""
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
    drawn = [make(shelf(*made), "laptop") for make in paper_tables.TABLES.values()]
    found = dict(findings.findings(drawn))
    assert found["Classification accuracy on CIFAR-10, ResNet-20"] == (
        "GHS 91.00 ± 1.41 (n=2): ahead of Baseline (strided) (+10.00); tied with LPF-3 (-0.50); behind APS-3 (-4.50)."
    )
    assert "APS-3 90.00 % (2) and GHS 100.00 % (0)." in found["CIFAR-10, ResNet-20"]
    assert "Ablation" not in found
    assert findings.findings([make(shelf(), "laptop") for make in paper_tables.TABLES.values()]) == []


def test_the_reading_of_the_ablation() -> None:
    """The place of the default, and what is better than it."""
    right = {"ghs": 0.60, "anchor: corner": 0.61, "orders: 2N": 0.70, "orders: N": 0.50}
    made = [
        record(catalogue.configs("ablation", "laptop", methods=[name], seeds=[0])[0], value, "validation")
        for name, value in right.items()
    ]
    ((about, words),) = findings.findings([paper_tables.ablation(shelf(*made), "laptop")])
    assert about == "Ablation"
    assert "the default, 60.00 (n=1), is number 3 of 4" in words
    assert "better than the default: orders: 2N." in words


def test_forms() -> None:
    """Markdown links to the records, HTML escapes, and both say what was not run."""
    run = record(catalogue.configs("table2", "laptop", methods=["ghs"], seeds=[0])[0], 0.9)
    table = paper_tables.table2(shelf(run), "laptop")
    text = render.markdown(table, "records")
    assert "| GHS [1](records/0.json) |" in text
    assert "paper 91.72 ± 0.18<br>90.00 (n=1)" in text
    assert "not run" in text
    odd = Table(
        "x", "<b>", ("a & b, %",), (("<i>", (Cell(values=(1.0,), files=('"<',)),)), ("j", (Cell(values=(2.0,)),)))
    )
    page = render.html(odd)
    assert "<i>" not in page
    assert "a &amp; b" in page
    assert "<strong>2.00 (n=1)</strong>" in page
    assert json.loads(json.dumps(table.to_dict()))["rows"][-1]["cells"][1]["values"] == [90.0]


def test_reproduce_draws_from_records_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a record no cell has a number of ours; pictures are drawn; --json has it all."""
    assert main(["reproduce", "table1", "figure1", "figure5", "cameraman", "--draw-only", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "README.md").read_text()
    body = text[text.index("Table 1") :]
    assert not re.search(r"\(n=", body[: body.index("\n\n![")])
    assert body.count("not run") >= 24
    assert "figure5_erasure.png" not in text  # nothing to draw
    capsys.readouterr()
    run = record(catalogue.configs("table1", "laptop", methods=["ghs"], seeds=[0])[0], 0.9)
    run["metrics"]["consistency"] = {"aps_protocol": estimate(1.0)}
    run["metrics"]["robustness"] = {"erasure": {"per_batch": {"4": {"accuracy": estimate(0.8)}}}}
    records.write(run, tmp_path / "records")
    assert main(["reproduce", "table1", "figure5", "--draw-only", "--json", "--out", str(tmp_path)]) == 0
    assert "figure5_erasure.png" in (tmp_path / "README.md").read_text()
    found = json.loads(capsys.readouterr().out)
    ghs = next(row for row in found["tables"][0]["rows"] if row["row"] == "GHS")
    assert ghs["cells"][1]["values"] == [100.0]
    assert f"records/{ghs['cells'][1]['records'][0]}" in (tmp_path / "README.md").read_text()
    with Image.open(tmp_path / "figure1_symmetry.png") as picture:
        assert min(picture.size) > 800
    assert main(["reproduce", "table9", "--draw-only", "--out", str(tmp_path)]) == 2
    assert "Did you mean" in capsys.readouterr().err


def test_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file, nothing from the network: tables with numbers, figures, a heat map per method, all records."""
    pairs = {"pairs": estimate(0.9), "map": [[1.0, 0.5], [0.5, None]], "change_map": [[0.0, 1.0], [2.0, None]]}
    for method in ("strided", "ghs"):
        (config,) = catalogue.configs("table4", "laptop", methods=[method], seeds=[0])
        right = 0.9 if method == "ghs" else 0.8
        made = record(config, right, consistency={"aps_protocol": estimate(1.0), "all_pairs": pairs})
        records.write(made | {"name": f"made-up-{method}"}, tmp_path / "records")
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "records"), "-o", str(out)]) == 0
    text = out.read_text()
    assert "2 evaluations, 2 methods, cifar10." in text
    assert "<strong>90.00 (n=1)</strong>" in text
    assert "Not run: Table 3, Figure 5, Table 5, Ablation" in text
    assert text.count("<picture>") == 2
    assert "made-up-ghs-" in text
    assert not re.search(r"(src|href)=(?!.data:)", text)
    assert main(["report", str(tmp_path / "records"), "-o", str(out), "--json", "--preset", "paper"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["records"] == 2
    (tmp_path / "empty").mkdir()
    assert main(["report", str(tmp_path / "empty"), "-o", str(out)]) == 2
    assert "no record there" in capsys.readouterr().err


def test_reproduce_runs_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that share runs share them; the cost is measured where no record of it is there."""
    asked: list[str] = []

    def performed(config: Config, **_: Any) -> records.Record:
        asked.append(catalogue.run_name(config))
        made = record(config, 0.5)
        settings = catalogue.settings("table1", "smoke").to_dict()
        return made | {"key": records.identity(config.to_dict(), config.model.name, config.data.name, settings)}

    timed = {"max": 1e-4, "LPF-3": 2e-4, "APS-3": 4e-4, "GHS": 1e-4}
    row = {"layout": "contiguous", "pass": "forward", "times": {k: {"median": v} for k, v in timed.items()}}
    layers = {"machine": {"processor": "p", "threads": 1}, "rows": [row]}

    def benched(out: Path, *_: Any) -> int:
        (out / "layers.json").write_text(json.dumps(layers))
        return 0

    monkeypatch.setattr(sweep, "perform", performed)
    monkeypatch.setattr(bench, "run", benched)
    (tmp_path / "out").mkdir()
    words = ["reproduce", "table1", "table2", "table4", "table6", "--preset", "smoke", "--out", str(tmp_path / "out")]
    assert main([*words, "--runs", str(tmp_path / "runs")]) == 0
    assert len(asked) == len(set(asked)) == 7
    text = (tmp_path / "out" / "README.md").read_text()
    assert "50.00 (n=1)" in text
    assert (
        "[1](layers.json) | paper 2.710 ± 0.120<br>0.100 | paper 10.04<br>1.00 |" in text
    )  # table 6: the paper's ratio and ours
    before = copy.copy(asked)
    assert main([*words, "--runs", str(tmp_path / "runs")]) == 0
    assert asked == before


def test_names_are_drawn_in_order() -> None:
    assert reproduce.chosen(["table2", "figure1"]) == ["figure1", "table2"]
    assert reproduce.chosen(["all"]) == list(reproduce.NAMES)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser here")
def test_no_column_is_lost_on_paper() -> None:
    """Every table of the results, on A4 with the margins of the page: none is wider than the sheet."""
    from playwright.sync_api import sync_playwright

    found = Shelf({path: records.read(path) for path in records.find([ROOT / "results" / "records"])})
    made = [make(found, "laptop") for make in paper_tables.TABLES.values()]
    text = html_page.page("results", [(table.title, render.html(table)) for table in made])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        sheet = browser.new_page(viewport={"width": 680, "height": 1000})
        sheet.emulate_media(media="print")
        sheet.set_content(text)
        wide = sheet.evaluate("[...document.querySelectorAll('table')].map(t => t.scrollWidth)")
        browser.close()
    assert len(wide) == len(made)
    assert max(wide) <= 680
