"""`shiftproof demo`: the whole story, shortened."""

import dataclasses
import json
from pathlib import Path

import pytest

from shiftproof.commands.main import main
from shiftproof.experiments import catalogue

SHORT = {"optim.epochs": 1, "optim.batch_size": 256, "data.limit": 256}


def test_the_demo_ends_with_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table of layers, four networks, one self-contained page, whose path stands last; again: nothing is run."""
    whole = catalogue.SWEEPS["digits"]
    rows = {name: dict(row) | SHORT for name, row in whole.rows.items()}
    monkeypatch.setitem(catalogue.SWEEPS, "digits", dataclasses.replace(whole, rows=rows, shift_images=4))
    assert set(rows) == {"strided", "lpf", "aps", "ghs"}
    assert main(["demo", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1].endswith("report.html")
    assert "max pooling" in printed.out
    assert "4 to do" in printed.err
    page = (tmp_path / "report.html").read_text()
    assert "With GHS it stays at" in page
    assert page.count("data:image/png;base64") == 1 + 2 * 4  # the cameraman, heat maps in light and dark
    assert "http://" not in page
    assert "https://" not in page
    assert main(["demo", "--out", str(tmp_path), "--json"]) == 0
    again = capsys.readouterr()
    assert "4 on record, 0 to do" in again.err
    ours = {row["row"]: row["cells"] for row in json.loads(again.out)["digits"]["rows"]}["GHS"]
    assert {c["column"]: c["values"] for c in ours}["largest change of a logit"] == [0.0]
