"""The complete evaluation."""

import dataclasses
import json

import pytest
import torch
from torch import Tensor, nn

from helpers.known_classifiers import Largest, dataset
from shiftproof.data.sets import Images
from shiftproof.evaluation import suite
from shiftproof.evaluation.robustness import DAMAGES
from shiftproof.evaluation.statistics import hits, unpack
from shiftproof.models import create_model


def test_a_ghs_network() -> None:
    """All parts, JSON without NaN; consistency 1 and change 0; modes restored; progress told."""
    network = create_model("resnet20", "ghs", num_classes=3)
    heard: list[tuple[str, int, int]] = []
    found = suite.evaluate(
        network, dataset(6), shift_images=2, method="lpf", report=lambda *a: heard.append(a), batch_size=64
    )
    assert [part for part in found if part != "predictions"] == list(suite.PARTS)
    assert unpack(found["predictions"]["clean"]).shape == (6,)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["consistency"]["all_pairs"]["exact"]
    assert found["consistency"]["all_pairs"]["largest_change"] == 0
    assert found["consistency"]["all_pairs"]["pairs"]["value"] == 1
    assert found["consistency"]["aps_protocol"]["value"] == 1
    assert found["accuracy"]["circular"] == found["accuracy"]["clean"]
    assert found["accuracy"]["clean"]["n"] == 6
    assert found["aliasing"]["method"] == "lpf"
    assert found["efficiency"]["parameters"] == sum(p.numel() for p in network.parameters())
    assert all(m.training for m in network.modules())
    last = {name: (done, total) for name, done, total in heard}
    assert all(done == total for done, total in last.values())
    assert {name.partition(":")[0] for name in last} == set(suite.PARTS)


def test_a_strided_network_is_not() -> None:
    """The negative control."""
    found = suite.evaluate(create_model("resnet20", "strided", 3), dataset(6), parts=["consistency"])
    assert list(found) == ["consistency"]
    assert found["consistency"]["all_pairs"]["largest_change"] > 0
    assert not found["consistency"]["all_pairs"]["exact"]


def test_one_damage_only() -> None:
    """It gives the same numbers as among the others."""
    model, data = create_model("resnet8", "strided", 3), dataset(6)
    every = suite.evaluate(model, data, parts=["robustness"])["robustness"]
    assert list(every) == list(DAMAGES)
    found = suite.evaluate(model, data, parts=["robustness.noise", "robustness.rotation"])
    assert found == {"robustness": {name: every[name] for name in ("rotation", "noise")}}


def test_limit_and_seed() -> None:
    """A limit draws images with the seed; equal seeds give equal numbers, others do not."""
    model, data = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Flatten(), nn.Linear(192, 3)), dataset(60)
    parts = ["accuracy", "consistency", "robustness"]
    first, again, other = (
        suite.evaluate(model, data, parts=parts, shift_images=3, limit=20, seed=seed) for seed in (1, 1, 2)
    )
    assert first["accuracy"]["clean"]["n"] == 20
    assert first["consistency"]["all_pairs"]["images"] == 3
    assert first == again
    for part in parts:
        assert first[part] != other[part]


def test_the_benchmark_is_measured_beside_the_test_part() -> None:
    """Its accuracy alone; the rest is that of the test part."""
    data, white = dataset(6), torch.full((30, 3, 8, 8), 255, dtype=torch.uint8)
    benchmark = Images(white, torch.arange(30) % 3)
    more = dataclasses.replace(data, benchmark=benchmark)
    plain, both = (suite.evaluate(Largest(), d, parts=["accuracy"])["accuracy"] for d in (data, more))
    assert both.pop("benchmark") == hits(benchmark.labels == 0, keep=True).to_dict()  # all answers are the first class
    assert both == plain
    few = suite.evaluate(Largest(), more, parts=["accuracy"], limit=4)["accuracy"]
    assert few["benchmark"]["n"] == few["clean"]["n"] == 4


def test_a_broken_network() -> None:
    """Scores that are not numbers give None, not something JSON cannot hold."""

    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mean((2, 3)) * torch.nan

    found = suite.evaluate(Broken(), dataset(4), parts=["consistency", "robustness"])
    json.dumps(found, allow_nan=False)
    assert found["robustness"]["noise"]["0.1"]["relative_change"]["value"] is None


def test_refusals() -> None:
    with pytest.raises(ValueError, match="Did you mean 'accuracy'"):
        suite.evaluate(nn.Identity(), dataset(), parts=["acuracy"])
    with pytest.raises(ValueError, match="'tiny' has no test images"):
        suite.evaluate(nn.Identity(), dataset(0))
    assert suite.evaluate(nn.Identity(), dataset(), parts=["aliasing"]) == {}
