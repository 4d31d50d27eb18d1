"""What several test files need: tolerances, maps that are hard, slow and obvious oracles."""

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from shiftproof.polynomials import hermite_series

# one table for all tests: what rounding may do, by dtype
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
DTYPES = list(TOLERANCE)


def all_shifts(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(n) for n in sizes))


def hard_maps(sizes: tuple[int, ...] = (6, 6), channels: int = 2) -> dict[str, Tensor]:
    """Maps on which a pivot is hard to find: plateaus, periods, infinities."""
    generator = torch.Generator().manual_seed(1)
    shape = (1, channels, *sizes)
    noise = torch.randn(shape, generator=generator)
    index = torch.stack(torch.meshgrid(*(torch.arange(n) for n in sizes), indexing="ij")).sum(0)
    spike = torch.zeros(shape)
    spike[(0, 0, *[n // 2 for n in sizes])] = 1
    infinite = noise.clone()
    infinite[(0, 0, *[0] * len(sizes))] = torch.inf
    infinite[(0, -1, *[n - 1 for n in sizes])] = -torch.inf
    twice = noise.clone()
    twice[(0, 0, *[0] * len(sizes))] = torch.inf
    twice[(0, 0, *[n - 1 for n in sizes])] = torch.inf
    signed = torch.where(noise > 0, 0.0, -0.0)
    return {
        "random": noise,
        "8-bit": (noise.sigmoid() * 255).round() / 255,
        "binary": (noise > 0).float(),
        "constant": torch.full(shape, 0.3),
        "zero": torch.zeros(shape),
        "signed zeros": signed,
        "one pixel": spike,
        "checkerboard": (index % 2).float().expand(shape).clone(),
        "stripes": (torch.arange(sizes[-1]) % 3 == 0).float().expand(shape).clone(),
        "one infinity": infinite,
        "two infinities": twice,
        "all minus infinity": torch.full(shape, -torch.inf),
        "denormal": noise * 1e-42,
    }


def functions_by_series(orders: int, x: npt.NDArray[np.float64], sigma: float) -> npt.NDArray[np.float64]:
    """Gaussian-Hermite functions straight from Eqs. 2 and 5."""
    from math import exp, factorial, pi, sqrt

    out = np.empty((orders, len(x)))
    for p in range(orders):
        for i, v in enumerate(x):
            norm = sqrt(2**p * factorial(p) * sigma * sqrt(pi))
            out[p, i] = exp(-(v**2) / (2 * sigma**2)) * hermite_series(p, v / sigma) / norm
    return out


def best_position(scores: Tensor, maps: list[Tensor]) -> tuple[int, ...]:
    """The tie rule by brute force: compare all aligned maps, entry by entry. (d1..dn), [(C, d1..dn)..]"""
    sizes = tuple(scores.shape)
    stacked = torch.cat([scores[None], *maps]) + 0.0  # (1 + C.., d1..dn)
    axes = tuple(range(1, stacked.dim()))

    def key(position: tuple[int, ...]) -> tuple[float, list[float]]:
        aligned = stacked.roll([-p for p in position], axes)
        return float(scores[position]), aligned.flatten(1).T.flatten().tolist()

    return max(all_shifts(sizes), key=key)
