"""Everything a reader can run is run."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import shiftproof as sp
from shiftproof.layers import base

EXAMPLES = Path(__file__).parents[1] / "examples"


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
        base._registry.pop("power", None)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    assert "ghs: largest change of the logits over 64 shifts 0\n" in done.stdout


def test_converting_a_trained_network(capsys: pytest.CaptureFixture[str]) -> None:
    """Consistency is whole after conversion, and fine-tuning brings the accuracy back."""
    namespace = runpy.run_path(str(EXAMPLES / "convert_digits.py"))
    results = namespace["main"](epochs=4, fine_tuning=4)
    assert results["before"][1] < 1
    assert results["converted"][1] == results["fine-tuned"][1] == 1
    assert results["fine-tuned"][0] > results["converted"][0] + 0.3
    assert "want fine-tuning" in capsys.readouterr().out
