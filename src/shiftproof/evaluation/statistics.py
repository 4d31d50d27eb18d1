"""Estimates: a value with its 95 % interval."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

_Z = 1.959963984540054  # the normal distribution leaves 2.5 % above
_RESAMPLES = 1000
_ENTRIES = 2**20  # drawn at a time


@dataclass(frozen=True)
class Estimate:
    """A value, its 95 % interval, and the number of observations."""

    value: float
    low: float
    high: float
    n: int

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


def proportion(share: float, n: int) -> Estimate:
    r"""A share of `n` independent yes-or-no observations, with Wilson's interval.

    .. math:: \frac{p + z^2/2n \pm z \sqrt{p(1-p)/n + z^2/4n^2}}{1 + z^2/n}

    It stays inside [0, 1], and has a width even if all observations agree.

    >>> round(proportion(1.0, 100).low, 4)
    0.963
    """
    if not 0 <= share <= 1 or n < 1:
        raise ValueError(f"`share` (={share}) must lie in [0, 1], of `n` (={n}) observations, at least 1.")
    square = _Z**2 / n
    middle = share + square / 2
    reach = _Z * math.sqrt(share * (1 - share) / n + square / (4 * n))
    low, high = (middle - reach) / (1 + square), (middle + reach) / (1 + square)
    return Estimate(share, 0.0 if share == 0 else low, 1.0 if share == 1 else high, n)


def hits(correct: Tensor) -> Estimate:
    """The share of true entries of a boolean tensor."""
    return proportion(int(correct.sum()) / max(1, correct.numel()), correct.numel())


def mean(values: Tensor, seed: int = 0) -> Estimate:
    """The mean of independent observations, with the percentile interval of a seeded bootstrap."""
    values = values.double().flatten().cpu()
    n = values.numel()
    if n == 0:
        raise ValueError("`values` must hold at least one observation.")
    generator = torch.Generator().manual_seed(seed)
    at_once = max(1, _ENTRIES // n)
    means = [
        values[torch.randint(0, n, (min(at_once, _RESAMPLES - done), n), generator=generator)].mean(1)
        for done in range(0, _RESAMPLES, at_once)
    ]
    low, high = torch.cat(means).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Estimate(float(values.mean()), low, high, n)
