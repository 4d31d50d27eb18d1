"""Accuracy of a classifier: on the unchanged images, and on the same images shifted."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from shiftproof.data.perturbations import move_camera
from shiftproof.evaluation.classifier import Change, Classifier
from shiftproof.evaluation.statistics import Estimate, hits
from shiftproof.maps.shifts import circular_shift, fractional_shift

FRACTIONS = {"1/2": 1 / 2, "1/4": 1 / 4, "1/8": 1 / 8}  # of a pixel


def accuracy(found: Tensor, labels: Tensor) -> Estimate:
    """The share of scores (N, classes) that are largest at the label."""
    return hits(found.argmax(1) == labels)


def random_circular_shifts(count: int, size: tuple[int, int], seed: int) -> Change:
    """One circular shift per image, each of the H x W equally likely."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.stack([torch.randint(0, n, (count,), generator=generator) for n in size], 1)
    return lambda x, where: circular_shift(x, drawn[where])


def random_cropped_shifts(count: int, size: tuple[int, int], border: str, fill: tuple[float, ...], seed: int) -> Change:
    """One cropped shift per image, up to an eighth of the size each way on both axes."""
    generator = torch.Generator().manual_seed(seed)
    reach = [max(1, n // 8) for n in size]
    drawn = torch.stack([torch.randint(-r, r + 1, (count,), generator=generator) for r in reach], 1)
    return lambda x, where: move_camera(x, drawn[where], border, fill)


def fractional_shifts(amount: float) -> Change:
    """Both axes shifted by a fraction of a pixel."""
    return lambda x, where: fractional_shift(x, (amount, amount))


def measure_accuracy(
    f: Classifier, images: Tensor, labels: Tensor, *, clean: Tensor | None = None, seed: int = 0
) -> dict[str, Any]:
    """Accuracy on the images (N, C, H, W) and under shifts.

    * `clean`: the unchanged images (pass their scores as `clean` if they are known);
    * `circular`: one random circular shift per image, of all H x W;
    * `cropped`: one random shift per image of up to an eighth of the size, like a moving camera; the gap is filled
      with black, with the mean of the data, or by reflection. All three use the same shifts;
    * `fractional`: both axes shifted by 1/2, 1/4 and 1/8 of a pixel, circularly.
    """
    count, channels, size = images.shape[0], images.shape[1], (images.shape[2], images.shape[3])

    def under(name: str, change: Change) -> Estimate:
        return accuracy(f.scores(images, change, f"accuracy: {name}"), labels)

    if clean is None:
        clean = f.scores(images, name="accuracy: clean")
    borders = {"black": ("fill", (0.0,) * channels), "mean": ("fill", f.mean), "reflect": ("reflect", f.mean)}
    return {
        "clean": accuracy(clean, labels).to_dict(),
        "circular": under("circular shift", random_circular_shifts(count, size, seed)).to_dict(),
        "cropped": {
            name: under(f"cropped shift, {name}", random_cropped_shifts(count, size, border, fill, seed)).to_dict()
            for name, (border, fill) in borders.items()
        },
        "fractional": {
            name: under(f"{name} pixel", fractional_shifts(part)).to_dict() for name, part in FRACTIONS.items()
        },
    }
