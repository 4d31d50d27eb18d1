"""`shiftproof convert`, as a user meets it: files, reports, and errors in the words of the command line."""

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
from shiftproof.conversion import ConversionError

MINE = """
import torch
from torch import nn

def make():
    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

network = make()
number = 3

class Grows(nn.Module):
    def forward(self, x):
        return nn.functional.interpolate(x, scale_factor=2)

class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(1, 1, 64, 64))

    def forward(self, x):
        return x * self.weight

def grows():
    return nn.Sequential(make()[0], Grows())

def weighted():
    return nn.Sequential(Weighted(), make()[0])

def flat():
    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.Flatten(), nn.Linear(4 * 31 * 31, 2))

def average():
    return nn.Sequential(nn.AvgPool2d(2, ceil_mode=True))
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

    assert main(["convert", "resnet18", "--method", "lpf", "--padding", "keep", "--json", "--quiet"]) == 0
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert "resnet18 has RANDOM weights" in said.err
    assert (report["weights"], report["example"]) == ("random", [2, 3, 224, 224])
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
        (["mine_for_tests"], "A network of your own is named `module:factory`"),
        (["mine_for_tests:"], "must be `module:factory`, `timm:NAME` or `cifar:NAME`"),
        (["mine_for_tests:nothing"], "mine_for_tests has no 'nothing'"),
        (["no_such_module:make"], "no_such_module: no such module"),
        (["mine_for_tests:number"], "makes a int, not a torch.nn.Module"),
        (["model.pt2"], "can be measured, not converted"),
        (["model.onnx"], "can be measured, not converted"),
        (["mine_for_tests:make", "-o", "model.zip"], "`--out` (=model.zip) must end in .pt2 or .onnx"),
        (["mine_for_tests:make", "--weights", "missing.pt"], "missing.pt"),
        (["mine_for_tests:make", "--weights", "hostile.pt"], "no weights that can be read safely"),
        (["mine_for_tests:make", "--weights", "list.pt"], "must hold a state_dict"),
        (
            ["mine_for_tests:make", "--weights", "other.pt"],
            "does not fit mine_for_tests:make: the file lacks `0.weight`, `0.bias`; the network has no `a`",
        ),
        (["mine_for_tests:make", "--method", "gsh"], "Did you mean 'ghs'"),
        (["mine_for_tests:make", "--method", "gsh"], "`--method` (='gsh') must be one of"),
        (["mine_for_tests:make", "--padding", "mirror"], "`--padding` (='mirror') must be one of"),
        (["mine_for_tests:make", "--padding", "kep"], "Did you mean 'keep'?"),
        (["mine_for_tests:make", "--size", "0"], "`--size` (=0) must be at least 1"),
        (["mine_for_tests:make", "--method", "lpf", "--front"], "that does, or `--method align`"),
        (["mine_for_tests:make", "--padding", "keep", "--subpixel"], "`--subpixel` needs a network"),
        (["mine_for_tests:make", "--padding", "keep", "--subpixel"], "use `--padding circular`"),
        (["mine_for_tests:make", "--no-front", "--subpixel"], "leave `--no-front` out"),
        (["mine_for_tests:make", "--size", "8", "8", "8"], "`--size` (=[8, 8, 8]) must have one entry per axis (2)"),
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
    Path("model.pt2").touch()
    Path("model.onnx").touch()
    assert main(["convert", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("shiftproof: ")
    assert message in error
    assert len(error.splitlines()) == 1
    assert not Path("executed").exists()


@pytest.mark.parametrize(
    ("factory", "python", "arguments", "option"),
    [
        ("grows", {}, [], ("`strict=False`", "`--loose`")),
        ("weighted", {}, [], ("`strict=False`", "`--loose`")),
        ("flat", {}, [], ("`padding=None`", "`--padding keep`")),
        ("flat", {"example": torch.rand(2, 3, 16, 16)}, ["--size", "16"], ("`example`", "`--size`")),
        (
            "average",
            {"example": torch.rand(2, 3, 7, 7), "padding": None},
            ["--size", "7", "--padding", "keep"],
            ("`padding='circular'`", "`--padding circular`"),
        ),
    ],
)
def test_errors_name_what_the_user_can_type(
    factory: str,
    python: dict[str, Any],
    arguments: list[str],
    option: tuple[str, str],
    mine: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One error, two spellings of the remedy: an argument in Python, an option on the command line."""
    argument, spelled = option
    model = getattr(importlib.import_module("mine_for_tests"), factory)()
    with pytest.raises(ConversionError) as raised:
        convert(model, **python)
    assert argument in raised.value.remedy
    assert argument in str(raised.value)
    assert "`--" not in str(raised.value)
    assert main(["convert", f"mine_for_tests:{factory}", *arguments]) == 2
    error = capsys.readouterr().err
    assert spelled in error
    assert not any(word in error for word in ("strict=", "padding=", "`example`"))


@pytest.mark.parametrize("arguments", [["grows", "--loose"], ["weighted", "--loose"], ["flat", "--padding", "keep"]])
def test_the_remedy_helps(arguments: list[str], mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    factory, *options = arguments
    assert main(["convert", f"mine_for_tests:{factory}", *options, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["law"] == ("exact-invariant" if factory == "grows" else "none")
    assert bool(report["not_converted"]) == ("--loose" in options)


@pytest.mark.parametrize("kind", [RuntimeError, ImportError, OSError])
def test_a_timm_that_cannot_be_imported_says_what_to_reinstall(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What happens where torchvision was built for another torch than the one that is installed."""

    def broken(name: str) -> Any:
        raise kind("operator torchvision::nms does not exist")

    monkeypatch.setattr("shiftproof.models.loading.importlib.import_module", broken)
    assert main(["convert", "timm:resnet18"]) == 2
    error = capsys.readouterr().err
    assert "timm:resnet18: timm cannot be imported (operator torchvision::nms does not exist)" in error
    assert f"built for the installed torch {torch.__version__}" in error
    assert "`pip install --force-reinstall torch torchvision`" in error
    assert "for builds without a GPU with the `--index-url` that pytorch.org gives for CPU" in error
    assert "`module:factory`" in error


@pytest.mark.parametrize("name", ["timm", "torchvision"])
def test_a_package_that_is_missing_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(_: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("shiftproof.models.loading.importlib.import_module", missing)
    assert main(["convert", "timm:resnet18"]) == 2
    assert capsys.readouterr().err == (
        f"shiftproof: `shiftproof convert` needs {name}: install it with `pip install {name}`.\n"
    )


def test_placement(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report of the command has it; options that do not fit are named as the command spells them."""
    assert main(["convert", "mine_for_tests:make", "--placement", "before", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["placement"], report["law"]) == ("before", "exact-invariant")
    assert report["flops_after"] == report["flops_before"]
    assert main(["convert", "mine_for_tests:make", "--placement", "before", "--antialias", "--json"]) == 0
    capsys.readouterr()
    for words, message in (
        (["--antialias"], "`--antialias` filters maps before operations that keep their stride: set `--placement"),
        (["--placement", "before", "--method", "lpf"], "`--placement before` needs a method that chooses where"),
        (["--placement", "around"], "`--placement` (='around') must be one of 'after', 'before'"),
    ):
        assert main(["convert", "mine_for_tests:make", *words]) == 2
        assert message in capsys.readouterr().err
