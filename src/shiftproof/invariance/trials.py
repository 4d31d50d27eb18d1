"""Which shifts are tried, and what a function gives for each of them.

Letters: B images, S shifts, H x W image size.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.maps.shifts import cropped_shift, fractional_shift

KINDS = ("circular", "cropped", "fractional")
Shift = tuple[float, ...]
Shifts = str | int | Sequence[Sequence[float]]


def plan_shifts(x: Tensor, shifts: Shifts, kind: str, seed: int) -> tuple[list[list[float]], list[Shift]]:
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


def on_grid(grid: list[list[float]], tried: list[Shift], values: Tensor) -> Tensor:
    """The values laid out on the grid of all shifts, NaN where none was tried; shifts off the grid are left out."""
    out = torch.full([len(axis) for axis in grid], torch.nan, dtype=torch.float64)
    places = [{v: i for i, v in enumerate(axis)} for axis in grid]
    for shift, value in zip(tried, values.tolist()):
        where = tuple(place.get(v, -1) for place, v in zip(places, shift))
        if -1 not in where:
            out[where] = value
    return out


def outputs(
    f: Callable[[Tensor], Tensor], x: Tensor, tried: list[Shift], kind: str, border: str, batch_size: int | None
) -> Iterator[tuple[slice, list[int], Tensor, Tensor]]:
    """Blocks of images and shifts: (which images, which shifts, f of the images, f of the shifted images).

    Every call of f has the same shape. Without a `batch_size` that is the shape of `x`; otherwise several shifts share
    a call, and the last one is filled up with copies that are thrown away.
    """
    size = x.shape[0] if batch_size is None else checks.integer("batch_size", batch_size)
    with torch.no_grad():
        for start in range(0, x.shape[0], size):
            images = x[start : start + size] if size < x.shape[0] else x
            count = images.shape[0]
            per_call = 1 if batch_size is None else min(len(tried), max(1, size // count))
            reference = _call(f, _together([copy_of(images)] * per_call))
            for first in range(0, len(tried), per_call):
                which = list(range(first, min(first + per_call, len(tried))))
                filled = which + which[-1:] * (per_call - len(which))
                out = _call(f, _together([_shifted(images, tried[s], kind, border) for s in filled]))
                used = len(which) * count
                yield slice(start, start + count), which, reference[:used], out[:used]


def copy_of(x: Tensor, shift: Sequence[int] = (), dims: Sequence[int] = ()) -> Tensor:
    """A copy of `x`, rolled by `shift` along `dims`, of the same class and with the same strides.

    So a function takes the same way with it as with `x`, and rounds alike.
    """
    return _like(x, x.roll(tuple(shift), tuple(dims)) if shift else x)


def _like(x: Tensor, values: Tensor) -> Tensor:
    overlaps = any(stride == 0 and size > 1 for size, stride in zip(x.shape, x.stride()))
    out = torch.empty_like(x) if overlaps else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    out.copy_(values)
    return out if type(out) is type(x) else out.as_subclass(type(x))


def _together(copies: list[Tensor]) -> Tensor:
    """One batch, in the memory layout of its parts."""
    return copies[0] if len(copies) == 1 else torch.cat(copies)


def _call(f: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
    out = f(batch)
    if not isinstance(out, Tensor) or out.dim() == 0 or out.shape[0] != batch.shape[0] or out.numel() == 0:
        got = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
        raise ValueError(f"`f` must return a tensor with one entry per image ({batch.shape[0]}), not {got}.")
    return out.detach()


def _shifted(images: Tensor, shift: Shift, kind: str, border: str) -> Tensor:
    dims = range(2, images.dim())
    if kind == "fractional":
        return _like(images, fractional_shift(images, shift, dims))
    whole = [int(v) for v in shift]
    if kind == "circular":
        return copy_of(images, whole, dims)
    return _like(images, cropped_shift(images, whole, dims, border))
