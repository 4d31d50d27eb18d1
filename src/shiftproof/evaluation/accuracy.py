"""Accuracy of a classifier: on the unchanged images, and on the same images shifted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shiftproof.data.perturbations import move_camera
from shiftproof.evaluation.classifier import Change, Classifier
from shiftproof.evaluation.statistics import Estimate, hits
from shiftproof.maps.shifts import circular_shift, fractional_shift

FRACTIONS = {"1/2": 1 / 2, "1/4": 1 / 4, "1/8": 1 / 8}  # of a pixel


def accuracy(found: Tensor, labels: Tensor) -> Estimate:
    """The share of scores (N, classes) that are largest at the label, with every answer."""
    return hits(found.argmax(1) == labels, keep=True)


def random_shifts(count: int, ranges: Sequence[tuple[int, int]], seed: int) -> Tensor:
    """A shift per image, from the first number of the range of each axis to the one before the last. (N, 2)"""
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(low, high, (count,), generator=generator) for low, high in ranges], 1)


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
    count, channels, size = images.shape[0], images.shape[1], images.shape[2:]
    reach = [max(1, n // 8) for n in size]
    circular = random_shifts(count, [(0, n) for n in size], seed)
    cropped = random_shifts(count, [(-r, r + 1) for r in reach], seed)

    def under(name: str, change: Change | None) -> dict[str, Any]:
        return accuracy(f.scores(images, change, f"accuracy: {name}"), labels).to_dict()

    def moved(name: str, border: str, fill: tuple[float, ...]) -> dict[str, Any]:
        return under(f"cropped shift, {name}", lambda x, where: move_camera(x, cropped[where], border, fill))

    def moved_by_part(name: str, part: float) -> dict[str, Any]:
        return under(f"{name} pixel", lambda x, where: fractional_shift(x, (part, part)))

    borders = {"black": ("fill", (0.0,) * channels), "mean": ("fill", f.mean), "reflect": ("reflect", f.mean)}
    return {
        "clean": under("clean", None) if clean is None else accuracy(clean, labels).to_dict(),
        "circular": under("circular shift", lambda x, where: circular_shift(x, circular[where])),
        "cropped": {name: moved(name, *how) for name, how in borders.items()},
        "fractional": {name: moved_by_part(name, part) for name, part in FRACTIONS.items()},
    }
