"""Convolutions that wrap around the border of the map at little cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof import checks
from shiftproof.maps.padding import BORDERS, pad

CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


class _Padded:
    """Torch's convolution with `maps.padding.pad` in the place of its own padding.

    `around` holds the padding (before, after) on each axis, which may differ and exceed the size of the map.

    * `padding_mode="circular"`, stride 1, as much padding as keeps the size: a circular shift of the input shifts
      the output, bit for bit on the CPU on equal shapes (of an infinity in bfloat16, torch may make NaN further away
      than the kernel reaches, and then not at every position alike).
    """

    around: tuple[tuple[int, int], ...]

    def forward(self: Any, x: Tensor) -> Tensor:
        """The convolution of `x`."""
        checks.maps("x", x, len(self.around))
        if self.padding_mode == "zeros" and all(before == after for before, after in self.around):
            amounts = [before for before, _ in self.around]
        else:
            x, amounts = pad(x, self.around, self.padding_mode), [0] * len(self.around)
        convolve = CONVOLVE[len(self.around)]
        return convolve(x, self.weight, self.bias, self.stride, amounts, self.dilation, self.groups)

    def extra_repr(self: Any) -> str:
        """As torch shows it, with the padding on both sides where they differ."""
        text: str = super().extra_repr()  # type: ignore[misc]
        if any(before != after for before, after in self.around):
            text += f", around={self.around}"
        return text


class Conv1d(_Padded, nn.Conv1d):
    """`_Padded` for signals (B, C, W)."""


class Conv2d(_Padded, nn.Conv2d):
    """`_Padded` for images (B, C, H, W)."""


class Conv3d(_Padded, nn.Conv3d):
    """`_Padded` for volumes (B, C, D, H, W)."""


Convolution = Conv1d | Conv2d | Conv3d
CONVOLUTIONS: dict[int, Any] = {1: Conv1d, 2: Conv2d, 3: Conv3d}


def conv(
    channels: int,
    outputs: int,
    kernel_size: int | Sequence[int] = 3,
    stride: int | Sequence[int] = 1,
    *,
    padding: str = "circular",
    around: Sequence[tuple[int, int]] | None = None,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    bias: bool = True,
    ndim: int = 2,
    **options: Any,
) -> Convolution:
    """A convolution layer; unless `around` says otherwise it is padded to keep the size of the map at stride 1.

    The parameters are those of torch's layer, under the same names.

    >>> conv(3, 8, 3)
    Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), padding_mode=circular)
    """
    checks.dimensions(ndim)
    checks.choice("padding", padding, BORDERS)
    kernels = checks.per_axis("kernel_size", kernel_size, ndim)
    strides = checks.per_axis("stride", stride, ndim)
    dilations = checks.per_axis("dilation", dilation, ndim)
    if around is None:
        around = [same_padding(k, d) for k, d in zip(kernels, dilations)]
    layer = CONVOLUTIONS[ndim](
        channels,
        outputs,
        kernels,
        strides,
        padding=[before for before, _ in around],
        dilation=dilations,
        groups=groups,
        bias=bias,
        padding_mode=padding,
        **options,
    )
    layer.around = tuple(around)
    return layer  # type: ignore[no-any-return]


def same_padding(kernel_size: int, dilation: int = 1, before: int | None = None) -> tuple[int, int]:
    """The padding (before, after) that keeps the size, centred or with a given amount `before`."""
    total = dilation * (kernel_size - 1)
    before = total // 2 if before is None else min(before, total)
    return before, total - before
