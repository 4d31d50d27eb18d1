"""Pooling over windows: the maximum, the mean, a mixture of both, a random pick; and plain subsampling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof import checks
from shiftproof.layers.base import Downsample, PaddedDownsample
from shiftproof.layers.registry import register_method
from shiftproof.maps.padding import pad
from shiftproof.tensors import wide

_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_MEAN = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def subsample(x: Tensor, stride: int | Sequence[int] = 2, ndim: int = 2) -> Tensor:
    """Every stride-th sample, from the first.

    Shape: (B, C, d1..dn) -> (B, C, ceil(d1/stride)..ceil(dn/stride)).

    >>> subsample(torch.tensor([[[1.0, 5.0, 2.0]]]), 2, ndim=1)
    tensor([[[1., 2.]]])
    """
    checks.maps("x", x, ndim)
    every: tuple[slice, ...] = tuple(slice(None, None, s) for s in checks.per_axis("stride", stride, ndim))
    return x[(slice(None), slice(None), *every)]


def max_pool(
    x: Tensor,
    stride: int | Sequence[int] = 2,
    kernel_size: int | Sequence[int] | None = None,
    padding: str = "circular",
    ndim: int = 2,
) -> Tensor:
    """The largest value of each window; `kernel_size` defaults to the stride.

    Windows of the stride's own size start at multiples of it, larger ones are centred there. What they need beyond
    the border comes from `padding`; `"zeros"` adds nothing to choose from, as in torch.

    Shape: (B, C, d1..dn) -> (B, C, ceil(d1/stride)..ceil(dn/stride)).

    >>> max_pool(torch.tensor([[[1.0, 5.0, 2.0]]]), 2, ndim=1)
    tensor([[[5., 2.]]])
    """
    strides, kernels, amounts = _windows(x, stride, kernel_size, ndim)
    return _MAX[ndim](_pad(x, amounts, padding, -torch.inf), kernels, strides)


def avg_pool(
    x: Tensor,
    stride: int | Sequence[int] = 2,
    kernel_size: int | Sequence[int] | None = None,
    padding: str = "circular",
    ndim: int = 2,
) -> Tensor:
    """The mean of each window, which lies as in `max_pool`; with `padding="zeros"` the zeros count.

    float16 and bfloat16 are summed in float32 and rounded once.

    Shape: (B, C, d1..dn) -> (B, C, ceil(d1/stride)..ceil(dn/stride)).

    >>> avg_pool(torch.tensor([[[1.0, 5.0, 2.0]]]), 2, ndim=1)
    tensor([[[3.0000, 1.5000]]])
    """
    strides, kernels, amounts = _windows(x, stride, kernel_size, ndim)
    return _MEAN[ndim](_pad(x, amounts, padding, 0.0).to(wide(x.dtype)), kernels, strides).to(x.dtype)


def mixed_pool(
    x: Tensor,
    mixture: Tensor | float = 0.5,
    stride: int | Sequence[int] = 2,
    kernel_size: int | Sequence[int] | None = None,
    padding: str = "circular",
    ndim: int = 2,
) -> Tensor:
    """a * maximum + (1 - a) * mean of each window, with a = `mixture` (Lee, Gallagher and Tu 2016)."""
    largest = max_pool(x, stride, kernel_size, padding, ndim)
    mean = avg_pool(x, stride, kernel_size, padding, ndim)
    weight = torch.as_tensor(mixture, dtype=mean.dtype, device=mean.device)
    return torch.lerp(mean, largest, weight)


def stochastic_pool(
    x: Tensor,
    stride: int | Sequence[int] = 2,
    kernel_size: int | Sequence[int] | None = None,
    padding: str = "circular",
    ndim: int = 2,
    training: bool = False,
) -> Tensor:
    r"""A value of each window drawn with probability p, or their mean weighted with p (Zeiler and Fergus 2013).

    .. math:: p_i = a_i / \sum_k a_k, \quad s = a_l, \; l \sim p \;\text{(training)}, \quad s = \sum_i p_i a_i

    The method is made for activations that are not negative: negative ones have no weight, and a window without a
    positive value is drawn from, or averaged, uniformly. With `padding="zeros"` the border has no weight.

    Shape: (B, C, d1..dn) -> (B, C, ceil(d1/stride)..ceil(dn/stride)).
    """
    strides, kernels, amounts = _windows(x, stride, kernel_size, ndim)
    counts = [(m + s - 1) // s for m, s in zip(x.shape[2:], strides)]

    def taps(padded: Tensor) -> Tensor:
        """(B, C, windows..) -> (taps, B, C, ceil(d/stride)..): one strided slice per place in the window."""
        rows = []
        for offset in itertools.product(*(range(k) for k in kernels)):
            where = (slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offset, counts, strides))
            rows.append(padded[(slice(None), slice(None), *where)])
        return torch.stack(rows)

    values = taps(pad(x, amounts, padding).to(wide(x.dtype)))
    inside = torch.ones_like(values)
    if padding == "zeros" and any(n for pair in amounts for n in pair):
        inside = taps(pad(torch.ones_like(x), amounts, padding)).to(values.dtype)
    weight = values.clamp_min(0)
    weight = torch.where(weight.sum(0) > 0, weight, inside)
    if not training:
        return ((weight / weight.sum(0)) * values).sum(0).to(x.dtype)
    # argmax_i p_i / e_i with e_i exponential picks i with probability p_i; the common factor of p does not matter
    race = weight.detach() / torch.empty_like(weight).exponential_()
    return values.gather(0, race.argmax(0, keepdim=True))[0].to(x.dtype)


def dense_max(x: Tensor, kernel_size: int, padding: str, ndim: int) -> Tensor:
    """Max pooling at stride 1: each value becomes the largest of the window that starts there; sizes are kept."""
    if kernel_size == 1:
        return x
    return _MAX[ndim](_pad(x, [(0, kernel_size - 1)] * ndim, padding, -torch.inf), kernel_size, 1)


def _windows(
    x: Tensor, stride: int | Sequence[int], kernel_size: int | Sequence[int] | None, ndim: int
) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[int, int]]]:
    """Strides, window sizes, and the padding before and after that ceil(d/stride) windows need."""
    checks.maps("x", x, checks.dimensions(ndim))
    strides = checks.per_axis("stride", stride, ndim)
    kernels = strides if kernel_size is None else checks.per_axis("kernel_size", kernel_size, ndim)
    amounts = []
    for m, s, k in zip(x.shape[2:], strides, kernels):
        before = 0 if k <= s else (k - 1) // 2
        last = (m + s - 1) // s * s - s  # where the last window starts, before padding
        amounts.append((before, max(0, last + k - before - m)))
    return strides, kernels, amounts


def _pad(x: Tensor, amounts: Sequence[tuple[int, int]], padding: str, empty: float) -> Tensor:
    """`maps.padding.pad`, but `"zeros"` fills with what counts for nothing."""
    if padding == "zeros" and empty:
        return F.pad(x, [n for pair in reversed(amounts) for n in pair], value=empty)
    return pad(x, amounts, padding)


@register_method("strided")
class Strided(Downsample):
    """`subsample` as a layer: what a strided convolution does to its output. It guarantees nothing under shifts.

    Networks that are built with it give the stride to the convolution itself (`in_convolution`).
    """

    in_convolution = True

    def __init__(
        self,
        channels: int | None = None,
        stride: int | Sequence[int] = 2,
        padding: str = "circular",
        ndim: int = 2,
    ) -> None:
        super().__init__(stride, ndim)

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """Every stride-th sample; there is nothing to select."""
        return subsample(x, self.stride, self.ndim)


class _WindowPool(PaddedDownsample):
    """What the pooling layers share. Their windows stay where they are while the map moves: no guarantee holds."""

    def __init__(
        self,
        channels: int | None = None,
        stride: int | Sequence[int] = 2,
        padding: str = "circular",
        ndim: int = 2,
        kernel_size: int | Sequence[int] | None = None,
    ) -> None:
        super().__init__(stride, ndim, padding)
        self.kernel_size = None if kernel_size is None else checks.per_axis("kernel_size", kernel_size, ndim)

    def options(self) -> dict[str, Any]:
        """The window, where it is not the stride's own."""
        if self.kernel_size is None:
            return super().options()
        window = self.kernel_size[0] if len(set(self.kernel_size)) == 1 else self.kernel_size
        return super().options() | {"kernel_size": window}


@register_method("max")
class MaxPool(_WindowPool):
    """`max_pool` as a layer. Its windows stay where they are while the map moves: no guarantee holds."""

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """The pooled maps; there is nothing to select."""
        return max_pool(x, self.stride, self.kernel_size, self.padding, self.ndim)


@register_method("avg")
class AvgPool(_WindowPool):
    """`avg_pool` as a layer. Its windows stay where they are while the map moves: no guarantee holds."""

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """The pooled maps; there is nothing to select."""
        return avg_pool(x, self.stride, self.kernel_size, self.padding, self.ndim)


@register_method("stochastic")
class StochasticPool(_WindowPool):
    """`stochastic_pool` as a layer: draws in training, weights in evaluation. It guarantees nothing under shifts."""

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """The pooled maps; every channel draws for itself, so there is nothing to share."""
        return stochastic_pool(x, self.stride, self.kernel_size, self.padding, self.ndim, self.training)


@register_method("mixed")
class MixedPool(_WindowPool):
    """`mixed_pool` as a layer, with a mixture that is learnt (as the logistic function of one parameter) or fixed.

    `mixture` is where it starts, or stays with `learn=False`: 1 is max pooling, 0 is average pooling.
    """

    def __init__(
        self,
        channels: int | None = None,
        stride: int | Sequence[int] = 2,
        padding: str = "circular",
        ndim: int = 2,
        kernel_size: int | Sequence[int] | None = None,
        mixture: float = 0.5,
        learn: bool = True,
    ) -> None:
        super().__init__(channels, stride, padding, ndim, kernel_size)
        if isinstance(mixture, bool) or not isinstance(mixture, (int, float)) or not 0 <= mixture <= 1:
            raise ValueError(f"`mixture` (={checks.shown(mixture)}) must be a number from 0 to 1.")
        if learn and mixture in (0, 1):
            raise ValueError(f"`mixture` (={mixture}) must lie inside (0, 1) to be learnt: or set `learn=False`.")
        self.fixed = None if learn else float(mixture)
        if learn:
            self.logit = nn.Parameter(torch.tensor(math.log(mixture / (1 - mixture))))

    @property
    def mixture(self) -> Tensor | float:
        """The share of the maximum."""
        return self.logit.sigmoid() if self.fixed is None else self.fixed

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """The pooled maps; there is nothing to select."""
        return mixed_pool(x, self.mixture, self.stride, self.kernel_size, self.padding, self.ndim)

    def options(self) -> dict[str, Any]:
        """The window and the mixture."""
        return super().options() | ({"learn": True} if self.fixed is None else {"mixture": self.fixed, "learn": False})
