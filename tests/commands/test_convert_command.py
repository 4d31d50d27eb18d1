"""`cameraman`, `bench` and `convert` as a user meets them."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import safetensors.torch
import torch

from shiftproof import convert
from shiftproof.commands.main import main

MINE = """
from torch import nn

def make():
    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

network = make()
number = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine_for_tests.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_convert(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A network of the user's own, with weights, into a file that keeps the law."""
    torch.manual_seed(1)
    source = importlib.import_module("mine_for_tests").make().eval()
    torch.save(source.state_dict(), mine / "weights.pt")
    safetensors.torch.save_file(source.state_dict(), mine / "weights.safetensors")
    x = torch.rand(3, 3, 24, 20)
    expected = convert(source, example=x)(x)
    for file in ("weights.pt", "weights.safetensors"):
        arguments = ["convert", "mine_for_tests:make", "--weights", file, "--size", "24", "20", "-o", "out/model.pt2"]
        assert main(arguments) == 0
        out = capsys.readouterr().out
        assert "GHS2d(stride=2)" in out
        assert "wrote out/model.pt2, for inputs of size 24 x 20" in out
        assert [p.name for p in (mine / "out").iterdir()] == ["model.pt2"]
        program = torch.export.load("out/model.pt2").module()
        assert torch.allclose(program(x), expected, atol=1e-6)
        assert torch.equal(program(x.roll((5, 3), (2, 3))), program(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_convert_to_onnx_with_a_report_as_json(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "mine_for_tests:network", "--size", "16", "--json", "-o", "model.onnx"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["law"] == "exact-invariant"
    assert report["replaced"][0]["name"] == "`0`"
    assert report["file"] == "model.onnx"
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    assert session.run(None, {session.get_inputs()[0].name: torch.rand(5, 3, 16, 16).numpy()})[0].shape == (5, 4)


def test_convert_a_network_of_timm(capsys: pytest.CaptureFixture[str]) -> None:
    from helpers import zoo  # noqa: F401

    assert main(["convert", "timm:resnet18", "--method", "lpf", "--padding", "keep", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["replaced"]) == 8
    assert report["padding"] is None
    assert main(["convert", "timm:resnet17"]) == 2
    assert "timm knows no network 'resnet17'" in capsys.readouterr().err


def test_convert_without_rich(mine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert main(["convert", "mine_for_tests:make"]) == 0
    assert "Converted to 'ghs' (exact-invariant)." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine_for_tests"], "must be `module:factory` or `timm:NAME`"),
        (["mine_for_tests:nothing"], "mine_for_tests has no 'nothing'"),
        (["no_such_module:make"], "no_such_module: no such module"),
        (["mine_for_tests:number"], "makes a int, not a torch.nn.Module"),
        (["model.pt2"], "can be measured, not converted"),
        (["model.onnx"], "can be measured, not converted"),
        (["mine_for_tests:make", "-o", "model.zip"], "must end in .pt2 or .onnx"),
        (["mine_for_tests:make", "--weights", "missing.pt"], "missing.pt"),
        (["mine_for_tests:make", "--weights", "hostile.pt"], "no weights that can be read safely"),
        (["mine_for_tests:make", "--weights", "list.pt"], "must hold a state_dict"),
        (["mine_for_tests:make", "--weights", "other.pt"], "Missing key"),
        (["mine_for_tests:make", "--method", "gsh"], "Did you mean 'ghs'"),
        (["mine_for_tests:make", "--padding", "mirror"], "must be one of"),
    ],
)
def test_convert_says_what_is_wrong(
    arguments: list[str], message: str, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return (Path("executed").touch, ())

    torch.save(Hostile(), "hostile.pt")
    torch.save([1, 2], "list.pt")
    torch.save({"a": torch.zeros(1)}, "other.pt")
    assert main(["convert", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("shiftproof: ")
    assert message in error
    assert not Path("executed").exists()
