"""Ties of the largest value, counted where layers look for it."""

import torch
from torch import Tensor, nn

from shiftproof.evaluation.classifier import Classifier
from shiftproof.evaluation.ties import measure_ties, tied
from shiftproof.layers import GHS2d
from shiftproof.models import create_model


def images(ties: int, count: int = 10) -> Tensor:
    """Distinct values, but for `ties` images in which the largest one occurs twice."""
    x = torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(0)) / 2
    x[:, 0, 3, 4] = 0.9
    x[:ties, 0, 5, 1] = 0.9
    return x


def measured(model: nn.Module, x: Tensor) -> dict[str, dict[str, float]]:
    found = measure_ties(Classifier(model, (0.0,) * x.shape[1], (1.0,) * x.shape[1], batch_size=4), model, x)
    return {**found, **found["layers"]}


def test_a_tie_is_between_positions() -> None:
    """Two channels with the same largest value at one position are none."""
    x = torch.zeros(2, 2, 3, 3)
    x[:, :, 1, 1] = 1
    x[1, 0, 2, 2] = 1
    assert tied(x).tolist() == [False, True]


def test_ties_are_counted_in_the_input_and_before_each_layer() -> None:
    """The largest value comes through a layer that looks for it; images of the last batch count once."""
    model = nn.Sequential(nn.MaxPool2d(3, 1, 1), GHS2d(), nn.Flatten())
    found = measured(model, images(3))
    assert found["input"]["value"] == 0.3
    assert found["1"]["value"] == found["any"]["value"] == 1.0  # a maximum of neighbours is a plateau
    assert found["any"]["n"] == 10
    plain = measured(nn.Sequential(GHS2d(), nn.Flatten()), images(3))
    assert plain["0"]["value"] == plain["any"]["value"] == 0.3


def test_a_network_is_left_as_it_was() -> None:
    """One look for the two branches of a block; afterwards its layers select as before."""
    model = create_model("resnet8", "ghs-paper", front=False).eval()
    found = measure_ties(Classifier(model, (0.5,) * 3, (0.25,) * 3), model, torch.rand(4, 3, 16, 16))
    assert list(found["layers"]) == ["layer2.0.down", "layer3.0.down"]
    assert all(layer["n"] == 4 for layer in found["layers"].values())
    assert not any("select" in vars(module) or module._forward_pre_hooks for module in model.modules())


def test_a_network_without_pivots_has_ties_in_its_input_alone() -> None:
    model = create_model("resnet8", "strided").eval()
    found = measure_ties(Classifier(model, (0.5,) * 3, (0.25,) * 3), model, torch.ones(4, 3, 16, 16))
    assert found["layers"] == {}
    assert found["any"] == found["input"]
