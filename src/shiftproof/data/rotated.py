"""MNIST-rot rebuilt from MNIST: each chosen digit rotated once, about the centre, by a uniform angle in [0, 2 pi)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from shiftproof.data.perturbations import rotate_bilinear

SEED = 0
TRAIN, TEST = 10000, 2000  # images, as in the paper


def rotate(images: Tensor, angles: Tensor) -> Tensor:
    """Rotate images (N, C, H, W) counter-clockwise by one angle each, in radians: bilinear, zeros outside.

    uint8 in, uint8 out, rounded once; computed in float64, so that every machine gives the same bytes.
    """
    parts = []
    for start in range(0, len(images), 1000):
        part, angle = images[start : start + 1000], angles[start : start + 1000].double()
        rotated = rotate_bilinear(part.double(), angle, torch.zeros(()))
        parts.append(rotated.round().clamp(0, 255).to(torch.uint8))
    return torch.cat(parts)


def rebuild(images: Tensor, labels: Tensor, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """`count` of the images, chosen without repetition and rotated, and their labels; the same for the same seed."""
    generator = np.random.RandomState(seed)  # numpy keeps its numbers for ever; those of newer generators may change
    chosen = torch.from_numpy(generator.permutation(len(images))[:count])
    angles = torch.from_numpy(generator.uniform(0, 2 * math.pi, size=len(chosen)))
    return rotate(images[chosen], angles), labels[chosen]
