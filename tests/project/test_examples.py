"""Everything a reader can run is run."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import shiftproof as sp
from shiftproof.layers import registry

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_registering_a_method() -> None:
    """In under 40 lines, and it is known everywhere."""
    path = EXAMPLES / "register_method.py"
    assert len(path.read_text().splitlines()) < 40
    try:
        namespace = runpy.run_path(str(path))
        layer = sp.create_downsample("power", channels=3, exponent=1.0)
        assert isinstance(layer, namespace["PowerPool"])
        x = torch.rand(2, 3, 7, 8)
        assert torch.allclose(layer(x), sp.create_downsample("avg", channels=3)(x), atol=1e-6)
    finally:
        registry._registry.pop("power", None)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    assert "ghs: largest change of the logits over 64 shifts 0\n" in done.stdout


def test_converting_a_trained_network(capsys: pytest.CaptureFixture[str]) -> None:
    """Consistency is whole after conversion, and fine-tuning brings the accuracy back."""
    namespace = runpy.run_path(str(EXAMPLES / "convert_digits.py"))
    results = namespace["main"](epochs=4, fine_tuning=4)
    assert results["before"][1] < 1
    assert results["converted"][1] == results["fine-tuned"][1] == 1
    assert results["fine-tuned"][0] > results["converted"][0] + 0.3
    assert "Fine-tune before use" in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("plot_*.py")), ids=lambda path: path.stem)
def test_gallery(path: Path, site: Path) -> None:
    """Under 60 lines; building the site ran it, and shows its picture, its words and its code."""
    assert len(path.read_text().splitlines()) < 60
    name = path.stem.removeprefix("plot_")
    with Image.open(site / "gallery" / f"{name}.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert min(pixels.shape[:2]) > 400
    assert len(np.unique(pixels)) > 50  # not blank
    assert (pixels[[0, 0, -1, -1], [0, -1, 0, -1]] == 255).all()  # on white, on purpose
    page = (site / "gallery" / f"{name}.html").read_text()
    assert f'src="{name}.png"' in page
    assert path.name in page
    assert f'src="{name}.png"' in (site / "gallery" / "index.html").read_text()


def test_notebook(site: Path) -> None:
    """Committed without outputs; building the site ran it to the last cell, and shows what it printed."""
    cells = json.loads((EXAMPLES / "quickstart.ipynb").read_text())["cells"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells if "outputs" in cell)
    page = (site / "quickstart.html").read_text()
    assert page.count("bit for bit") >= 3
    assert (site / "quickstart-1.png").stat().st_size > 10_000


def test_a_notebook_with_an_error_is_refused(tmp_path: Path) -> None:
    """The site cannot be built from it."""
    notebook = json.loads((EXAMPLES / "quickstart.ipynb").read_text())
    notebook["cells"][1]["source"] = ["1 / 0"]
    source = tmp_path / "broken.ipynb"
    source.write_text(json.dumps(notebook))
    command = [sys.executable, str(EXAMPLES.parent / "tools" / "notebook.py"), str(source), str(tmp_path / "out.ipynb")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stderr
