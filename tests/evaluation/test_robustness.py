"""Accuracy and agreement on damaged images."""

import pytest
import torch

from helpers.known_classifiers import corner, dataset, largest, plain, white
from shiftproof.evaluation.classifier import Classifier
from shiftproof.evaluation.consistency import aps_protocol
from shiftproof.evaluation.robustness import measure_robustness


def test_erasure() -> None:
    """White on black: the first pixel is erased in 1 of (size - k + 1)^2 places, or of (size - 4 - k + 1)^2."""
    images, labels = white(2000, size=12)
    found = measure_robustness(plain(corner), images, labels)["erasure"]
    for patch, per_image in (("4", 81), ("6", 49), ("8", 25)):
        estimate = found["per_image"][patch]["accuracy"]
        assert estimate["low"] < 1 - 1 / per_image < estimate["high"]
        assert found["per_image"][patch]["agreement"] == estimate
    assert found["per_batch"]["8"]["accuracy"]["value"] == 0  # one place is left on 12 pixels
    assert found["per_batch"]["0"]["accuracy"]["value"] == found["per_image"]["0"]["agreement"]["value"] == 1
    assert list(measure_robustness(plain(corner), *white(2, size=6))["erasure"]["per_image"]) == ["0", "4", "6"]


def test_flips() -> None:
    """The first pixel comes from the last row of the same column, or from the opposite corner."""
    images = torch.zeros(3, 1, 8, 8, dtype=torch.uint8)
    images[:, 0, 0, 0] = images[:, 0, 7, 0] = 255
    found = measure_robustness(plain(corner), images, torch.ones(3, dtype=torch.int64))
    assert found["vertical_flip"]["accuracy"]["value"] == 1
    assert found["half_turn"]["accuracy"]["value"] == 0
    assert found["half_turn"]["agreement"]["value"] == 0


def test_damaged_images_are_shifted() -> None:
    """Consistency of damaged images: damaged first, then shifted twice, as if they had come damaged."""
    images, labels = dataset(40).test.images, dataset(40).test.labels
    f = Classifier(lambda x: x[:, :, 0, 0], [0.0] * 3, [1.0] * 3)
    found = measure_robustness(f, images, labels)
    for name, flipped in (("vertical_flip", images.flip(2)), ("half_turn", images.flip(2, 3))):
        assert found[name]["consistency"] == aps_protocol(f, flipped).to_dict()
    batch = found["erasure"]["per_batch"]
    assert batch["0"]["consistency"] == aps_protocol(f, images).to_dict()
    assert batch["4"]["consistency"] != batch["0"]["consistency"]
    assert "consistency" not in found["erasure"]["per_image"]["4"]
    exact = measure_robustness(Classifier(largest, [0.0] * 3, [1.0] * 3), images, labels)
    assert exact["erasure"]["per_batch"]["8"]["consistency"]["value"] == 1


def test_rotation() -> None:
    """A corner turns black at all but few angles, the middle never, and at half of them left is right."""
    images, labels = white(400, size=9)
    found = measure_robustness(plain(corner, mean=0.75), images, labels)["rotation"]
    assert found["accuracy"]["value"] < 0.3
    assert found["accuracy"] == found["agreement"]
    middle = measure_robustness(plain(lambda x: corner(x[:, :, 4:, 4:])), images, labels)["rotation"]
    assert middle["accuracy"]["value"] == 1
    images, labels = white(400, size=10)
    images[..., :5] = 0
    left = measure_robustness(plain(lambda x: corner(x[:, :, 4:])), images, labels)["rotation"]["accuracy"]
    assert left["low"] < 0.5 < left["high"]


def test_noise() -> None:
    """Scores that are pixels of value 1 change by sigma, relative to their length; answers that are clear stay."""
    images, labels = white(50, size=16)
    flat = measure_robustness(plain(lambda x: x.flatten(1)), images, labels)["noise"]
    clear = measure_robustness(plain(corner), images, labels)["noise"]
    for sigma in ("0.02", "0.05", "0.1", "0.2"):
        change = flat[sigma]["relative_change"]
        assert change["low"] <= change["value"] <= change["high"]
        assert change["value"] == pytest.approx(float(sigma), rel=0.02)
        assert clear[sigma]["agreement"]["value"] == clear[sigma]["accuracy"]["value"] == 1
    nothing = measure_robustness(plain(lambda x: x.flatten(1) * 0), images, labels)["noise"]["0.1"]
    assert nothing["relative_change"]["value"] == 0
