"""The measure as assertions, for tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from shiftproof.invariance.measure import difference, shift_error
from shiftproof.invariance.trials import Shift, Shifts, outputs, plan_shifts


def assert_shift_invariant(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    shifts: Shifts = "all",
    kind: str = "circular",
    *,
    tolerance: float = 0.0,
    border: str = "zeros",
    batch_size: int | None = None,
    seed: int = 0,
) -> None:
    """Raise `AssertionError` unless f(x) stays the same under shifts (Eq. 14); tolerance 0 compares bits."""
    error = shift_error(f, x, shifts, kind, border=border, batch_size=batch_size, seed=seed)
    if error.exact or (tolerance > 0 and error.max <= tolerance):
        return
    beyond = int((error.changes > tolerance).sum())
    raise AssertionError(
        f"not invariant to {kind} shifts: {beyond} of {len(error.shifts)} shifts change the output by more than "
        f"{tolerance:g}; the largest change is {error.max:.3g}, at shift {error.worst}."
        + ("" if beyond else " Values are equal, bits are not: the sign of a zero or a NaN differs.")
    )


def assert_shift_equivariant(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    shifts: Shifts = "all",
    *,
    tolerance: float = 0.0,
    batch_size: int | None = None,
    seed: int = 0,
) -> None:
    """Raise `AssertionError` unless a circular shift of `x` shifts the maps f(x) along.

    Where f makes maps smaller by a stride s, a shift by d must shift them by floor(d/s) or ceil(d/s) on each axis,
    the same for all channels of an image: no finer grid exists.
    """
    _, tried = plan_shifts(x, shifts, "circular", seed)
    worst, where, beyond = 0.0, tried[0], 0
    for _, which, reference, moved in outputs(f, x, tried, "circular", "zeros", batch_size):
        if moved.dim() != x.dim():
            raise ValueError(f"`f` must return maps with {x.dim()} dimensions, not {tuple(moved.shape)}.")
        parts = zip(reference.chunk(len(which)), moved.chunk(len(which)))
        for s, (before, after) in zip(which, parts):
            error = _equivariance_error(before, after, tried[s], x.shape[2:])
            beyond += error > tolerance
            if error > worst:
                worst, where = error, tried[s]
    if beyond:
        raise AssertionError(
            f"not equivariant: {beyond} of {len(tried)} shifts change the output by more than a shift, beyond "
            f"{tolerance:g}; the largest change is {worst:.3g}, at shift {where}."
        )


def _equivariance_error(before: Tensor, after: Tensor, shift: Shift, sizes: Sequence[int]) -> float:
    """The change that is left after the best of the admissible shifts of the output, over all images."""
    choices = []
    for d, m, n in zip(shift, sizes, before.shape[2:]):
        choices.append(sorted({math.floor(d * n / m), math.ceil(d * n / m)}))
    axes = tuple(range(2, before.dim()))
    errors = [
        difference(torch.roll(before, candidate, axes), after).flatten(1).amax(1)  # (B,)
        for candidate in itertools.product(*choices)
    ]
    return float(torch.stack(errors).amin(0).max())
