"""Shifts of maps: wrap-around, cropped, by a fraction of a pixel; and the polyphase split.

A shift is given as (row, column) and moves the content that way: out[i] = x[i - shift] (Eq. 16; the paper
writes (column, row)).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof import checks
from shiftproof.tensors import channels_last, has_derivative, is_eager, whole_pixels, wide

BORDERS = ("zeros", "replicate", "reflect", "circular")
Shift = int | float | Sequence[int] | Sequence[float] | Tensor


def circular_shift(x: Tensor, shift: Shift, dims: Sequence[int] = (-2, -1)) -> Tensor:
    r"""Wrap-shift of `x` along `dims` (Eq. 16), one shift for all or one per sample, in one gather.

    .. math:: F^{[r,c]}(i, j) = F(i - r \bmod H, j - c \bmod W)

    * property 1 (Eq. 17): A^[r,a] B^[a,c] = (AB)^[r,c] in (row, column) order;
    * property 2 (Eq. 18): two shifts add up;
    * only moves values: no arithmetic, every bit is kept; its gradient is the shift back.

    `shift` holds one integer per entry of `dims`, or is an integer tensor of shape (\*lead, len(dims)) whose
    leading axes are those of `x`: (B, 2) shifts every sample its own way, (B, C, 2) every channel.

    >>> circular_shift(torch.arange(4.0)[None], torch.tensor([[1]]), dims=[-1])
    tensor([[3., 0., 1., 2.]])
    """
    axes = _axes(x, dims)
    if not isinstance(shift, Tensor):
        return torch.roll(x, _integers(shift, len(axes)), axes)
    if shift.is_floating_point() or shift.is_complex() or shift.dtype == torch.bool:
        raise TypeError(
            f"`shift` (dtype {shift.dtype}) must hold integers; use `fractional_shift` for parts of a pixel."
        )
    lead = shift.dim() - 1
    if lead < 0 or shift.shape[-1] != len(axes):
        raise ValueError(f"`shift` (shape {tuple(shift.shape)}) must end in one entry per shifted axis ({len(axes)}).")
    if any(a < lead for a in axes) or shift.shape[:-1] != x.shape[:lead]:
        raise ValueError(
            f"`shift` (shape {tuple(shift.shape)}) must lead with the leading axes of `x` (shape {tuple(x.shape)}): "
            f"one shift per sample has the shape ({x.shape[0] if x.dim() else 0}, {len(axes)})."
        )
    start = -shift.to(device=x.device, dtype=torch.int64)
    trailing = tuple(range(x.dim() - len(axes), x.dim()))
    if axes == trailing:
        return take_from(x, start)
    return take_from(x.movedim(axes, trailing), start).movedim(trailing, axes)


def take_from(x: Tensor, start: Tensor, origin: Sequence[int] | None = None) -> Tensor:
    """out[..., i] = x[..., (start - origin + i) mod size] over the last `start.shape[-1]` axes, unchecked.

    It moves what lies at `start` to `origin`.
    """
    offsets = tuple(origin) if origin is not None else (0,) * start.shape[-1]
    if is_eager(x) and has_derivative(x):
        return _Wrap.apply(x, start, offsets)  # type: ignore[no-untyped-call, no-any-return]
    return _gather(x, start, offsets)


def _gather(x: Tensor, start: Tensor, offsets: Sequence[int]) -> Tensor:
    """The gather behind `take_from`."""
    if x.numel() == 0:
        return x.clone()
    source, index = gather_plan(x, start, offsets)
    if source.dim() == 2:
        return source.index_select(0, index.flatten()).view(x.movedim(1, -1).shape).movedim(-1, 1)
    return source.gather(2, index[:, None].expand(source.shape)).view(x.shape)


def gather_plan(x: Tensor, start: Tensor, offsets: Sequence[int]) -> tuple[Tensor, Tensor]:
    """How to move what lies at `start` to `offsets`: a view of `x`, and the position of each output pixel in it.

    In channels-last memory whole pixels lie together and are copied as such: (B * P, C) and positions counted
    through all samples. Otherwise (L, R, P), with L starts, R maps that share one, P pixels.
    """
    ndim = start.shape[-1]
    sizes = x.shape[x.dim() - ndim :]
    position, stride = count_up(start[..., -1], offsets[-1], sizes[-1]), sizes[-1]
    for axis in reversed(range(ndim - 1)):
        outer = count_up(start[..., axis], offsets[axis], sizes[axis]) * stride
        position = (outer[:, :, None] + position[:, None]).reshape(-1, sizes[axis] * stride)  # (L, P)
        stride = stride * sizes[axis]
    index = torch.from_numpy(position) if isinstance(position, np.ndarray) else position
    if start.dim() == ndim == 2 and whole_pixels(x):
        first = torch.arange(0, stride * x.shape[0], stride, device=x.device)  # pixel of each sample
        return x.movedim(1, -1).reshape(-1, x.shape[1]), index + first[:, None]
    return x.reshape(index.shape[0], -1, stride), index


def count_up(start: Tensor, offset: int, size: int) -> Any:
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


def cropped_shift(
    x: Tensor, shift: Sequence[int] | int, dims: Sequence[int] = (-2, -1), border: str = "zeros", value: float = 0.0
) -> Tensor:
    """Move the content by `shift` as a camera would: what leaves the frame is lost, and `border` fills the gap.

    `"zeros"` fills with `value`, `"replicate"` with the outermost pixels, `"reflect"` with the mirror image about
    the outermost pixel, `"circular"` with what left on the other side (then it is `circular_shift`).

    >>> cropped_shift(torch.arange(1.0, 5.0), 1, dims=[-1])
    tensor([0., 1., 2., 3.])
    """
    checks.choice("border", border, BORDERS)
    axes = _axes(x, dims)
    out = x
    for axis, amount in zip(axes, _integers(shift, len(axes))):
        out = _window(out, axis, -amount, x.shape[axis], border, value)
    return out


def fractional_shift(x: Tensor, shift: Sequence[float] | float, dims: Sequence[int] = (-2, -1)) -> Tensor:
    r"""Circular shift by any real amount: each frequency is turned by its phase (the shift theorem).

    * whole pixels give `circular_shift` to rounding, and shifts add up below the Nyquist frequency;
    * the Nyquist frequency of an even size has no direction: it is scaled by cos(pi * shift), which keeps the
      output real.

    float16 and bfloat16 are transformed in float32.

    >>> fractional_shift(torch.tensor([0.0, 1.0, 0.0, 0.0]), 1.0, dims=[-1]).round().abs()
    tensor([0., 0., 1., 0.])
    """
    checks.floating("x", x)
    axes = _axes(x, dims)
    amounts = [float(s) for s in (shift if isinstance(shift, Sequence) else [shift])]
    if len(amounts) != len(axes):
        raise ValueError(f"`shift` (={checks.shown(shift)}) must have one entry per shifted axis ({len(axes)}).")
    out = x.to(wide(x.dtype))
    for axis, amount in zip(axes, amounts):
        size = x.shape[axis]
        amount = math.fmod(amount, size)  # after which every frequency repeats
        angle = -2 * math.pi * amount * torch.fft.rfftfreq(size, dtype=torch.float64, device=x.device)
        phase = torch.polar(torch.ones_like(angle), angle).to(out.dtype.to_complex())
        if size % 2 == 0:
            phase[-1] = math.cos(math.pi * amount)
        spectrum = torch.fft.rfft(out, dim=axis).movedim(axis, -1) * phase
        out = torch.fft.irfft(spectrum.movedim(-1, axis), n=size, dim=axis)
    return out.to(x.dtype)


def polyphase(x: Tensor, stride: int | Sequence[int], ndim: int = 2) -> Tensor:
    """Split the last `ndim` axes into their stride^n polyphase components: out[..., k, i] = x[..., i * stride + k].

    Component k = (k1..kn) is counted in row-major order; sizes must be divisible by the stride.

    Shape: (..., d1..dn) -> (..., s1 * .. * sn, d1/s1..dn/sn).

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
        out = _window(out, axis, -before, x.shape[axis] + before + after, mode)
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


def _window(x: Tensor, axis: int, first: int, count: int, border: str, value: float = 0.0) -> Tensor:
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


def _axes(x: Tensor, dims: Sequence[int]) -> tuple[int, ...]:
    """`dims` as distinct axes counted from the front."""
    axes = tuple(d + x.dim() if d < 0 else d for d in dims)
    if not axes or len(set(axes)) != len(axes) or any(not 0 <= a < x.dim() for a in axes):
        raise ValueError(f"`dims` (={tuple(dims)}) must be distinct axes of `x` (shape {tuple(x.shape)}).")
    return axes


def _integers(shift: Any, count: int) -> tuple[int, ...]:
    """`shift` as `count` integers; a float is refused, a wrong number too."""
    values = tuple(shift) if isinstance(shift, Sequence) else (shift,)
    if len(values) != count:
        raise ValueError(f"`shift` (={checks.shown(shift)}) must have one entry per shifted axis ({count}).")
    for v in values:
        if isinstance(v, bool) or not hasattr(v, "__index__"):
            raise TypeError(
                f"`shift` (={checks.shown(shift)}) must hold integers; use `fractional_shift` for parts of a pixel."
            )
    return tuple(int(v) for v in values)
