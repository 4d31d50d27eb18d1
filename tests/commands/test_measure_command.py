"""`shiftproof measure`: from files to a table and a page, and errors in the words of the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.small_networks import write_networks
from shiftproof.commands.main import main


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_networks(tmp_path_factory.mktemp("networks"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    colours = np.random.default_rng(0).integers(0, 256, (3, 20, 30, 3), dtype=np.uint8)
    for name, values in zip(("a.png", "more/b.JPG", "<script>alert(1)<&.png"), colours):
        Image.fromarray(values).save(folder / name)
    (folder / "notes.txt").write_text("not a picture, and not asked for")
    return folder


def test_a_folder_of_pictures_becomes_a_table_and_a_page(
    networks: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of pictures in, a table and a page out; as JSON the same numbers."""
    monkeypatch.syspath_prepend(networks)
    out = tmp_path / "new" / "measure.html"
    words = [
        "measure",
        str(networks / "model.onnx"),
        str(photos),
        str(photos / "a.png"),
        "--shifts",
        "9",
        "-o",
        str(out),
    ]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "under cropped shifts" in printed or "cropped shift" in printed
    assert "images: 3 of 8 x 8 pixels, 3 channels" in printed
    assert "normalisation: none, pixels in [0, 1]" in printed
    assert f"wrote {out}" in printed
    html = out.read_text()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;&amp;.png" in html
    assert [p.name for p in out.parent.iterdir()] == ["measure.html"]
    words = ["measure", "mine_to_measure:make", str(photos), "--size", "8", "--shifts", "5", "--kinds", "circular"]
    assert main([*words, "--mean", "imagenet", "--out", str(out), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["about"]["normalisation"] == "mean 0.485, 0.456, 0.406, std 0.229, 0.224, 0.225"
    assert record["file"] == str(out)
    assert len(record["kinds"]["circular"]["shifts"]) == 5
    assert [Path(i["name"]).name for i in record["kinds"]["circular"]["images"]] == sorted(
        ["a.png", "b.JPG", "<script>alert(1)<&.png"], key=lambda n: str(photos / ("more" if n == "b.JPG" else "") / n)
    )


def test_size_of_pictures_for_a_network_that_takes_any(
    networks: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their own where all are alike and small; else one size for all; in the colours of the network."""
    monkeypatch.syspath_prepend(networks)
    words = ["measure", "mine_to_measure:greys", str(photos), "--shifts", "2", "--kinds", "circular", "--json"]
    words += ["--out", str(tmp_path / "m.html")]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["about"]["images"] == "3 of 20 x 30 pixels, 1 channels"
    Image.new("L", (40, 40)).save(photos / "other.png")
    assert main([*words, "--std", "0.5"]) == 0
    about = json.loads(capsys.readouterr().out)["about"]
    assert about["images"] == "4 of 224 x 224 pixels, 1 channels"
    assert about["normalisation"] == "mean 0, std 0.5"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("model.pt2 photos --size 9", "`--size` (=9): model.pt2 takes images of 8 x 8 only. Leave `--size` out."),
        ("model.pt2 nowhere", "nowhere: no such file or folder"),
        ("model.pt2 empty", "empty: no pictures there"),
        ("model.pt2 photos/notes.txt", "notes.txt is not an image"),
        ("model.pt2 photos --shifts many", "`--shifts` (='many') must be all or a number"),
        ("model.pt2 photos --shifts 0", "`--shifts` (=0) must be at least 1"),
        ("model.pt2 photos --kinds circle", "`--kinds` (='circle') must be one of 'circular'"),
        ("model.pt2 photos --mean cifar", "`--mean` (=['cifar']) must be numbers, or imagenet"),
        ("model.pt2 photos --mean 1 2", "`--mean` (=(1.0, 2.0)) must be one number, or one per channel (3)"),
        ("model.pt2 photos --std 0", "`--std` (=0.0) must be positive"),
        ("mine_to_measure:greys photos --mean imagenet", "one per channel (1)"),
        ("mine_to_measure:many photos", "mine_to_measure:many: takes images of 7 channels"),
        ("mine_to_measure:maps photos", "mine_to_measure:maps: must return scores"),
        ("mine_to_measure:picky photos", "mine_to_measure:picky: fails on images of shape"),
    ],
)
def test_errors_name_the_file_or_the_option(
    words: str,
    message: str,
    networks: Path,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line, and no page."""
    monkeypatch.syspath_prepend(networks)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.pt2").write_bytes((networks / "model.pt2").read_bytes())
    (tmp_path / "empty").mkdir()
    assert main(["measure", *words.split()]) == 2
    assert message in capsys.readouterr().err
    assert not Path("measure.html").exists()


def test_fail_under(
    networks: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 1, and the reason on standard error, where fewer pairs keep their answer."""
    monkeypatch.chdir(tmp_path)
    words = ["measure", str(networks / "model.onnx"), str(photos), "--shifts", "9", "--quiet", "--kinds"]
    assert main([*words, "circular", "--fail-under", "100"]) == 0
    noted = capsys.readouterr()
    assert noted.err == ""
    monkeypatch.setattr("shiftproof.measurement.result.Measurement.failures", lambda self, least: [f"{least} must."])
    assert main([*words, "circular", "--fail-under", "99"]) == 1
    assert capsys.readouterr().err == "shiftproof: 0.99 must.\n"
    assert main([*words, "circular", "--fail-under", "101"]) != 0
    assert "`--fail-under` (=101) must be a percentage" in capsys.readouterr().err
