"""Classifiers and data sets whose numbers are known beforehand."""

from typing import Any

import torch
from torch import Tensor, nn

from shiftproof.data.sets import Dataset, Images
from shiftproof.evaluation.classifier import Classifier


def corner(x: Tensor) -> Tensor:
    """Class 1 where the first pixel is brighter than a half, 0 otherwise."""
    bright = x[:, 0, 0, 0]
    return torch.stack([1 - bright, bright], 1)


def largest(x: Tensor) -> Tensor:
    """Exactly invariant: the class is the channel with the brightest pixel."""
    return x.amax((2, 3))


class Largest(nn.Module):
    """`largest` as a network."""

    def forward(self, x: Tensor) -> Tensor:
        return largest(x)


def plain(f: Any, mean: float = 0.0) -> Classifier:
    """A classifier on grey pictures whose model sees `x - mean`, moved back."""
    return Classifier(lambda x: f(x + mean), [mean], [1.0])


def unchanged(f: Any, channels: int = 1, **how: Any) -> Classifier:
    """A classifier whose model sees the pictures as they are."""
    return Classifier(f, [0.0] * channels, [1.0] * channels, **how)


def white(count: int, size: int = 8) -> tuple[Tensor, Tensor]:
    return torch.full((count, 1, size, size), 255, dtype=torch.uint8), torch.ones(count, dtype=torch.int64)


def dataset(count: int = 12, channels: int = 3, size: int = 8) -> Dataset:
    part = Images(torch.randint(0, 256, (count, channels, size, size), dtype=torch.uint8), torch.arange(count) % 3)
    return Dataset("tiny", part, part, ("a", "b", "c"), (0.5,) * channels, (0.25,) * channels, "made up", "0" * 64)
