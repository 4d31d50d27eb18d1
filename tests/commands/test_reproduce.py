"""`shiftproof reproduce`: runs what is missing, and draws tables and figures from records alone."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from helpers.made_up_records import estimate, record
from shiftproof.commands import reproduce
from shiftproof.commands.main import main
from shiftproof.experiments import bench, catalogue, records, sweep
from shiftproof.reports import layouts, paper_figures
from shiftproof.training.config import Config

TIMES = {"max": 1e-4, "LPF-3": 2e-4, "APS-3": 4e-4, "GHS of the paper": 2e-4, "GHS": 1e-4}
ROW = {"layout": "contiguous", "pass": "forward", "times": {k: {"median": v} for k, v in TIMES.items()}}
LAYERS = {"machine": {"processor": "p", "threads": 1}, "rows": [ROW]}


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


def test_reproduce_runs_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that share runs share them; the cost is measured where no record of it is there."""
    asked: list[str] = []

    def performed(config: Config, **_: Any) -> records.Record:
        asked.append(catalogue.run_name(config))
        made = record(config, 0.5)
        settings = catalogue.settings("table1", "smoke").to_dict()
        return made | {"key": records.identity(config.to_dict(), config.model.name, config.data.name, settings)}

    monkeypatch.setattr(sweep, "perform", performed)
    monkeypatch.setattr(bench, "measure_part", {"layers": LAYERS}.__getitem__)
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


def test_results_of_another_preset_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "table1", "--draw-only", "--out", str(tmp_path)]
    assert main(words) == 0
    before = (tmp_path / "README.md").read_text()
    assert main([*words, "--preset", "smoke"]) == 2
    assert "has the results of the preset 'laptop'; give those of 'smoke' a folder" in capsys.readouterr().err
    assert (tmp_path / "README.md").read_text() == before


@pytest.mark.parametrize("content", ["{}", '{"bad', "[]"])
def test_damaged_numbers_are_named(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "layers.json").write_text(content)
    assert main(["reproduce", "table1", "--draw-only", "--out", str(tmp_path)]) == 2
    assert "layers.json: cannot be read (" in capsys.readouterr().err


def test_options_are_named_as_they_are_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for word, value in (("--jobs", "0"), ("--preset", "nope")):
        assert main(["reproduce", "table1", "--out", str(tmp_path), word, value]) == 2
        assert f"`{word}` (=" in capsys.readouterr().err


def test_names_are_drawn_in_order() -> None:
    assert reproduce.choose(["table2", "figure1", "table2"]) == ["figure1", "table2"]
    assert reproduce.choose(["all"]) == reproduce.choose([])
    assert {*layouts.TABLES, *paper_figures.FILES, "cameraman", "table6"} == set(reproduce.choose([]))


def test_one_table_does_not_overwrite_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The document has every table and figure there is; names choose what is printed and drawn again."""
    config = catalogue.configs("table1", "laptop", methods=["ghs"], seeds=[0])[0]
    wave = {"energy": [1.0, 0.5], "constant": [0.0, 0.0]}
    aliasing = {"method": "ghs", "frequencies": [1, 2], "output": 2, "axis": wave, "diagonal": wave, "aliased": 0.1}
    erasure = {"per_batch": {"4": {"accuracy": estimate(0.8)}}}
    records.write(record(config, 0.9, aliasing=aliasing, robustness={"erasure": erasure}), tmp_path / "records")
    (tmp_path / "layers.json").write_text(json.dumps(LAYERS))
    words = ["reproduce", "--draw-only", "--out", str(tmp_path)]
    assert main([*words, "all"]) == 0
    whole = (tmp_path / "README.md").read_text()
    assert whole.count("\n### ") == len(layouts.TABLES) + 2
    assert all(f"({file})" in whole for file in paper_figures.FILES.values())
    times = {file: (tmp_path / file).stat().st_mtime_ns for file in paper_figures.FILES.values()}
    capsys.readouterr()
    assert main([*words, "table1"]) == 0
    assert (tmp_path / "README.md").read_text() == whole
    assert {file: (tmp_path / file).stat().st_mtime_ns for file in times} == times
    printed = capsys.readouterr().out
    assert "Table 1" in printed
    assert "Table 2" not in printed


def test_records_elsewhere_are_linked_from_the_document(tmp_path: Path) -> None:
    """Links to records lead from the document to them; those to the cameraman's numbers stay beside it."""
    config = catalogue.configs("table2", "laptop", methods=["ghs"], seeds=[0])[0]
    path = records.write(record(config, 0.9), tmp_path / "elsewhere")
    out = tmp_path / "out"
    words = ["reproduce", "cameraman", "--draw-only", "--out", str(out), "--records", str(path.parent)]
    assert main(words) == 0
    links = set(re.findall(r"\]\(([^)]+\.json)\)", (out / "README.md").read_text()))
    assert links == {f"../elsewhere/{path.name}", "cameraman.json"}
    assert all((out / link).exists() for link in links)
