"""Accuracy under shifts."""

import math
from typing import Any

import torch

from helpers.known_classifiers import corner, dataset, plain, white
from shiftproof.evaluation.accuracy import measure_accuracy
from shiftproof.evaluation.classifier import Classifier


def test_the_border_is_what_it_is_called() -> None:
    """White pictures, a network that looks at the first pixel: of the 9 shifts by up to one pixel, 5 uncover it."""
    images, labels = white(900)
    found = measure_accuracy(plain(corner, mean=0.25), images, labels)
    assert found["clean"]["value"] == found["circular"]["value"] == 1
    assert found["cropped"]["reflect"]["value"] == 1
    assert found["cropped"]["black"]["low"] < 4 / 9 < found["cropped"]["black"]["high"]
    assert found["cropped"]["mean"] == found["cropped"]["black"]  # a mean of 0.25 is dark as well
    assert measure_accuracy(plain(corner, mean=0.75), images, labels)["cropped"]["mean"]["value"] == 1
    assert found["clean"]["n"] == 900


def test_all_circular_shifts_are_equally_likely() -> None:
    """One of four pixels is bright, so it comes first in a quarter of the cases; each image has its own shift."""
    images = torch.zeros(2000, 1, 2, 2, dtype=torch.uint8)
    images[:, 0, 1, 1] = 255
    found = measure_accuracy(plain(corner), images, torch.ones(2000, dtype=torch.int64))["circular"]
    assert found["low"] < 0.25 < found["high"]


def test_parts_of_a_pixel() -> None:
    """A slow wave whose zero lies 3/8 pixel before the first pixel: it is passed by 1/2 pixel, not by 1/4."""
    wave = 0.5 + 0.4 * torch.sin((torch.arange(8) + 3 / 8) * 2 * math.pi / 8)
    images = (255 * wave).round().byte().expand(4, 1, 8, 8)
    found = measure_accuracy(plain(corner), images, torch.ones(4, dtype=torch.int64))["fractional"]
    assert {name: estimate["value"] for name, estimate in found.items()} == {"1/2": 0.0, "1/4": 1.0, "1/8": 1.0}


def test_seeds() -> None:
    data = dataset(200)

    def run(seed: int, batch_size: int = 250) -> dict[str, Any]:
        f = Classifier(lambda x: x[:, :, 0, 0], data.mean, data.std, batch_size)
        return measure_accuracy(f, data.test.images, data.test.labels, seed=seed)

    assert run(seed=3) == run(seed=3, batch_size=7)
    assert run(seed=3) != run(seed=4)
