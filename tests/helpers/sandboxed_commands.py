"""Commands that take a file from anyone, as functions of that file for the sandbox."""

import contextlib
import io
from pathlib import Path

import torch
from PIL import Image
from torch import nn

from shiftproof.commands.main import main


def make() -> nn.Module:
    """A network for the pictures of `digits`."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10)
    )


def convert(path: Path) -> None:
    _run("convert", f"{__name__}:make", "--weights", path.name, "--size", "8")


def evaluate(path: Path) -> None:
    dataset = ("--dataset", "digits", "--parts", "accuracy", "--limit", "20", "--shift-images", "1")
    _run("evaluate", f"{__name__}:make", "--weights", path.name, *dataset)


def measure(path: Path) -> None:
    Image.radial_gradient("L").resize((8, 8)).save("picture.png")
    _run("measure", path.name, "picture.png", "--shifts", "3", "--kinds", "circular")


def _run(*words: str) -> None:
    """An error of the command is one line, here a ValueError; anything else that goes wrong stays as it is."""
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = main([*words, "--json", "--quiet"])
    if code:
        lines = said.getvalue().splitlines()
        assert code == 2
        assert len(lines) == 1, lines
        assert lines[0].startswith("shiftproof: ")
        raise ValueError(lines[0])
