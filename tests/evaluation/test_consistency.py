"""Consistency under shifts."""

import pytest
import torch
from torch import Tensor

from helpers.known_classifiers import corner, dataset, largest, unchanged
from shiftproof.evaluation.consistency import aps_protocol, measure_agreement, measure_consistency, measure_shifts
from shiftproof.evaluation.statistics import hits, proportion


def test_an_invariant_classifier() -> None:
    """Circular shifts never change its answer, nor one bit of its scores."""
    found = measure_consistency(unchanged(largest, 3, batch_size=16), dataset(5).test.images)
    assert found["aps_protocol"]["value"] == 1
    circular = found["all_pairs"]
    assert circular["exact"]
    assert circular["pairs"] == circular["reference"] == proportion(1.0, 5).to_dict()
    assert circular["largest_change"] == circular["mean_change"] == 0
    assert (circular["images"], circular["shifts"], circular["possible_shifts"]) == (5, 64, 64)
    assert circular["map"] == [[1.0] * 8] * 8
    assert circular["change_map"] == [[0.0] * 8] * 8
    assert found["cropped"]["black"]["shifts"] == 9
    assert found["fractional"]["1/2"]["shifts"] == 3
    assert found["fractional"]["1/8"]["mean_change"] > 0


def test_one_pixel() -> None:
    """One of 64 shifts brings the bright pixel to the first place: pairs agree with (63/64)^2 + (1/64)^2."""
    x = torch.zeros(1, 1, 8, 8)
    x[0, 0, 2, 3] = 1
    found = measure_shifts(unchanged(corner), x, "all", "circular")
    assert found["pairs"]["value"] == pytest.approx((63**2 + 1) / 64**2)
    assert found["reference"]["value"] == pytest.approx(63 / 64)
    assert found["largest_change"] == 1
    assert found["worst_shift"] == found["least_agreement"]["shift"] == [6, 5]
    assert found["least_agreement"]["value"] == found["map"][6][5] == 0
    cropped = measure_shifts(unchanged(corner), x.roll((-1, -2), (2, 3)), "all", "cropped")
    assert cropped["least_agreement"]["shift"] == cropped["worst_shift"] == [-1, -1]


def test_agreement_is_that_of_all_pairs() -> None:
    """Of many equal images with one pair of shifts each: what all pairs of shifts of one of them give."""
    x = torch.zeros(1, 1, 8, 8)
    x[0, 0, :3] = 1
    f = unchanged(corner, batch_size=500)
    found = measure_agreement(f, x.expand(3000, 1, 8, 8))
    exact = measure_shifts(f, x, "all", "circular")["pairs"]["value"]
    assert found["images"] == found["circular"]["n"] == 2000
    assert found["circular"]["low"] < exact < found["circular"]["high"]
    cropped = measure_shifts(f, x, "all", "cropped")["pairs"]["value"]
    assert found["cropped"]["black"]["low"] <= cropped <= found["cropped"]["black"]["high"]
    assert 0 < cropped < 1


def test_agreement_under_parts_of_a_pixel_is_with_the_unshifted_image() -> None:
    """Along rows, columns and both, a third each: of a wave along the rows, two thirds move."""
    wave = torch.cos(torch.arange(16) * torch.pi / 4 - 1.4)[None, None, :, None].expand(3000, 1, 16, 16)
    found = measure_agreement(unchanged(lambda v: torch.stack([v[:, 0, 0, 0], 0 * v[:, 0, 0, 0]], 1)), wave)
    half = found["fractional"]["1/2"]
    assert half["low"] < 1 / 3 < half["high"]
    assert found["fractional"]["1/8"]["value"] == 1.0


def test_an_invariant_classifier_agrees_with_itself() -> None:
    images = dataset(40).test.images
    found = measure_agreement(unchanged(largest, 3, batch_size=16), images, most=30)
    assert found["circular"] == hits(torch.ones(30, dtype=torch.bool), keep=True).to_dict()
    assert found == measure_agreement(unchanged(largest, 3, batch_size=16), images, most=30)


def test_a_sample_of_shifts_says_so() -> None:
    """Images of more than 4,096 pixels get 1,024 shifts, unless one asks for others."""
    found = measure_consistency(unchanged(largest, 2, batch_size=512), torch.rand(1, 2, 65, 64))["all_pairs"]
    assert (found["shifts"], found["possible_shifts"]) == (1024, 4160)
    few = measure_consistency(unchanged(largest, 2), torch.rand(1, 2, 16, 16), shifts=10)["all_pairs"]
    assert (few["shifts"], few["possible_shifts"]) == (10, 256)


def test_the_last_batch_weighs_more() -> None:
    """The mean of batch means: two stable batches of four, a last one of one image that flips, give 2/3."""
    stripes = torch.tensor([1.0, 0.0]).repeat(4).expand(1, 1, 8, 8)
    images = torch.cat([torch.zeros(8, 1, 8, 8), stripes])
    values = {round(aps_protocol(unchanged(corner), images, batch=4, seed=s).value, 6) for s in range(12)}
    assert values == {round(2 / 3, 6), 1.0}
    assert aps_protocol(unchanged(corner), images, batch=4).n == 9


def test_the_shifts_of_the_protocol() -> None:
    """Rows and columns from {-3 .. 2}, all of them, the same for all images of a batch."""
    seen: list[list[int]] = []

    def f(x: Tensor) -> Tensor:
        seen.extend((x[:, 0] == 1).nonzero()[:, 1:].tolist())
        return largest(x)

    images = torch.zeros(600, 1, 9, 9)
    images[:, 0, 4, 4] = 1
    aps_protocol(unchanged(f, batch_size=100), images, batch=2)
    places = torch.tensor(seen).view(2, 300, 2, 2) - 4  # (which, batch, image, axis)
    assert torch.equal(places[:, :, 0], places[:, :, 1])
    for axis in (0, 1):
        assert set(places[..., axis].flatten().tolist()) == {-3, -2, -1, 0, 1, 2}


def test_seeds() -> None:
    images = dataset(40).test.images
    f = unchanged(lambda x: x[:, :, 0, 0], 3)
    assert measure_consistency(f, images, shift_images=4) == measure_consistency(f, images, shift_images=4)
    assert measure_consistency(f, images, shift_images=4) != measure_consistency(f, images, shift_images=4, seed=1)
