"""`shiftproof bench`: every part is measured and recorded, with and without other packages."""

import json
import sys
from pathlib import Path

import pytest
from PIL import Image

from shiftproof.commands.main import main
from shiftproof.experiments import bench
from shiftproof.layers import methods


def test_bench_misses_its_extra_before_the_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(bench, "measure_part", lambda *_: pytest.fail("it measured first"))
    assert main(["bench"]) == 2


def test_bench_measures_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small sizes here; the numbers themselves are nobody's business in a test."""
    from helpers import zoo  # noqa: F401

    monkeypatch.setattr(bench, "SIZES", [(2, 3, 8, 8), (2, 8, 4, 6)])
    monkeypatch.setattr(bench, "NETWORKS", {"resnet20": (2, 8)})
    monkeypatch.setattr(bench, "CONVERTED", (2, 32))
    monkeypatch.setattr(bench, "MAPS", (4, 8))
    monkeypatch.setattr(bench, "FRONTS", (1,))
    assert main(["bench", "--quick", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "GHS / APS-3, each in its better layout" in printed
    assert "resnetblur18 per FLOP of convolution" in printed
    assert main(["bench", "--quick", "--json", "--out", str(tmp_path)]) == 0
    records = json.loads(capsys.readouterr().out)
    assert records == {part: json.loads((tmp_path / f"{part}.json").read_text()) for part in records}
    assert list(records) == ["layers", "networks", "scaling", "front"]
    assert len(records["layers"]["rows"]) == 2 * 2 * 2
    for row in records["layers"]["rows"]:
        assert {"max", "LPF-3", "APS-3", "GHS", "floor", "LPF-3 (kornia)", "LPF-3 (timm)"} <= set(row["times"])
        assert all(0 < t["low"] <= t["median"] <= t["high"] for t in row["times"].values())
    strided = records["networks"]["rows"][0]["flops"]
    assert strided["ghs"] / strided["strided"] == pytest.approx(1.17, abs=0.01)
    assert set(records["scaling"]["rows"][0]["bytes"]) == set(methods())
    with Image.open(tmp_path / "scaling.png") as picture:
        assert min(picture.size) > 600
    assert main(["bench", "layer"]) == 2
    assert "`PART` (='layer') must be one of 'layers', 'networks', 'scaling', 'front'" in capsys.readouterr().err
    assert main(["bench", "scaling", "--quick", "--json", "--out", str(tmp_path)]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["scaling"]


def test_bench_does_without_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("kornia.filters", "timm", "timm.layers.blur_pool"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(bench, "NETWORKS", {})
    assert bench.peers(3) == {}
    assert list(bench.measure_networks(1)) == []
