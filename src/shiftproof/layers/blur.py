"""BlurPool (LPF): a binomial low-pass filter before subsampling (Zhang 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.cache import TensorCache
from shiftproof.layers.base import PaddedDownsample
from shiftproof.layers.convolution import CONVOLVE
from shiftproof.layers.pooling import dense_max, subsample
from shiftproof.layers.registry import register_method
from shiftproof.maps.padding import pad
from shiftproof.tensors import autocast_off, wide

_cache = TensorCache()


def binomial(taps: int, ndim: int) -> Tensor:
    """The separable filter with weights C(taps-1, k) / 2^(taps-1) on each axis, in float64. (taps,) * ndim"""
    row = torch.tensor([math.comb(taps - 1, k) / 2 ** (taps - 1) for k in range(taps)], dtype=torch.float64)
    kernel = row
    for _ in range(ndim - 1):
        kernel = kernel[..., None] * row
    return kernel


def blur_pool(
    x: Tensor, stride: int | Sequence[int] = 2, taps: int = 3, padding: str = "circular", ndim: int = 2
) -> Tensor:
    """Filter every channel with `taps` binomial weights on each axis, keep every stride-th sample.

    * the weights sum to 1: a constant stays what it is (except at the border of `padding="zeros"`);
    * one tap is plain subsampling; stride 1 is the filter alone.

    float16 and bfloat16 are filtered in float32 and rounded once.

    Shape: (B, C, d1..dn) -> (B, C, ceil(d1/stride)..ceil(dn/stride)).

    >>> blur_pool(torch.tensor([[[0.0, 4.0, 0.0, 0.0]]]), 2, ndim=1)
    tensor([[[1., 1.]]])
    """
    checks.maps("x", x, checks.dimensions(ndim))
    strides = checks.per_axis("stride", stride, ndim)
    before = (checks.integer("taps", taps) - 1) // 2
    padded = pad(x, [(before, taps - 1 - before)] * ndim, padding)
    if taps == 1:
        return subsample(padded, strides, ndim)
    padded = padded.to(wide(x.dtype))
    kernel = _cache.get_like((taps, ndim), x, lambda: binomial(taps, ndim))
    weight = kernel.expand(x.shape[1], 1, *[taps] * ndim)
    with autocast_off(x):
        return CONVOLVE[ndim](padded, weight, stride=strides, groups=x.shape[1]).to(x.dtype)


class BlurredDownsample(PaddedDownsample):
    """What LPF, APS and LPS share: a dense maximum first (1: none), and a blur of `taps` (1: none)."""

    def __init__(self, stride: int | Sequence[int], ndim: int, padding: str, taps: int, dense_max: int) -> None:
        super().__init__(stride, ndim, padding)
        self.taps = checks.integer("taps", taps)
        self.dense_max = checks.integer("dense_max", dense_max)

    def dense(self, x: Tensor) -> Tensor:
        """The dense maximum of the maps."""
        checks.maps("x", x, self.ndim)
        return dense_max(x, self.dense_max, self.padding, self.ndim)

    def options(self) -> dict[str, Any]:
        """The filter, and the dense maximum if there is one."""
        return super().options() | {"taps": self.taps} | ({"dense_max": self.dense_max} if self.dense_max > 1 else {})


@register_method("lpf")
class BlurPool(BlurredDownsample):
    """`blur_pool` as a layer; `dense_max=2` first takes a dense 2 x 2 maximum, which replaces max pooling.

    The blur makes shifts matter less and guarantees nothing: the grid stays where it is while the map moves.
    """

    def __init__(
        self,
        channels: int | None = None,
        stride: int | Sequence[int] = 2,
        padding: str = "circular",
        ndim: int = 2,
        taps: int = 3,
        dense_max: int = 1,
    ) -> None:
        super().__init__(stride, ndim, padding, taps, dense_max)

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """The blurred and subsampled maps; there is nothing to select."""
        return blur_pool(self.dense(x), self.stride, self.taps, self.padding, self.ndim)
