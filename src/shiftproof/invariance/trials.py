"""Which shifts are tried, and what a function gives for each of them.

Letters: B images, S shifts, H x W image size.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.maps.shifts import circular_shift, cropped_shift, fractional_shift
from shiftproof.tensors import channels_last

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
