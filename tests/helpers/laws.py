"""What several test files need: tolerances, maps that are hard, slow and obvious oracles."""

import itertools
import math
import os
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor, nn

from shiftproof.ghs.functions import hermite_series
from shiftproof.ghs.kernel import Local
from shiftproof.maps.padding import continued

# one table for all tests: what rounding may do, by dtype
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
DTYPES = list(TOLERANCE)


def effort(test: int, soak: int) -> settings:
    """How many examples a property sees: the same ones in every `make test`, fresh ones in every `make soak`."""
    long = os.environ.get("SHIFTPROOF_PROFILE") == "soak"
    return settings(max_examples=soak if long else test, derandomize=not long, print_blob=long)


def stir(model: nn.Module) -> None:
    """Bring the statistics of batch norms off their defaults, where they would hide what they do."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2)


def all_shifts(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(n) for n in sizes))


def hard_maps(sizes: tuple[int, ...] = (6, 6), channels: int = 2, seed: int = 1) -> dict[str, Tensor]:
    """Maps on which a pivot is hard to find: plateaus, periods, infinities."""
    generator = torch.Generator().manual_seed(seed)
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


@st.composite
def tied_maps(draw: st.DrawFn, max_size: int = 6, levels: int = 3) -> Tensor:
    """Small maps of few grey levels, mostly tied."""
    channels, height, width = draw(st.integers(1, 3)), draw(st.integers(1, max_size)), draw(st.integers(1, max_size))
    count = channels * height * width
    values = draw(st.lists(st.integers(0, levels - 1), min_size=count, max_size=count))
    return torch.tensor(values, dtype=torch.float32).view(1, channels, height, width)


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


def phase_scores(best: Tensor, counts: Sequence[int]) -> Tensor:
    """`pivot="phase"` with loops: `best` where its phase adds up to the most, else minus infinity. (d1..dn)"""
    sizes = tuple(best.shape)
    top = best.abs().max()
    steps = {p: round(float(best[p] / top) * 2**22) if top > 0 else 0 for p in all_shifts(sizes)}

    def total(position: tuple[int, ...]) -> int:
        lines = [[k for k in range(m) if (k - i) * n % m == 0] for i, m, n in zip(position, sizes, counts)]
        return sum(steps[p] for p in itertools.product(*lines))

    totals = torch.tensor([total(p) for p in all_shifts(sizes)]).view(sizes)
    return torch.where(totals == totals.max(), best, -torch.inf)


def outside(x: Tensor, index: tuple[int, ...], padding: str) -> Tensor | None:
    """x[..., index] with the border continued by `padding`; None where there is nothing."""
    where = []
    for i, n in zip(index, x.shape[-len(index) :]):
        if padding == "zeros" and not 0 <= i < n:
            return None
        if padding == "circular":
            i = i % n
        elif padding == "reflect" and n > 1:
            i = i % (2 * n - 2)
            i = min(i, 2 * n - 2 - i)
        where.append(min(max(i, 0), n - 1))
    return at(x, where)


def at(x: Tensor, index: Sequence[int | slice]) -> Tensor:
    """x[..., *index]."""
    return x[(slice(None),) * (x.dim() - len(index)) + tuple(index)]


def max_oracle(x: Tensor, stride: int, kernel: int, padding: str) -> Tensor:
    sizes = x.shape[2:]
    before = 0 if kernel <= stride else (kernel - 1) // 2
    counts = [-(-m // stride) for m in sizes]
    out = torch.full((*x.shape[:2], *counts), -torch.inf, dtype=x.dtype)
    for j in itertools.product(*(range(n) for n in counts)):
        for o in itertools.product(range(kernel), repeat=len(sizes)):
            value = outside(x, tuple(a * stride - before + b for a, b in zip(j, o)), padding)
            if value is not None:
                at(out, j).copy_(torch.maximum(at(out, j), value))
    return out


def blur_oracle(x: Tensor, stride: int, taps: int, padding: str) -> Tensor:
    sizes = x.shape[2:]
    row = [1.0]
    for _ in range(taps - 1):  # Pascal's triangle, by addition
        row = [a + b for a, b in zip([0.0, *row], [*row, 0.0])]
    counts = [-(-m // stride) for m in sizes]
    out = torch.zeros(*x.shape[:2], *counts, dtype=torch.float64)
    for j in itertools.product(*(range(n) for n in counts)):
        for o in itertools.product(range(taps), repeat=len(sizes)):
            weight = 1.0
            for b in o:
                weight *= row[b] / sum(row)
            value = outside(x, tuple(a * stride - (taps - 1) // 2 + b for a, b in zip(j, o)), padding)
            if value is not None:
                at(out, j).add_(weight * value)
    return out


def between_borders(x: Tensor, selection: Tensor, stride: int, kernel: Local, padding: str) -> Tensor:
    """Sample by sample: the weighted mean of the pixels around p mod stride + i stride on each axis."""
    reach = math.ceil(9 * kernel.scale(stride) * math.sqrt(kernel.order + 1))
    y = np.arange(-reach, reach + 1) / (math.sqrt(2) * kernel.scale(stride))
    series = [(-1 / 4) ** (n // 2) / math.factorial(n // 2) * (n % 2 == 0) for n in range(2 * kernel.order + 1)]
    line = np.exp(-(y**2)) * np.polynomial.hermite.hermval(y, series)
    weights = torch.from_numpy(line / line.sum())
    samples = []
    for sample, pivot in zip(x[:, None], selection.tolist()):
        for axis, p in enumerate(pivot, start=2):
            places = range(p % stride, p % stride + -(-sample.shape[axis] // stride) * stride, stride)
            lines = [continued(sample, axis, i - reach, len(weights), padding) for i in places]
            shape = [-1 if d == axis else 1 for d in range(x.dim())]
            sample = torch.stack([(line * weights.view(shape)).sum(axis) for line in lines], axis)
        samples.append(sample[0])
    return torch.stack(samples)
