"""The arrays that figures 1 to 4 show: Gaussian-Hermite functions, the steps of GHS, outputs of a shifted image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from shiftproof.ghs import grids
from shiftproof.ghs.basis import functions as basis
from shiftproof.ghs.functions import gauss_hermite
from shiftproof.ghs.pivots import select_pivot
from shiftproof.ghs.sampling import ghs2d, max_centered_moments
from shiftproof.layers import create_downsample
from shiftproof.layers.ghs import PAPER
from shiftproof.maps import shifts

Outputs = tuple[str, Tensor, Tensor]  # label, output for the image, output for the shifted image; both (N, N)


def outputs(image: Tensor, shift: tuple[int, int], methods: Mapping[str, str]) -> tuple[Tensor, list[Outputs]]:
    """Figures 1 and 4: the image (1, 1, M, M) shifted, and the outputs of the methods, given by label."""
    moved = shifts.circular_shift(image, shift)
    found = []
    for label, method in methods.items():
        layer = create_downsample(method, channels=1)
        found.append((label, layer(image)[0, 0], layer(moved)[0, 0]))
    return moved, found


class Steps(NamedTuple):
    """GHS step by step on one image: the pivot, the aligned image, its moments, the samples."""

    image: Tensor
    pivot: tuple[int, int]
    aligned: Tensor
    moments: Tensor
    samples: Tensor


def sampling_steps(image: Tensor, shift: tuple[int, int]) -> tuple[Tensor, list[Steps]]:
    """Figure 3: the functions Q (orders, M), and the steps for an image (1, 1, M, M) and for its shifted copy."""
    size = image.shape[-1]
    count = (size + 1) // 2
    found = []
    for picture in (image, shifts.circular_shift(image, shift)):
        row, column = select_pivot(picture)[0].tolist()
        aligned = shifts.circular_shift(picture, [-row, -column])
        moments = max_centered_moments(picture, orders=count)[0, 0]
        samples = ghs2d(picture, output_size=count, **PAPER)
        found.append(Steps(picture[0, 0], (row, column), aligned[0, 0], moments, samples[0, 0]))
    return torch.as_tensor(basis(count, grids.pixels(size), grids.scale_rule(count))), found


def function_curves(orders: int, sigma: float) -> tuple[Tensor, Tensor]:
    """Figure 2: points x (P,), and the Gaussian-Hermite functions at them (orders, P)."""
    x = torch.linspace(-4.2, 4.2, 801, dtype=torch.float64)
    return x, gauss_hermite(orders, x, sigma)
