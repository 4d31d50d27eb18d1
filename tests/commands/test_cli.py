"""The command line, as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shiftproof import environment
from shiftproof.commands.main import main
from shiftproof.evaluation import efficiency
from shiftproof.experiments import bench, cameraman
from shiftproof.layers import methods


def test_cameraman_prints_the_table_and_writes_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """GHS is zero in every column, the others are not; the paper's numbers stand beside ours."""
    assert main(["cameraman", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for number in ("2.77", "0.70", "0.48", "0.00"):
        assert number in printed
    rows = {r["label"]: r for r in json.loads((tmp_path / "cameraman.json").read_text())["rows"]}
    assert set(rows) == {label for label, *_ in cameraman.ROWS}
    for label, row in rows.items():
        values = [row[part][kind] for part in ("shift", "all") for kind in ("sum", "mean", "max")]
        assert all(v == 0 for v in values) == label.startswith("GHS")
        assert row["all"]["exact"] == label.startswith("GHS")
    for name in ("figure2_functions", "figure3_process", "figure4_comparison"):
        with Image.open(tmp_path / f"{name}.png") as picture:
            picture.load()
            assert min(picture.size) > 600
            assert len(np.unique(np.asarray(picture.convert("L")))) > 50  # not blank


def test_cameraman_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cameraman", "--json", "--size", "8", "--shift", "2", "3", "--out", str(tmp_path)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["shift"] == [2, 3]
    assert record["size"] == 8
    assert all(Path(f).exists() for f in record["files"])


def test_absolute_difference_is_what_it_says() -> None:
    """Sum, mean and maximum of |O(f) - O(f')| for one shift."""
    image, _ = cameraman.load_image(None, 32)
    rows = cameraman.measure(image, (1, 1))
    pooled = torch.nn.functional.max_pool2d
    change = (pooled(image, 2) - pooled(image.roll((1, 1), (2, 3)), 2)).abs()
    assert rows[0]["method"] == "max"
    assert rows[0]["shift"]["sum"] == pytest.approx(float(change.sum()), rel=1e-6)
    assert rows[0]["shift"]["mean"] == pytest.approx(float(change.mean()), rel=1e-6)
    assert rows[0]["shift"]["max"] == pytest.approx(float(change.max()), rel=1e-6)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "CMYK", "I;16", "F", "P", "1"])
def test_images_of_any_kind(mode: str, tmp_path: Path) -> None:
    """Colour, alpha, 16 bits: all become grey in [0, 1], cut to the central square."""
    grey = (np.linspace(0, 1, 40 * 60).reshape(40, 60) * 255).astype(np.uint8)
    if mode == "I;16":
        picture = Image.fromarray(grey.astype(np.uint16) * 257)
    elif mode == "F":
        picture = Image.fromarray(grey.astype(np.float32) / 255)
    else:
        picture = Image.fromarray(grey).convert(mode)
    path = tmp_path / ("image.tif" if mode in ("I;16", "F", "CMYK") else "image.png")
    picture.save(path)
    image, name = cameraman.load_image(path, 10)
    assert image.shape == (1, 1, 10, 10)
    assert 0 <= float(image.min()) < 0.2
    assert 0.8 < float(image.max()) <= 1
    assert name == path.name


def test_area_average_keeps_the_mean() -> None:
    weights = cameraman._area_weights(512, 31)
    assert np.allclose(weights.sum(1), 1)
    assert np.allclose(weights.sum(0), 31 / 512)


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"not an image", [], "is not an image that Pillow can read"),
        (b"", [], "is not an image that Pillow can read"),
        (None, [], "No such file or directory"),
        ("tiny", [], r"`size` (=32) must be at most the image's shorter side (=4)"),
        ("tiny", ["--size", "1"], "`size` (=1) must be at least 2"),
    ],
)
def test_bad_images(
    content: object, arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message and exit code 2, never a stack trace."""
    path = tmp_path / "image.png"
    if content == "tiny":
        Image.new("L", (4, 4)).save(path)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    assert main(["cameraman", "--image", str(path), "--out", str(tmp_path), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_missing_extra_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A command whose extra is missing says which one to install."""
    code = (
        "import sys\nsys.modules['matplotlib'] = None\n"
        "from shiftproof.commands.main import main\nsys.exit(main(['cameraman']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "`shiftproof cameraman` needs matplotlib" in done.stderr
    assert "pip install 'shiftproof[report]'" in done.stderr


def test_bench_misses_its_extra_before_the_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(bench, "measure_layers", lambda *_: pytest.fail("it measured first"))
    assert main(["bench"]) == 2


def test_a_missing_module_of_ours_is_not_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise ModuleNotFoundError("no", name="shiftproof.nothing")

    monkeypatch.setattr(cameraman, "run", broken)
    with pytest.raises(ModuleNotFoundError):
        main(["cameraman"])


def test_version_and_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code in ((["--version"], 0), ([], 2), (["camera"], 2)):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == code
    done = subprocess.run([sys.executable, "-m", "shiftproof", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("shiftproof ")


def test_ctrl_c_at_the_very_beginning(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "parser", interrupted)
    assert main(["train"]) == 130
    assert capsys.readouterr().err == "shiftproof: stopped.\n"


def test_bench_measures_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small sizes here; the numbers themselves are nobody's business in a test."""
    from helpers import zoo  # noqa: F401

    monkeypatch.setattr(bench, "SIZES", [(2, 3, 8, 8), (2, 8, 4, 6)])
    monkeypatch.setattr(bench, "NETWORKS", {"resnet20": (2, 8)})
    monkeypatch.setattr(bench, "CONVERTED", (2, 32))
    monkeypatch.setattr(bench, "MAPS", (4, 8))
    assert main(["bench", "--quick", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "GHS / APS-3, each in its better layout" in printed
    assert "resnetblur18 per FLOP of convolution" in printed
    assert main(["bench", "--quick", "--json", "--out", str(tmp_path)]) == 0
    records = json.loads(capsys.readouterr().out)
    assert records == {part: json.loads((tmp_path / f"{part}.json").read_text()) for part in records}
    assert list(records) == ["layers", "networks", "scaling"]
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
    assert "`PART` (='layer') must be one of 'layers', 'networks', 'scaling'" in capsys.readouterr().err
    assert main(["bench", "scaling", "--quick", "--json", "--out", str(tmp_path)]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["scaling"]


def test_bench_does_without_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("kornia.filters", "timm", "timm.layers.blur_pool"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(bench, "NETWORKS", {})
    assert bench.peers(3) == {}
    assert list(bench.measure_networks(1)) == []


def test_peak_memory_counts_what_is_held_at_once() -> None:
    x = torch.zeros(2**18)  # 1 MiB
    assert efficiency.peak_memory(lambda: x + 1) == pytest.approx(2**20, rel=1e-3)
    assert efficiency.peak_memory(lambda: ((x + 1) + 1) + 1) == pytest.approx(2 * 2**20, rel=1e-3)


def test_flops_of_convolutions() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=2, padding=1, groups=1), torch.nn.ReLU())
    assert efficiency.flops(net, torch.rand(5, 3, 8, 8)) == 2 * 27 * 8 * 16


def test_timing_takes_turns() -> None:
    """Every call is made in every round, warm-up included, and only rounds that count are kept."""
    order: list[str] = []
    timings = efficiency.in_turns([lambda: order.append("a"), lambda: order.append("b")], repetitions=3, warm_up=2)
    assert order == ["a", "a", "b", "b"] * 5
    assert [t.repetitions for t in timings] == [3, 3]


def test_processor_is_named_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(self: Path) -> str:
        raise OSError

    assert isinstance(environment._processor(), str)
    monkeypatch.setattr(Path, "read_text", unreadable)
    assert isinstance(environment._processor(), str)
