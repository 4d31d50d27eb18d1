"""`shiftproof cameraman`: the table, the figures, any image."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shiftproof.commands.main import main
from shiftproof.experiments import cameraman


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
    rows = cameraman.measure_differences(image, "image", (1, 1))["rows"]
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


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"not an image", [], "is not an image that Pillow can read"),
        (b"", [], "is not an image that Pillow can read"),
        (None, [], "does not exist. Expected: an image of your own"),
        ("tiny", [], r"`--size` (=32) must be at most the image's shorter side (=4)"),
        ("tiny", ["--size", "1"], "`--size` (=1) must be at least 2"),
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
