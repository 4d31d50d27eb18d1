"""Estimates: a value with its 95 % interval; and answers to every image, packed into a text."""

from __future__ import annotations

import base64
import math
import zlib
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

_Z = 1.959963984540054  # the normal distribution leaves 2.5 % above
_RESAMPLES = 1000
_ENTRIES = 2**20  # drawn at a time
_LARGEST = 2**28  # bits of packed answers


@dataclass(frozen=True)
class Estimate:
    """A value, its 95 % interval, the number of observations, and these themselves, packed, where they are kept."""

    value: float
    low: float
    high: float
    n: int
    right: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields by name; without observations that were not kept."""
        return {k: v for k, v in asdict(self).items() if v is not None}


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


def hits(correct: Tensor, *, keep: bool = False) -> Estimate:
    """The share of true entries of a boolean tensor; with `keep`, together with every entry."""
    share = proportion(int(correct.sum()) / max(1, correct.numel()), correct.numel())
    return replace(share, right=pack(correct)) if keep else share


def pack(values: Tensor) -> str:
    """Whole numbers from 0 on, or yes and no, as a text: how many they are, their bits, and those, compressed.

    >>> pack(torch.tensor([True, False, True]))
    '3:1:eNpbAAAAoQCh'
    """
    numbers = values.flatten().cpu().long()
    width = max(1, int(numbers.max()).bit_length()) if len(numbers) else 1
    bits = (numbers[:, None] >> torch.arange(width)) & 1  # (N, width)
    data = zlib.compress(np.packbits(bits.numpy().astype(np.uint8)).tobytes(), 9)
    return f"{len(numbers)}:{width}:{base64.b64encode(data).decode()}"


def unpack(text: str) -> Tensor:
    """What `pack` packed. (N,)

    >>> unpack(pack(torch.tensor([9, 0, 4]))).tolist()
    [9, 0, 4]
    """
    count, width, data = text.split(":", 2)
    size = int(count) * int(width)
    if not 0 <= size <= _LARGEST:
        raise ValueError(f"answers of {count} images with {width} bits each are too many.")
    raw = zlib.decompressobj().decompress(base64.b64decode(data, validate=True), -(-size // 8) or 1)
    bits = np.unpackbits(np.frombuffer(raw, np.uint8), count=size).reshape(-1, int(width))
    return (torch.from_numpy(bits).long() << torch.arange(int(width))).sum(1)


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
