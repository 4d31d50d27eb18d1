"""The one measure of shift error: tests, evaluation and reports all use it.

Letters: B images, S shifts, H x W image size.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.maps.shifts import circular_shift, cropped_shift, fractional_shift
from shiftproof.tensors import channels_last

KINDS = ("circular", "cropped", "fractional")
Shift = tuple[float, ...]
Shifts = str | int | Sequence[Sequence[float]]
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class ShiftError:
    """How far the output of a function moves when its input is shifted.

    `max` and `mean` are the largest and the mean absolute change of the output over all images and shifts, `worst`
    the shift of the largest change, `exact` whether every output is equal bit for bit. `changes` holds the largest
    change for each of the `shifts`, `map` the same on the grid of all shifts (H x W for circular ones; NaN where a
    shift was not tried).
    """

    max: float
    mean: float
    worst: Shift
    exact: bool
    shifts: list[Shift]
    changes: Tensor
    map: Tensor

    def __str__(self) -> str:
        state = "bit for bit equal" if self.exact else f"largest at shift {self.worst}"
        return f"shift error over {len(self.shifts)} shifts: max {self.max:.3g}, mean {self.mean:.3g}, {state}"


@dataclass(frozen=True)
class Consistency:
    """How often a classifier keeps its answer when its input is shifted.

    `pairs` is the probability that two random shifts of an image get the same class, averaged over images;
    `reference` the share of shifts that keep the class of the unshifted image; `per_image` the former for each
    image; `map` the latter for each shift (NaN where a shift was not tried).
    """

    pairs: float
    reference: float
    per_image: Tensor
    map: Tensor

    def __str__(self) -> str:
        return f"consistency: {self.pairs:.2%} of pairs of shifts agree, {self.reference:.2%} with the unshifted image"


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same dtype, shape and bytes: -0.0 differs from 0.0, NaN equals the same NaN.

    >>> same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    False
    """
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.is_complex():
        return same_bits(torch.view_as_real(a), torch.view_as_real(b))
    if a.is_floating_point():
        bits = _INTEGERS[a.element_size()]
        a, b = a.contiguous().view(bits), b.contiguous().view(bits)
    return torch.equal(a, b)


def shift_error(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    shifts: Shifts = "all",
    kind: str = "circular",
    *,
    border: str = "zeros",
    batch_size: int = 256,
    seed: int = 0,
) -> ShiftError:
    """The change of f(x) when the images `x` (B, C, H, W) are shifted (Eqs. 14 and 15).

    `f` takes a batch of images. Its reference is evaluated in the same batch shape and at the same places of the
    batch as the shifted copies, because rounding may depend on both.

    `shifts`: `"all"`, the number of a random sample drawn with `seed`, or a list of (row, column).
    `kind`: `"circular"` (all: H x W), `"cropped"` with a `border` (all: up to an eighth of the size each way),
    `"fractional"` (all: multiples of 1/8 pixel up to one pixel).

    Outputs that are equal, infinite or NaN on both sides count as no change; NaN on one side counts as infinite.

    >>> shift_error(lambda x: x.amax((2, 3)), torch.rand(2, 3, 8, 8)).max
    0.0
    """
    grid, tried = _plan(x, shifts, kind, seed)
    changes = _Changes(grid, tried)
    for _, which, reference, moved in _outputs(f, x, tried, kind, border, batch_size):
        changes.add(which, reference, moved)
    return changes.result()


def consistency(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    shifts: Shifts = "all",
    kind: str = "circular",
    *,
    border: str = "zeros",
    batch_size: int = 256,
    seed: int = 0,
) -> Consistency:
    """How often the classifier `f`, images (B, C, H, W) to scores (B, classes), keeps its answer under shifts.

    The arguments are those of `shift_error`.

    >>> consistency(lambda x: x.amax((2, 3)), torch.rand(2, 3, 8, 8)).pairs
    1.0
    """
    return survey(f, x, shifts, kind, border=border, batch_size=batch_size, seed=seed)[1]


def survey(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    shifts: Shifts = "all",
    kind: str = "circular",
    *,
    border: str = "zeros",
    batch_size: int = 256,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[ShiftError, Consistency]:
    """`shift_error` and `consistency` of a classifier from one pass over the shifted images.

    `progress` is told how many shifted images are done, and of how many.

    >>> error, agreement = survey(lambda x: x.amax((2, 3)), torch.rand(2, 3, 8, 8))
    >>> error.exact, agreement.pairs
    (True, 1.0)
    """
    grid, tried = _plan(x, shifts, kind, seed)
    changes, answers = _Changes(grid, tried), _Answers(grid, tried, x.shape[0])
    done = 0
    for images, which, reference, moved in _outputs(f, x, tried, kind, border, batch_size):
        changes.add(which, reference, moved)
        answers.add(images, which, reference, moved)
        done += moved.shape[0]
        if progress is not None:
            progress(done, len(tried) * x.shape[0])
    return changes.result(), answers.result()


class _Changes:
    """Collects what `ShiftError` reports, block by block of `_outputs`."""

    def __init__(self, grid: list[list[float]], tried: list[Shift]) -> None:
        self.grid, self.tried = grid, tried
        self.largest = torch.zeros(len(tried), dtype=torch.float64)
        self.total, self.count, self.exact = 0.0, 0, True

    def add(self, which: list[int], reference: Tensor, moved: Tensor) -> None:
        self.exact = self.exact and same_bits(reference, moved)
        change = _change(reference, moved).view(len(which), -1)  # (shifts, images * outputs)
        self.largest[which] = torch.maximum(self.largest[which], change.amax(1))
        self.total += float(change.sum())
        self.count += change.numel()

    def result(self) -> ShiftError:
        worst = int(self.largest.argmax())
        return ShiftError(
            max=float(self.largest[worst]),
            mean=self.total / self.count,
            worst=self.tried[worst],
            exact=self.exact,
            shifts=self.tried,
            changes=self.largest,
            map=_on_grid(self.grid, self.tried, self.largest),
        )


class _Answers:
    """Collects what `Consistency` reports, block by block of `_outputs`."""

    def __init__(self, grid: list[list[float]], tried: list[Shift], count: int) -> None:
        self.grid, self.tried = grid, tried
        self.shifted = torch.zeros(len(tried), count, dtype=torch.int64)
        self.unshifted = torch.zeros(count, dtype=torch.int64)

    def add(self, images: slice, which: list[int], reference: Tensor, moved: Tensor) -> None:
        if moved.dim() != 2:
            raise ValueError(f"`f` must return scores (B, classes), not a tensor of shape {tuple(moved.shape)}.")
        self.shifted[which, images] = moved.argmax(1).view(len(which), -1).cpu()
        self.unshifted[images] = reference.argmax(1).view(len(which), -1)[0].cpu()

    def result(self) -> Consistency:
        counts = torch.nn.functional.one_hot(self.shifted).sum(0).double()  # (B, classes)
        per_image = (counts / len(self.tried)).square().sum(1)
        kept = (self.shifted == self.unshifted).double()  # (S, B)
        return Consistency(
            pairs=float(per_image.mean()),
            reference=float(kept.mean()),
            per_image=per_image,
            map=_on_grid(self.grid, self.tried, kept.mean(1)),
        )


def assert_shift_invariant(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    shifts: Shifts = "all",
    kind: str = "circular",
    *,
    tolerance: float = 0.0,
    border: str = "zeros",
    batch_size: int = 256,
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
    batch_size: int = 256,
    seed: int = 0,
) -> None:
    """Raise `AssertionError` unless a circular shift of `x` shifts the maps f(x) along.

    Where f makes maps smaller by a stride s, a shift by d must shift them by floor(d/s) or ceil(d/s) on each axis,
    the same for all channels of an image: no finer grid exists.
    """
    _, tried = _plan(x, shifts, "circular", seed)
    worst, where, beyond = 0.0, tried[0], 0
    for _, which, reference, moved in _outputs(f, x, tried, "circular", "zeros", batch_size):
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
        exact = d * n / m
        choices.append(sorted({int(exact // 1), int(-(-exact // 1))}))
    axes = tuple(range(2, before.dim()))
    errors = [
        _change(torch.roll(before, candidate, axes), after).flatten(1).amax(1)  # (B,)
        for candidate in itertools.product(*choices)
    ]
    return float(torch.stack(errors).amin(0).max())


def _plan(x: Tensor, shifts: Shifts, kind: str, seed: int) -> tuple[list[list[float]], list[Shift]]:
    """The values of the grid of all shifts on each axis, and the shifts to try."""
    checks.floating("x", x)
    checks.choice("kind", kind, KINDS)
    if x.dim() < 3 or 0 in x.shape:
        raise ValueError(f"`x` (shape {tuple(x.shape)}) must be a batch of images (B, C, H, W) with no empty axis.")
    grid: list[list[float]] = []
    for size in x.shape[2:]:
        reach = max(1, size // 8)
        grid.append(
            list(range(size))
            if kind == "circular"
            else list(range(-reach, reach + 1))
            if kind == "cropped"
            else [k / 8 for k in range(8)]
        )
    if isinstance(shifts, str):
        checks.choice("shifts", shifts, ["all"])
        return grid, list(itertools.product(*grid))
    if isinstance(shifts, int):
        count = checks.integer("shifts", shifts)
        every = list(itertools.product(*grid))
        order = torch.randperm(len(every), generator=torch.Generator().manual_seed(seed))
        return grid, [every[i] for i in order[:count].tolist()]
    tried: list[Shift] = [tuple(float(v) for v in s) for s in shifts]
    if not tried or any(len(s) != len(grid) for s in tried):
        raise ValueError(f"`shifts` (={checks.shown(shifts)}) must list shifts with one entry per axis ({len(grid)}).")
    if kind == "fractional":
        return grid, tried
    if any(v != int(v) for s in tried for v in s):
        raise ValueError(f"`shifts` (={checks.shown(shifts)}) must be whole pixels unless `kind` is 'fractional'.")
    tried = [tuple(int(v) for v in s) for s in tried]
    if kind == "circular":
        tried = [tuple(v % m for v, m in zip(s, x.shape[2:])) for s in tried]
    return grid, tried


def _outputs(
    f: Callable[[Tensor], Tensor], x: Tensor, tried: list[Shift], kind: str, border: str, batch_size: int
) -> Iterator[tuple[slice, list[int], Tensor, Tensor]]:
    """Blocks of images and shifts: (which images, which shifts, f of the images, f of the shifted images).

    Every call of f has the same shape; the last one is filled up with copies that are thrown away.
    """
    batch_size = checks.integer("batch_size", batch_size)
    form = torch.channels_last if channels_last(x) else torch.contiguous_format
    with torch.no_grad():
        for start in range(0, x.shape[0], batch_size):
            images = x[start : start + batch_size]
            count = images.shape[0]
            per_call = min(len(tried), max(1, batch_size // count))
            same = images.repeat(per_call, *[1] * (x.dim() - 1)).contiguous(memory_format=form)
            reference = _call(f, same)
            for first in range(0, len(tried), per_call):
                which = list(range(first, min(first + per_call, len(tried))))
                filled = which + which[-1:] * (per_call - len(which))
                moved = torch.cat([_shifted(images, tried[s], kind, border) for s in filled])
                out = _call(f, moved.contiguous(memory_format=form))
                used = len(which) * count
                yield slice(start, start + count), which, reference[:used], out[:used]


def _call(f: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
    out = f(batch)
    if not isinstance(out, Tensor) or out.dim() == 0 or out.shape[0] != batch.shape[0] or out.numel() == 0:
        got = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
        raise ValueError(f"`f` must return a tensor with one entry per image ({batch.shape[0]}), not {got}.")
    return out.detach()


def _shifted(images: Tensor, shift: Shift, kind: str, border: str) -> Tensor:
    dims = range(2, images.dim())
    if kind == "fractional":
        return fractional_shift(images, shift, dims)
    whole = [int(v) for v in shift]
    return circular_shift(images, whole, dims) if kind == "circular" else cropped_shift(images, whole, dims, border)


def _change(a: Tensor, b: Tensor) -> Tensor:
    """|a - b| in float64; equal entries and NaN on both sides give 0, NaN on one side gives infinity."""
    a, b = a.double(), b.double()
    change = (a - b).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
    return change.masked_fill((a == b) | (a.isnan() & b.isnan()), 0.0).cpu()


def _on_grid(grid: list[list[float]], tried: list[Shift], values: Tensor) -> Tensor:
    """The values laid out on the grid of all shifts, NaN where none was tried; shifts off the grid are left out."""
    out = torch.full([len(axis) for axis in grid], torch.nan, dtype=torch.float64)
    places = [{v: i for i, v in enumerate(axis)} for axis in grid]
    for shift, value in zip(tried, values.tolist()):
        where = tuple(place.get(v, -1) for place, v in zip(places, shift))
        if -1 not in where:
            out[where] = value
    return out
