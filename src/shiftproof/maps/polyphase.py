"""The polyphase split: a map as the stride^n maps of every stride-th pixel."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from shiftproof import checks


def polyphase(x: Tensor, stride: int | Sequence[int], ndim: int = 2) -> Tensor:
    """Split the last `ndim` axes into their stride^n polyphase components: out[..., k, i] = x[..., i * stride + k].

    Component k = (k1..kn) is counted in row-major order; sizes must be divisible by the stride.

    Shape: (..., d1..dn) -> (..., s1 * .. * sn, d1/s1..dn/sn).

    >>> import torch
    >>> polyphase(torch.arange(6.0), 2, ndim=1)
    tensor([[0., 2., 4.],
            [1., 3., 5.]])
    """
    strides = checks.per_axis("stride", stride, ndim)
    lead, sizes = x.shape[: x.dim() - ndim], x.shape[x.dim() - ndim :]
    if any(size % s for size, s in zip(sizes, strides)):
        raise ValueError(f"`x` (shape {tuple(x.shape)}) must be divisible by the `stride` {strides}: pad it first.")
    shape = [n for size, s in zip(sizes, strides) for n in (size // s, s)]
    split = x.reshape(*lead, *shape)  # (..., d1/s1, s1, d2/s2, s2, ..)
    first = len(lead)
    phases = range(first + 1, first + 2 * ndim, 2)
    split = split.permute(*range(first), *phases, *(p - 1 for p in phases))
    return split.flatten(first, first + ndim - 1)
