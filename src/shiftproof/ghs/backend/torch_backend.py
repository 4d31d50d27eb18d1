"""GHS in torch operations: any dtype, device and dimension, traced or not.

Letters: B batch, C channels, d1..dn input sizes, N1..Nn output sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from shiftproof.ghs.matrix import Plan
from shiftproof.maps.gather import take_from
from shiftproof.tensors import autocast_off, channels_last


def sample(x: Tensor, pivots: Tensor, plan: Plan) -> Tensor:
    """Roll each map so that its pivot p lies at the origin a, F^[a - p] (Eq. 19), then R F R^T (Eqs. 20 and 22).

    Then roll the samples back, if the plan has them stay.
    """
    matrices = [axis.dense for axis in plan.axes]
    aligned = take_from(x, pivots, plan.origin)  # (B, C, d1..dn)
    out = products(aligned.to(matrices[0].dtype), matrices)  # (B, C, N1..Nn)
    moved = plan.moved(pivots)
    if moved is not None:
        out = take_from(out, -moved)
    return mark_absent(out, pivots).to(x.dtype)


def transpose(g: Tensor, pivots: Tensor, plan: Plan) -> Tensor:
    """The transpose of `sample` in x: from (B, C, N1..Nn) back to (B, C, d1..dn)."""
    matrices = [axis.dense for axis in plan.axes]
    if g.numel() == 0:
        return g.new_zeros(*g.shape[:2], *(m.shape[1] for m in matrices))
    moved = plan.moved(pivots)
    work = (g if moved is None else take_from(g, moved)).to(matrices[0].dtype)
    full = products(work, [m.mT for m in matrices])
    return take_from(full, -pivots, [-o for o in plan.origin]).to(g.dtype)


def mark_absent(out: Tensor, pivots: Tensor) -> Tensor:
    """Add 0, so that the sign of a zero does not tell the shift, or NaN where a sample has no pivot."""
    absent = torch.where(pivots[..., 0] < 0, torch.nan, 0.0).to(out.dtype)
    return out + absent.view(*absent.shape, *[1] * (out.dim() - absent.dim()))


def products(x: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """Multiply each spatial axis of (B, C, d1..dn) by its matrix, in the memory layout the map already has."""
    with autocast_off(x):
        if channels_last(x):
            return _multiply(x.movedim(1, -1), matrices).movedim(-1, 1)
        return _multiply(x.reshape(-1, *x.shape[2:]), matrices).view(*x.shape[:2], *(m.shape[0] for m in matrices))


def _multiply(x: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """Multiply axes 1..n of a contiguous (b, d1..dn) or (b, d1..dn, C) by one matrix each."""
    out = x
    for axis, matrix in enumerate(matrices, 1):
        before, after = out.shape[:axis], out.shape[axis + 1 :]
        if len(after) == 0:
            out = (out.reshape(-1, out.shape[axis]) @ matrix.mT).view(*before, matrix.shape[0])
        else:
            slabs = out.reshape(math.prod(before), out.shape[axis], math.prod(after))
            out = torch.bmm(matrix.expand(slabs.shape[0], -1, -1), slabs).view(*before, matrix.shape[0], *after)
    return out
