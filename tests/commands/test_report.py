"""`shiftproof report`: one page from records."""

import json
import re
from pathlib import Path

import pytest

from helpers.made_up_records import estimate, record
from shiftproof.commands.main import main
from shiftproof.experiments import catalogue, records


def test_the_page_has_everything_and_needs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert "Not run: Table 3, Figure 5, Noise, CIFAR-10, ResNet-20, " in text
    assert text.count("<picture>") == 2
    assert "made-up-ghs-" in text
    assert not re.search(r"(src|href)=(?!.data:)", text)
    assert main(["report", str(tmp_path / "records"), "-o", str(out), "--json", "--preset", "paper"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["records"] == 2
    (tmp_path / "empty").mkdir()
    assert main(["report", str(tmp_path / "empty"), "-o", str(out)]) == 2
    assert "no records there" in capsys.readouterr().err
