"""Max pooling, dense and strided, for maps of one, two or three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof import checks
from shiftproof.layers.base import Downsample, register_method
from shiftproof.shifts import pad

_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


def max_pool(
    x: Tensor, stride: int | Sequence[int] = 2, kernel_size: int | None = None, padding: str = "circular", ndim: int = 2
) -> Tensor:
    """The largest value of each window; `kernel_size` defaults to the stride.

    Windows of the stride's own size start at multiples of it, larger ones are centred there. What they need beyond
    the border comes from `padding`; `"zeros"` adds nothing to choose from, as in torch.

    Shape: (B, C, d1..dn) -> (B, C, ceil(d1/stride)..ceil(dn/stride)).

    >>> max_pool(torch.tensor([[[1.0, 5.0, 2.0]]]), 2, ndim=1)
    tensor([[[5., 2.]]])
    """
    checks.maps("x", x, ndim)
    if ndim not in _MAX:
        raise ValueError(f"`ndim` (={ndim}) must be 1, 2 or 3 for max pooling.")
    strides = checks.per_axis("stride", stride, ndim)
    kernels = strides if kernel_size is None else checks.per_axis("kernel_size", kernel_size, ndim)
    amounts = []
    for m, s, k in zip(x.shape[2:], strides, kernels):
        before = 0 if k <= s else (k - 1) // 2
        last = (m + s - 1) // s * s - s  # where the last window starts, before padding
        amounts.append((before, max(0, last + k - before - m)))
    if padding == "zeros":
        x = F.pad(x, [n for pair in reversed(amounts) for n in pair], value=-torch.inf)
    else:
        x = pad(x, amounts, padding)
    return _MAX[ndim](x, kernels, strides)


def dense_max(x: Tensor, kernel_size: int, padding: str, ndim: int) -> Tensor:
    """Max pooling at stride 1: each value becomes the largest of the window that starts there; sizes are kept."""
    if kernel_size == 1:
        return x
    amounts = [(0, kernel_size - 1)] * ndim
    if padding == "zeros":
        x = F.pad(x, [n for pair in amounts for n in pair], value=-torch.inf)
    else:
        x = pad(x, amounts, padding)
    return _MAX[ndim](x, kernel_size, 1)


@register_method("max")
class MaxPool(Downsample):
    """`max_pool` as a layer. Its windows stand still while the map moves: no shift law holds."""

    def __init__(
        self,
        channels: int | None = None,
        stride: int | Sequence[int] = 2,
        padding: str = "circular",
        ndim: int = 2,
        kernel_size: int | None = None,
    ) -> None:
        super().__init__(stride, ndim, padding)
        if ndim not in _MAX:
            raise ValueError(f"`ndim` (={ndim}) must be 1, 2 or 3 for max pooling.")
        self.kernel_size = None if kernel_size is None else checks.integer("kernel_size", kernel_size)

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """The pooled maps; there is nothing to select."""
        assert self.padding is not None
        return max_pool(x, self.stride, self.kernel_size, self.padding, self.ndim)

    def options(self) -> dict[str, Any]:
        """The window, where it is not the stride's own."""
        return {} if self.kernel_size is None else {"kernel_size": self.kernel_size}
