"""Align maps at their pivots and multiply every axis by its matrix; and the same backwards, for gradients.

Letters: B batch, C channels, d1..dn input sizes, N1..Nn output sizes, L samples (or channels) with a pivot each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shiftproof.ghs.backend import native
from shiftproof.maps.shifts import count_up, take_from
from shiftproof.tensors import autocast_off, channels_last, has_derivative, is_eager


def resample(x: Tensor, selection: Tensor, origin: Sequence[int], matrices: Sequence[Tensor]) -> Tensor:
    """Turn (B, C, d1..dn) so that the pivots lie at `origin`, then multiply each axis by its (N, M) matrix.

    Autocast has no say in either direction.
    """
    if is_eager(x) and has_derivative(x):
        return _Resample.apply(x, selection, origin, matrices, _forward)  # type: ignore[no-untyped-call, no-any-return]
    return _forward(x, selection, origin, matrices)


def find_and_resample(
    x: Tensor, origin: Sequence[int], matrices: Sequence[Tensor], phases: Sequence[int] | None = None
) -> tuple[Tensor, Tensor] | None:
    """`resample` of eager maps at their maxima, and these; None where it needs more than one pass over the maps.

    With `phases`, at the maximum of the best phase: `pivots.score_phase`.
    """
    done = native.find_and_sample(x, origin, matrices, phases) if native.fits(x) else None
    if done is None or not has_derivative(x):
        return done
    out, selection = done
    # not as a tensor: autograd would take what comes in and goes out for a view
    return _Resample.apply(x, selection, origin, matrices, _forward, [out]), selection  # type: ignore[no-untyped-call]


def _forward(x: Tensor, selection: Tensor, origin: Sequence[int], matrices: Sequence[Tensor]) -> Tensor:
    if is_eager(x) and native.fits(x):
        done = native.sample(x, selection, origin, matrices)
        if done is not None:
            return _mark_only(done, selection)
    # turn the map so that the pivot p lies at the anchor a: F^[a - p] (Eq. 19; there a = 0)
    aligned = take_from(x, selection, origin)  # (B, C, d1..dn)
    # one product per axis: Q^T A Q, with A of Eq. 20 and Q^T of Eq. 22 fused into R
    out = products(aligned.to(matrices[0].dtype), matrices)
    return mark_absent(out, selection).to(x.dtype)


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


def mark_absent(out: Tensor, selection: Tensor) -> Tensor:
    """Add 0, so that the sign of a zero leaves no trace of the shift, or NaN where a sample has no pivot.

    May write into `out`.
    """
    if is_eager(out) and is_eager(selection) and (selection.numel() == 0 or int(selection.min()) >= 0):
        return out + 0.0 if out.requires_grad else out.add_(0.0)
    absent = torch.where(selection[..., 0] < 0, torch.nan, 0.0).to(out.dtype)
    return out + absent.view(*absent.shape, *[1] * (out.dim() - absent.dim()))


def _mark_only(out: Tensor, selection: Tensor) -> Tensor:
    """NaN where a sample has no pivot; the zeros are positive already."""
    return out if int(selection.min()) >= 0 else mark_absent(out, selection)


def _adjoint(g: Tensor, selection: Tensor, origin: Sequence[int], matrices: Sequence[Tensor]) -> Tensor:
    """The transpose of `_forward` in x: from (B, C, N1..Nn) back to (B, C, d1..dn)."""
    if g.numel() == 0:
        return g.new_zeros(*g.shape[:2], *(m.shape[1] for m in matrices))
    if is_eager(g) and native.fits(g):
        done = native.sample(g, selection, origin, matrices, backwards=True)
        if done is not None:
            return done
    work = g.to(matrices[0].dtype)
    if selection.dim() == 2 and channels_last(g):
        full = products(work, [m.mT for m in matrices])
        return take_from(full, -selection, [-o for o in origin]).to(g.dtype)
    with autocast_off(g):
        return _turned_products(work, selection.reshape(-1, len(matrices)), origin, matrices).to(g.dtype)


def _turned_products(g: Tensor, pivots: Tensor, origin: Sequence[int], matrices: Sequence[Tensor]) -> Tensor:
    """Multiply by R^T with its rows turned, which saves turning the map back: for contiguous maps the faster way.

    The sums run over the outputs, whose order stays, so this is the same arithmetic.
    """
    lead = pivots.shape[0]
    out = g.contiguous()
    after = 1
    for axis in reversed(range(len(matrices))):
        count, size = matrices[axis].shape
        # row i of the turned R^T is row (i - p + a) of R^T
        i = torch.as_tensor(count_up(-pivots[:, axis], -origin[axis], size))
        turned = matrices[axis].mT.contiguous().index_select(0, i.flatten()).view(lead, 1, size, count)
        if after == 1:
            out = out.reshape(lead, -1, count) @ turned[:, 0].mT
        else:
            slabs = out.reshape(lead, -1, count, after)
            out = turned.expand(-1, slabs.shape[1], -1, -1) @ slabs
        after *= size
    return out.reshape(*g.shape[:2], *(m.shape[1] for m in matrices))


class _Resample(torch.autograd.Function):
    """`_forward` and `_adjoint`, each the backward pass of the other, to any order; keeps nothing but the pivots."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, selection: Tensor, origin: Any, matrices: Any, run: Any, done: Sequence[Tensor] = ()
    ) -> Tensor:
        ctx.save_for_backward(selection)
        ctx.save_for_forward(selection)
        ctx.constants = origin, matrices, run
        return done[0] if done else run(x, selection, origin, matrices)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (selection,) = ctx.saved_tensors
        origin, matrices, run = ctx.constants
        other = _adjoint if run is _forward else _forward
        if torch.is_grad_enabled():
            back = _Resample.apply(grads[0], selection, origin, matrices, other)  # type: ignore[no-untyped-call]
        else:
            back = other(grads[0], selection, origin, matrices)
        return back, None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (selection,) = ctx.saved_tensors
        origin, matrices, run = ctx.constants
        return run(tangents[0], selection, origin, matrices)  # type: ignore[no-any-return]


def products(x: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """Multiply each spatial axis of (B, C, d1..dn) by its matrix, in the memory layout the map already has."""
    with autocast_off(x):
        if channels_last(x):
            return _multiply(x.movedim(1, -1), matrices).movedim(-1, 1)
        return _multiply(x.reshape(-1, *x.shape[2:]), matrices).view(*x.shape[:2], *(m.shape[0] for m in matrices))
