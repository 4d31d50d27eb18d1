"""Accuracy under the worst shift of every image."""

import math

import pytest
import torch
from torch import Tensor

from helpers.known_classifiers import corner, dataset, largest, unchanged
from shiftproof.evaluation.adversarial import measure_adversarial
from shiftproof.evaluation.classifier import evaluating
from shiftproof.evaluation.statistics import proportion
from shiftproof.models import create_model

RIGHT, WRONG = proportion(1.0, 1).to_dict(), proportion(0.0, 1).to_dict()


def one_pixel(row: int, column: int, size: int = 16) -> Tensor:
    x = torch.zeros(1, 1, size, size)
    x[0, 0, row, column] = 1
    return x


def wave(phase: float) -> Tensor:
    """Its first pixel is bright while it is shifted to less than 4 pixels from its crest."""
    rows = torch.arange(16, dtype=torch.float64) + phase
    return (0.5 + 0.5 * torch.cos(2 * math.pi * rows / 16)).float()[None, None, :, None].expand(1, 1, 16, 16)


def test_the_grids_are_written_down() -> None:
    """Which shifts were tried, on how many images; 25 crops of 28 x 28 pixels on 32 x 32."""
    found = measure_adversarial(unchanged(largest, 3, batch_size=64), *vars(dataset(2, size=32).test).values())
    assert {name: grid["shifts"] for name, grid in found.items()} == {
        "integer": 16,
        "half": 64,
        "fractional": 64,
        "crop": 25,
    }
    assert found["half"]["offsets"] == [[0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]] * 2
    assert found["crop"]["offsets"] == [[-2, -1, 0, 1, 2]] * 2
    assert found["crop"]["size"] == [28, 28]
    assert {grid["images"] for grid in found.values()} == {2}


def test_one_wrong_answer_is_enough() -> None:
    """Right without a shift, and for 15 of 16: adversarially wrong."""
    found = measure_adversarial(unchanged(corner), one_pixel(13, 14), torch.tensor([0]))["integer"]
    assert found["unshifted"] == RIGHT
    assert found["accuracy"] == WRONG
    assert found["worst_shift"] == [3, 2]
    assert found["reference"]["value"] == 15 / 16
    assert measure_adversarial(unchanged(corner), one_pixel(12, 14), torch.tensor([0]))["integer"]["accuracy"] == RIGHT


def test_crops_hold_no_pixel_of_the_other_side() -> None:
    """A crop without one pixel on each side: its corner meets the nine first pixels, and nothing else."""
    for place, expected in (((2, 2), WRONG), ((0, 0), WRONG), ((2, 3), RIGHT), ((15, 15), RIGHT)):
        found = measure_adversarial(unchanged(corner), one_pixel(*place), torch.tensor([0]))["crop"]
        assert (found["shifts"], found["size"]) == (9, [14, 14])
        assert found["accuracy"] == expected
    found = measure_adversarial(unchanged(corner), one_pixel(2, 2), torch.tensor([0]))["crop"]
    assert found["worst_shift"] == [-1, -1]


@pytest.mark.parametrize(
    ("phase", "expected"), [(0.75, (RIGHT, WRONG, RIGHT)), (3.1, (WRONG, WRONG, RIGHT)), (3.2, (WRONG, WRONG, WRONG))]
)
def test_parts_of_a_pixel(phase: float, expected: tuple[object, ...]) -> None:
    """The crest moves by up to 3, 3.5 and 0.875 pixels: far enough to darken the first pixel, or not."""
    found = measure_adversarial(unchanged(corner), wave(-phase), torch.tensor([1]))
    assert tuple(found[name]["accuracy"] for name in ("integer", "half", "fractional")) == expected


def test_a_network_with_the_front() -> None:
    """The worst shift of all circular grids is as good as none; without the front it changes the scores."""
    images = dataset(4, size=32).test.images
    worst = {}
    for subpixel in (False, True):
        f = unchanged(create_model("resnet8", "ghs", 3, subpixel=subpixel), 3, batch_size=32)
        with evaluating(f.model):
            labels = f.scores(images).argmax(1)  # right by definition, but for shifts
            found = measure_adversarial(f, images, labels)
        assert found["integer"]["exact"]
        worst[subpixel] = max(found[name]["largest_change"] for name in ("half", "fractional"))
        if subpixel:
            assert all(found[name]["accuracy"]["value"] == 1 for name in ("integer", "half", "fractional"))
    assert worst[True] < 1e-5 < worst[False] / 10
