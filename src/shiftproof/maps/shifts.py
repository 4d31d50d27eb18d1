"""Shifts of maps: circular, cropped as by a camera, by a fraction of a pixel.

A shift is given as (row, column) and moves the content that way: out[i] = x[i - shift] (Eq. 16; the paper
writes (column, row)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.maps.gather import take_from
from shiftproof.maps.padding import BORDERS, continued
from shiftproof.tensors import wide

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
        out = continued(out, axis, -amount, x.shape[axis], border, value)
    return out


def fractional_shift(
    x: Tensor,
    shift: Sequence[float] | float | Tensor,
    dims: Sequence[int] = (-2, -1),
    *,
    keep_nyquist: bool = True,
) -> Tensor:
    r"""Circular shift by any real amount: each frequency gets its phase (the shift theorem).

    * whole pixels give `circular_shift` to rounding, and shifts add up below the Nyquist frequency;
    * the Nyquist frequency of an even size has no direction: it is scaled by cos(pi * shift), which keeps the
      output real, or left out without `keep_nyquist`.

    A tensor of shape (B, len(dims)) shifts each sample of the first axis its own way, and may have a gradient. float16
    and bfloat16 are transformed in float32.

    >>> fractional_shift(torch.tensor([0.0, 1.0, 0.0, 0.0]), 1.0, dims=[-1]).round().abs()
    tensor([0., 0., 1., 0.])
    """
    checks.floating("x", x)
    axes = _axes(x, dims)
    if isinstance(shift, Tensor):
        fits = shift.shape == (x.shape[0], len(axes))
        amounts = shift.double().view(-1, *[1] * (x.dim() - 2), shift.shape[-1]).unbind(-1) if fits else ()
    else:
        amounts = torch.tensor(shift, dtype=torch.float64, device=x.device).reshape(-1).unbind()
    if len(amounts) != len(axes):
        raise ValueError(
            f"`shift` (={checks.shown(shift)}) must have one entry per shifted axis ({len(axes)}), or be a tensor "
            f"(B, {len(axes)}) with one row per sample of `x` (shape {tuple(x.shape)})."
        )
    out = x.to(wide(x.dtype))
    for axis, amount in zip(axes, amounts):  # each () or (B, 1..1)
        size = x.shape[axis]
        amount = amount.fmod(size)[..., None]  # after which every frequency repeats
        angle = -2 * math.pi * amount * torch.fft.rfftfreq(size, dtype=torch.float64, device=x.device)
        phase = torch.polar(torch.ones_like(angle), angle)
        if size % 2 == 0:
            nyquist = torch.cos(math.pi * amount) if keep_nyquist else torch.zeros_like(amount)
            phase = torch.cat([phase[..., :-1], nyquist.to(phase.dtype)], -1)
        spectrum = torch.fft.rfft(out, dim=axis).movedim(axis, -1)
        out = torch.fft.irfft((spectrum * phase.to(spectrum.dtype)).movedim(-1, axis), n=size, dim=axis)
    return out.to(x.dtype)


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
