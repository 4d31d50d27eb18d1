"""Local kernels as convolutions: maps that are not wrapped, and every pixel instead of every stride.

For networks that keep their padding. No guarantee for circular shifts is made here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from shiftproof.cache import TensorCache
from shiftproof.ghs.kernel import Local
from shiftproof.ghs.matrix import local_function
from shiftproof.maps.gather import take_from
from shiftproof.maps.padding import pad
from shiftproof.tensors import autocast_off, wide

_CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_NEGLIGIBLE = 2.0**-24  # of the largest weight: less does not show in float32
_cache = TensorCache()


def sample_between_borders(x: Tensor, pivots: Tensor, stride: Sequence[int], kernel: Local, padding: str) -> Tensor:
    """The samples of `kernel` at the pixels p mod stride, p mod stride + stride .. on each axis of maps (B, C, d1..dn).

    The map goes on beyond its border as `padding` says. A constant keeps its value but beside a border of zeros.
    """
    weights = [_cache.get_like((kernel, s), x, partial(_weights, kernel, s)) for s in stride]
    reach = [len(w) // 2 for w in weights]
    counts = [-(-m // s) for m, s in zip(x.shape[2:], stride)]
    around = [(r, n * s + r - m) for r, n, s, m in zip(reach, counts, stride, x.shape[2:])]
    phase = pivots.remainder(torch.tensor(stride, device=x.device))
    return _weigh(take_from(pad(x.to(wide(x.dtype)), around, padding), phase), weights, stride).to(x.dtype)


def smooth(x: Tensor, stride: Sequence[int], kernel: Local, padding: str) -> Tensor:
    """The kernel of a stride at every pixel of maps (B, C, d1..dn)."""
    weights = [_cache.get_like((kernel, s), x, partial(_weights, kernel, s)) for s in stride]
    around = [(len(w) // 2, len(w) // 2) for w in weights]
    return _weigh(pad(x.to(wide(x.dtype)), around, padding), weights, [1] * len(stride)).to(x.dtype)


def _weigh(x: Tensor, weights: Sequence[Tensor], stride: Sequence[int]) -> Tensor:
    """Sums with the weights of each axis, a stride apart, of maps that are padded already."""
    ndim = len(weights)
    with autocast_off(x):
        for axis, (row, s) in enumerate(zip(weights, stride)):
            shape, steps = [1] * ndim, [1] * ndim
            shape[axis], steps[axis] = len(row), s
            x = _CONVOLVE[ndim](x, row.view(shape).expand(x.shape[1], 1, *shape), None, steps, groups=x.shape[1])
    return x


def _weights(kernel: Local, stride: int) -> Tensor:
    """k_m at whole pixels, divided by their sum, as far as it shows. (taps,)"""
    scale = kernel.scale(stride)
    far = math.ceil(math.sqrt(2) * scale * (math.sqrt(4 * kernel.order + 1) + 6))
    row = local_function(kernel.order, np.arange(-far, far + 1.0), scale)
    shown = np.flatnonzero(np.abs(row) >= _NEGLIGIBLE * np.abs(row).max())
    row = row[shown[0] : shown[-1] + 1]
    return torch.from_numpy(row / row.sum())
