"""Move pixels around the edges of maps in one gather: no arithmetic, every bit is kept."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shiftproof.tensors import has_derivative, is_eager, whole_pixels

_LARGE = 2**14  # values of a sample from which rolling one after the other is faster than a gather


def take_from(x: Tensor, start: Tensor, origin: Sequence[int] | None = None) -> Tensor:
    """out[..., i] = x[..., (start - origin + i) mod size] over the last `start.shape[-1]` axes, unchecked.

    It moves what lies at `start` to `origin`.
    """
    offsets = tuple(origin) if origin is not None else (0,) * start.shape[-1]
    if is_eager(x) and has_derivative(x):
        return _Wrap.apply(x, start, offsets)  # type: ignore[no-untyped-call, no-any-return]
    return _gather(x, start, offsets)


def _gather(x: Tensor, start: Tensor, offsets: Sequence[int]) -> Tensor:
    """`take_from` without a gradient."""
    if x.numel() == 0:
        return x.clone()
    if start.dim() == 2 and is_eager(x) and x.device.type == "cpu" and x[0].numel() >= _LARGE and not whole_pixels(x):
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        for sample, rolled, step in zip(x, out, (start - torch.tensor(offsets)).tolist()):
            for here, there in _blocks(sample.shape[-len(step) :], step):
                rolled[(..., *there)].copy_(sample[(..., *here)])
        return out
    source, index = gather_view(x, start, offsets)
    if source.dim() == 2:
        return source.index_select(0, index.flatten()).view(x.movedim(1, -1).shape).movedim(-1, 1)
    return source.gather(2, index[:, None].expand(source.shape)).view(x.shape)


def _blocks(sizes: Sequence[int], start: Sequence[int]) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """The 2^n blocks that a roll leaves in one piece: where each lies, and where it goes."""
    cuts = [s % size for s, size in zip(start, sizes)]
    for sides in itertools.product((False, True), repeat=len(sizes)):  # before the cut, or after it
        if all(cut or after for cut, after in zip(cuts, sides)):
            yield (
                tuple(slice(cut, None) if after else slice(cut) for cut, after in zip(cuts, sides)),
                tuple(slice(n - cut) if after else slice(n - cut, None) for n, cut, after in zip(sizes, cuts, sides)),
            )


def gather_view(x: Tensor, start: Tensor, offsets: Sequence[int]) -> tuple[Tensor, Tensor]:
    """A view of `x`, and the position of each output pixel in it, that move what lies at `start` to `offsets`.

    In channels-last memory whole pixels lie together and are copied as such: (B * P, C) and positions counted
    through all samples. Otherwise (L, R, P), with L starts, R maps that share one, P pixels.
    """
    ndim = start.shape[-1]
    sizes = x.shape[x.dim() - ndim :]
    position, stride = roll_indices(start[..., -1], offsets[-1], sizes[-1]), sizes[-1]
    for axis in reversed(range(ndim - 1)):
        outer = roll_indices(start[..., axis], offsets[axis], sizes[axis]) * stride
        position = (outer[:, :, None] + position[:, None]).reshape(-1, sizes[axis] * stride)  # (L, P)
        stride = stride * sizes[axis]
    index = torch.from_numpy(position) if isinstance(position, np.ndarray) else position
    if start.dim() == ndim == 2 and whole_pixels(x):
        first = torch.arange(0, stride * x.shape[0], stride, device=x.device)  # pixel of each sample
        return x.movedim(1, -1).reshape(-1, x.shape[1]), index + first[:, None]
    return x.reshape(index.shape[0], -1, stride), index


def roll_indices(start: Tensor, offset: int, size: int) -> Any:
    """(...) starts -> (L, size) indices (start - offset + i) mod size, as an array or a tensor.

    Small arithmetic on the CPU is done by numpy, which takes a fraction of the time torch needs for it.
    """
    if is_eager(start) and start.device.type == "cpu":
        return (start.numpy().reshape(-1, 1) + np.arange(-offset, size - offset)) % size
    return (start.reshape(-1, 1) + torch.arange(-offset, size - offset, device=start.device)) % size


class _Wrap(torch.autograd.Function):
    """`_gather` with a backward pass that is a gather too (the shift back) and keeps nothing but the start."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, start: Tensor, offsets: Sequence[int]) -> Tensor:
        ctx.save_for_backward(start)
        ctx.save_for_forward(start)
        ctx.offsets = offsets
        return _gather(x, start, offsets)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (start,) = ctx.saved_tensors
        return take_from(grads[0], -start, [-o for o in ctx.offsets]), None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (start,) = ctx.saved_tensors
        return take_from(tangents[0], start, ctx.offsets)
