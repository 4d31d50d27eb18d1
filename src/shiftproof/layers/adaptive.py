"""Adaptive low-pass filters: a blur whose weights follow the content (Zou et al. 2020)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from shiftproof import checks
from shiftproof.layers.base import PaddedDownsample
from shiftproof.layers.convolution import conv, same_padding
from shiftproof.layers.registry import register_method
from shiftproof.maps.padding import pad
from shiftproof.tensors import wide

_NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


def filter_pool(
    x: Tensor, weights: Tensor, stride: int | Sequence[int] = 2, padding: str = "circular", ndim: int = 2
) -> Tensor:
    r"""Filter each group of channels with weights of its own at every output position.

    .. math:: y_{c,i} = \sum_o w_{g(c),o,i}\, x_{c,\, i s + o - \lfloor (k-1)/2 \rfloor}

    `weights` is (B, G, taps^n, N1..Nn), with G groups that divide the channels.

    Shape: (B, C, d1..dn) -> (B, C, ceil(d1/stride)..ceil(dn/stride)).
    """
    checks.maps("x", x, checks.dimensions(ndim))
    strides = checks.per_axis("stride", stride, ndim)
    taps = round(weights.shape[2] ** (1 / ndim))
    padded = pad(x, [same_padding(taps)] * ndim, padding)
    counts, work = weights.shape[3:], wide(x.dtype)
    total: Tensor | None = None
    for k, offset in enumerate(itertools.product(range(taps), repeat=ndim)):
        where = (slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offset, counts, strides))
        part = padded[(slice(None), slice(None), *where)].to(work)
        part = part.reshape(
            x.shape[0], weights.shape[1], x.shape[1] // weights.shape[1], *counts
        )  # (B, G, C / G, N1..Nn)
        term = weights[:, :, k, None].to(work) * part
        total = term if total is None else total + term
    assert total is not None
    return total.reshape(x.shape[0], x.shape[1], *counts).to(x.dtype)


@register_method("lpf-adaptive")
class AdaptiveBlurPool(PaddedDownsample):
    """Content-aware low-pass filter: a convolution, batch norm and softmax give the filter of every position.

    `groups` sets of channels have a filter each (by default up to 8); all weights are positive and sum to 1. It
    guarantees nothing under shifts: the grid stays where it is while the map moves.
    """

    def __init__(
        self,
        channels: int,
        stride: int | Sequence[int] = 2,
        padding: str = "circular",
        ndim: int = 2,
        taps: int = 3,
        groups: int | None = None,
    ) -> None:
        super().__init__(stride, ndim, padding)
        self.taps = checks.integer("taps", taps)
        self.groups = math.gcd(channels, 8) if groups is None else checks.integer("groups", groups)
        if channels % self.groups:
            raise ValueError(f"`groups` (={self.groups}) must divide the number of channels (={channels}).")
        outputs = self.groups * taps**ndim
        self.conv = conv(channels, outputs, taps, self.stride, padding=padding, bias=False, ndim=ndim)
        self.norm = _NORM[ndim](outputs)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")

    def weights(self, x: Tensor) -> Tensor:
        """The filter of every group at every output position. (B, C, d1..dn) -> (B, G, taps^n, N1..Nn)"""
        logits: Tensor = self.norm(self.conv(x))
        return logits.reshape(x.shape[0], self.groups, self.taps**self.ndim, *logits.shape[2:]).softmax(2)

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """The filtered maps; the filters belong to these channels, so there is nothing to share."""
        checks.maps("x", x, self.ndim)
        return filter_pool(x, self.weights(x), self.stride, self.padding, self.ndim)

    def options(self) -> dict[str, Any]:
        """The filter and its groups."""
        return super().options() | {"taps": self.taps, "groups": self.groups}
