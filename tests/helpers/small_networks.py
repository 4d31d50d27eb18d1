"""Small networks: as a module of the user's own, as an exported program, as an ONNX file."""

import importlib
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from shiftproof.models.export import save_model

FACTORY = """
import torch
from torch import nn
from shiftproof.layers import create_downsample

def make():
    torch.manual_seed(0)
    first = nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")
    return nn.Sequential(
        first, nn.ReLU(), create_downsample("ghs", channels=4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )

def greys():
    return nn.Sequential(nn.Conv2d(1, 2, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten())

def many():
    return nn.Sequential(nn.Conv2d(7, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

def maps():
    return nn.Conv2d(3, 2, 3)

def picky():
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(5, 2))
"""


def strided() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten()).eval()


def grey() -> nn.Module:
    """A classifier with batch norm for grey pictures in ten classes; its weights are the same in every call."""
    torch.manual_seed(0)

    def stage(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        return [conv, nn.BatchNorm2d(outputs), nn.ReLU()]

    layers = [*stage(1, 4, 1), *stage(4, 8, 2), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))


def maps() -> nn.Module:
    return nn.Conv2d(1, 2, 3)


def headless() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 7, 3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def rigid() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 2, 2), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(17, 10))


def unconvertible() -> nn.Module:
    layers = [nn.LPPool2d(2, 2), nn.Conv2d(1, 4, 3, 2), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4, 10))


def write_networks(folder: Path) -> Path:
    """The same small network as a module, an exported program and an ONNX file, for images of 8 x 8."""
    (folder / "mine_to_measure.py").write_text(FACTORY)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.syspath_prepend(folder)
        warnings.simplefilter("ignore")
        model = importlib.import_module("mine_to_measure").make()
        for name in ("model.pt2", "model.onnx"):
            save_model(model, torch.rand(2, 3, 8, 8), folder / name)
    return folder
