"""Where GHS is computed. Each function here chooses once per call: compiled C for float32 images, torch for the rest.

The two agree to rounding, and each gives equal bits for shifted maps. This is also where autograd learns that the
transpose of sampling is its backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from shiftproof.ghs import grids
from shiftproof.ghs.backend import native, torch_backend
from shiftproof.ghs.matrix import Plan
from shiftproof.ghs.pivots import Rule, select_pivot
from shiftproof.tensors import has_derivative, is_eager


def find(x: Tensor, rule: str | Rule, ties: str, companions: Sequence[Tensor], counts: Sequence[int] | None) -> Tensor:
    """The pivots (B, n) of maps; the arguments are those of `select_pivot`."""
    found = None
    if isinstance(rule, str) and rule in native.RULES and is_eager(x) and native.fits(x):
        found = native.find(x, rule, grids.all_phases(x.shape[2:], counts or ()) if rule == "phase" else None)
    if found is None:
        return select_pivot(x, rule, ties, companions, counts)
    pivots, undecided = found
    if undecided is not None:
        rows = undecided.nonzero()[:, 0]
        pivots[rows] = select_pivot(x[rows], rule, ties, [c[rows] for c in companions], counts)
    return pivots


def sample(x: Tensor, pivots: Tensor, plan: Plan) -> Tensor:
    """Roll maps (B, C, d1..dn) so that their pivots lie at the plan's origin, then multiply each axis by its matrix."""
    if is_eager(x) and has_derivative(x):
        return _Sample.apply(x, pivots, partial(_sample, plan=plan), partial(_transpose, plan=plan))  # type: ignore[no-untyped-call, no-any-return]
    return _sample(x, pivots, plan)


def spread(y: Tensor, pivots: Tensor, plan: Plan) -> Tensor:
    """The transpose of `sample` as a function of its own: maps (B, C, N1..Nn) at the place of the pivots."""
    run, back = partial(_transpose, plan=plan), partial(_sample, plan=plan)
    if is_eager(y) and has_derivative(y):
        out: Tensor = _Sample.apply(y, pivots, run, back)  # type: ignore[no-untyped-call]
    else:
        out = run(y, pivots)
    if is_eager(y) and native.fits(y) and int(pivots.min()) >= 0:  # zeros are positive already
        return out
    return torch_backend.mark_absent(out, pivots)


def find_and_sample(x: Tensor, plan: Plan, rule: str | Rule, ties: str) -> tuple[Tensor, Tensor]:
    """`sample` at the pivots of `find`, and these; compiled code reads each map once."""
    if not (rule in native.RULES and is_eager(x) and native.fits(x)):
        pivots = find(x, rule, ties, (), plan.counts)
        return sample(x, pivots, plan), pivots
    search = partial(_find_and_sample, plan=plan, rule=rule, ties=ties)
    if has_derivative(x):
        run, back = partial(_sample, plan=plan), partial(_transpose, plan=plan)
        return _FindAndSample.apply(x, search, run, back)  # type: ignore[no-untyped-call, no-any-return]
    return search(x)


def _find_and_sample(x: Tensor, plan: Plan, rule: str, ties: str) -> tuple[Tensor, Tensor]:
    """`find_and_sample` of maps that compiled code takes: only samples it cannot decide are searched again."""
    done = native.find_and_sample(x, plan, rule)
    if done is None:  # no memory
        pivots = select_pivot(x, rule, ties, (), plan.counts)
        return torch_backend.sample(x, pivots, plan), pivots
    out, pivots, undecided = done
    if undecided is not None:
        rows = undecided.nonzero()[:, 0]
        pivots[rows] = select_pivot(x[rows], rule, ties, (), plan.counts)
        out[rows] = _sample(x[rows], pivots[rows], plan)
    return out, pivots


def _sample(x: Tensor, pivots: Tensor, plan: Plan) -> Tensor:
    if is_eager(x) and native.fits(x):
        done = native.sample(x, pivots, plan)
        if done is not None:
            # zeros are positive already
            return done if int(pivots.min()) >= 0 else torch_backend.mark_absent(done, pivots)
    return torch_backend.sample(x, pivots, plan)


def _transpose(g: Tensor, pivots: Tensor, plan: Plan) -> Tensor:
    """The transpose of `_sample` in x: from (B, C, N1..Nn) back to (B, C, d1..dn)."""
    if is_eager(g) and native.fits(g):
        done = native.sample(g, pivots, plan, transpose=True)
        return torch_backend.transpose(g, pivots, plan) + 0.0 if done is None else done  # zeros are positive in both
    return torch_backend.transpose(g, pivots, plan)


Linear = Callable[[Tensor, Tensor], Tensor]


class _Sample(torch.autograd.Function):
    """`run(x, pivots)`, linear in x, and its transpose `back`: each is the backward pass of the other, to any order.

    Keeps nothing but the pivots.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, pivots: Tensor, run: Linear, back: Linear) -> Tensor:
        _Sample.keep(ctx, pivots, run, back)
        return run(x, pivots)

    @staticmethod
    def keep(ctx: Any, pivots: Tensor, run: Linear, back: Linear) -> None:
        """What the backward pass and forward mode need."""
        ctx.save_for_backward(pivots)
        ctx.save_for_forward(pivots)
        ctx.functions = run, back

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (pivots,) = ctx.saved_tensors
        run, back = ctx.functions
        if torch.is_grad_enabled():
            return _Sample.apply(grads[0], pivots, back, run), None, None, None  # type: ignore[no-untyped-call]
        return back(grads[0], pivots), None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (pivots,) = ctx.saved_tensors
        return ctx.functions[0](tangents[0], pivots)  # type: ignore[no-any-return]


class _FindAndSample(_Sample):
    """`search(x)`, which finds the pivots too; they have no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, search: Any, run: Linear, back: Linear) -> Any:
        out, pivots = search(x)
        ctx.mark_non_differentiable(pivots)
        _Sample.keep(ctx, pivots, run, back)
        return out, pivots

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Any:
        return _Sample.jvp(ctx, *tangents), None
