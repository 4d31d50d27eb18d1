"""Padding of maps: around the border, with zeros, replicated, reflected; by any amount, in any memory layout."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof import checks
from shiftproof.tensors import channels_last, has_derivative, is_eager

BORDERS = ("zeros", "replicate", "reflect", "circular")


def pad(x: Tensor, amounts: Sequence[tuple[int, int]], mode: str) -> Tensor:
    """Pad each spatial axis of (B, C, d1..dn) by its (before, after); `mode` as in `BORDERS`.

    Unlike `torch.nn.functional.pad` it wraps and reflects by any amount, however small the map; and the gradient of
    its wrap is a fraction of the work.
    """
    checks.choice("padding", mode, BORDERS)
    if not any(before or after for before, after in amounts):
        return x
    sizes = x.shape[2:]
    if mode == "circular" and is_eager(x) and all(max(pair) <= n for pair, n in zip(amounts, sizes)):
        if has_derivative(x):
            return _WrapPad.apply(x, tuple(amounts), _wrap_pad)  # type: ignore[no-untyped-call, no-any-return]
        return _wrap_pad(x, amounts)
    room = -1 if mode == "reflect" else 0  # the reach of torch's own padding, which is the faster one
    if mode in ("zeros", "replicate") or all(max(pair) <= n + room for pair, n in zip(amounts, sizes)):
        flat = [n for pair in reversed(amounts) for n in pair]
        return F.pad(x, flat, mode="constant" if mode == "zeros" else mode)
    out = x
    for axis, (before, after) in enumerate(amounts, 2):
        out = continued(out, axis, -before, x.shape[axis] + before + after, mode)
    return out


def _wrap_pad(x: Tensor, amounts: Sequence[tuple[int, int]]) -> Tensor:
    """Pad with what lies on the other side, by at most the size of the map."""
    if not channels_last(x):  # which torch would give up
        return F.pad(x, [n for pair in reversed(amounts) for n in pair], mode="circular")
    sizes = x.shape[2:]
    shape = [n + before + after for n, (before, after) in zip(sizes, amounts)]
    out = torch.empty((*x.shape[:2], *shape), dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    for inside, outside in _pieces(sizes, amounts):
        out[outside] = x[inside]
    return out


def _wrap_fold(g: Tensor, amounts: Sequence[tuple[int, int]]) -> Tensor:
    """The transpose of `_wrap_pad`: every entry of the frame is added where it came from."""
    sizes = [n - before - after for n, (before, after) in zip(g.shape[2:], amounts)]
    (_, middle), *frame = _pieces(sizes, amounts)
    out = g[middle].clone()
    for inside, outside in frame:
        out[inside] += g[outside]
    return out


def _pieces(sizes: Sequence[int], amounts: Sequence[tuple[int, int]]) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """(where in the map, where in the padded map) for the map itself, then for each piece of the frame around it."""
    axes = []
    for n, (before, after) in zip(sizes, amounts):
        pieces = [(slice(None), slice(before, before + n))]
        if before:
            pieces.append((slice(n - before, None), slice(before)))
        if after:
            pieces.append((slice(after), slice(before + n, None)))
        axes.append(pieces)
    return [((..., *(p[0] for p in piece)), (..., *(p[1] for p in piece))) for piece in itertools.product(*axes)]


class _WrapPad(torch.autograd.Function):
    """`_wrap_pad` and `_wrap_fold`, each the backward pass of the other, to any order; keeps no tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, amounts: Any, run: Any) -> Tensor:
        ctx.constants = amounts, run
        return run(x, amounts)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        amounts, run = ctx.constants
        other = _wrap_fold if run is _wrap_pad else _wrap_pad
        if torch.is_grad_enabled():
            back = _WrapPad.apply(grads[0], amounts, other)  # type: ignore[no-untyped-call]
        else:
            back = other(grads[0], amounts)
        return back, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        amounts, run = ctx.constants
        return run(tangents[0], amounts)  # type: ignore[no-any-return]


def continued(x: Tensor, axis: int, first: int, count: int, border: str, value: float = 0.0) -> Tensor:
    """Entries first .. first + count - 1 of an axis that `border` continues beyond both ends."""
    size = x.shape[axis]
    i = torch.arange(first, first + count, device=x.device)
    if border == "circular":
        source = i.remainder(size)
    elif border == "reflect" and size > 1:
        # a triangle wave of period 2 (size - 1): 0 1 2 1 0 1 2 ..
        source = size - 1 - (i.remainder(2 * size - 2) - (size - 1)).abs()
    else:
        source = i.clamp(0, size - 1)
    out = x.index_select(axis, source)
    if border == "zeros":
        outside = ((i < 0) | (i >= size)).view([-1 if d == axis else 1 for d in range(x.dim())])
        out = out.masked_fill(outside, value)
    return out
