"""GHS in compiled C (`native.c`), where it could be built: float32 images on the CPU. Everything works without it.

`SHIFTPROOF_NATIVE=0` in the environment leaves it out.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from shiftproof.ghs.matrix import Axis, Plan
from shiftproof.tensors import whole_pixels

RULES = ("max", "phase", "patch")  # the pivot rules that C knows, as it numbers them from 1 on

_LANES, _ROWS = 16, 4  # as in native.c
_UNDECIDED, _NO_MEMORY = 1, 2  # what it returns, as in native.c
_Sizes, _Bands = ctypes.c_int64 * 15, ctypes.c_void_p * 4
_THREADED = 1_000_000  # operations below which a second thread does not pay
# what C reads and writes, whatever torch's defaults are
_FLOATS: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}
_INTEGERS: dict[str, Any] = {"dtype": torch.int64, "device": "cpu"}
_FLAGS: dict[str, Any] = {"dtype": torch.uint8, "device": "cpu"}
_NEGLIGIBLE = 2.0**-22  # of the largest entry of a row: less does not show in a sum in float32


def _load() -> Any:
    if os.environ.get("SHIFTPROOF_NATIVE") == "0":
        return None
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = Path(__file__).with_name(f"_native{suffix}")
        if path.exists():
            try:
                library = ctypes.CDLL(str(path))
            except OSError:  # built for another machine
                return None
            library.shiftproof_sample.argtypes = [ctypes.c_void_p] * 6 + [ctypes.c_int] * 4
            return library
    return None


library = _load()


def fits(x: Tensor) -> bool:
    """Whether C takes these maps; the caller makes sure that they are eager."""
    return (
        library is not None
        and x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.dim() == 4
        and x.numel() > 0
        and not x.is_neg()  # whose memory holds the opposite
        and not x._is_zerotensor()  # which has no memory
    )


def find(x: Tensor, rule: str = "max", phases: Sequence[int] | None = None) -> tuple[Tensor, Tensor | None] | None:
    """The position (B, 2) of the largest score of each sample, and flags (B,) of the undecided samples.

    `phases`: those of the grid, for the rule `"phase"`; without them it is `"max"`. Undecided are samples with NaN or
    with several such positions; the flags are None where there are none. None where memory is short.
    """
    pivots, undecided = _room_for_pivots(x)
    code = _call(_laid_out(x), pivots, undecided, phases=phases, rule=rule)
    return None if code == _NO_MEMORY else (pivots, undecided if code else None)


def sample(x: Tensor, pivots: Tensor, plan: Plan, transpose: bool = False) -> Tensor | None:
    """`torch_backend.sample`, or its transpose; samples whose pivot is -1 are left to the caller.

    None where memory is short.
    """
    x = _laid_out(x)
    out = _room_for_samples(x, plan, transpose)
    failed = _call(x, pivots.contiguous(), None, out, plan, transpose=transpose)
    return None if failed else out


def find_and_sample(x: Tensor, plan: Plan, rule: str = "max") -> tuple[Tensor, Tensor, Tensor | None] | None:
    """`sample` at the pivots of `find`, these, and its flags; each map is read from memory once.

    Samples that are undecided are not sampled.
    """
    x = _laid_out(x)
    out, (pivots, undecided) = _room_for_samples(x, plan), _room_for_pivots(x)
    code = _call(x, pivots, undecided, out, plan, plan.phases, rule=rule)
    return None if code == _NO_MEMORY else (out, pivots, undecided if code else None)


def _laid_out(x: Tensor) -> Tensor:
    """`x` in channels-last or in contiguous memory."""
    return x if whole_pixels(x) else x.contiguous()


def _room_for_samples(x: Tensor, plan: Plan, transpose: bool = False) -> Tensor:
    """Memory for the result, laid out like `x`."""
    form = torch.channels_last if whole_pixels(x) else torch.contiguous_format
    shape = *x.shape[:2], *(axis.dense.shape[transpose] for axis in plan.axes)
    return torch.empty(shape, memory_format=form, **_FLOATS)


def _room_for_pivots(x: Tensor) -> tuple[Tensor, Tensor]:
    """Memory for the pivot of each sample, and for its flag."""
    return torch.empty((x.shape[0], 2), **_INTEGERS), torch.empty(x.shape[0], **_FLAGS)


def _call(
    x: Tensor,
    pivots: Tensor,
    undecided: Tensor | None,
    out: Tensor | None = None,
    plan: Plan | None = None,
    phases: Sequence[int] | None = None,
    *,
    rule: str | None = None,
    transpose: bool = False,
) -> int:
    """Find the pivots by a rule, sample there, or both; returns what C returns."""
    if rule == "phase" and phases is None:
        rule = "max"
    together = whole_pixels(x)
    axes = () if plan is None else plan.axes
    # held until the call is over: another thread may make them too, and replace these
    bands = [_band(axis, transpose, rows) for axis, rows in zip(axes, (_ROWS, _ROWS if together else _LANES))]
    taps = [weights.shape[1] for weights, _ in bands] or [0, 0]
    counts, origin = (1, 1) if out is None else out.shape[2:], (0, 0) if plan is None else plan.origin
    first = None if plan is None else plan.first
    code: int = library.shiftproof_sample(
        x.data_ptr(),
        out.data_ptr() if out is not None else None,
        _Sizes(*x.shape, *counts, *origin, *taps, *(phases or (0, 0)), *(first or (0, 0)), first is not None),
        _Bands(*(t.data_ptr() for band in bands for t in band)),
        pivots.data_ptr(),
        undecided.data_ptr() if undecided is not None else None,
        0 if rule is None else 1 + RULES.index(rule),
        together,
        transpose,
        torch.get_num_threads() if x.numel() * max(1, *taps) > _THREADED else 1,
    )
    return code


def _band(axis: Axis, transpose: bool, rows: int) -> tuple[Tensor, Tensor]:
    """The matrix (m, k) of an axis as C reads it, made once and kept with it.

    Of each group of `rows` rows the columns where one of them is not zero, around the edge if need be, and the first
    such column: (m / rows, taps, rows) and (m / rows).
    """
    key = "band", transpose, rows
    if key not in axis.derived:
        matrix = axis.dense
        least = _NEGLIGIBLE * matrix.abs().amax(1, keepdim=True)
        kept = torch.where(matrix.abs() < least, 0.0, matrix)
        kept = kept.mT if transpose else kept
        groups = pad(kept, (0, 0, 0, -len(kept) % rows)).reshape(-1, rows, kept.shape[1])
        windows = [_window(group.any(0).tolist()) for group in groups]
        taps = max(length for _, length in windows)
        starts = torch.tensor([start for start, _ in windows], **_INTEGERS)
        columns = (starts[:, None] + torch.arange(taps, **_INTEGERS)) % kept.shape[1]  # (groups, taps)
        weights = groups.gather(2, columns[:, None].expand(-1, rows, -1)).mT.contiguous()
        axis.derived[key] = weights, starts
    return axis.derived[key]


def _window(used: Sequence[bool]) -> tuple[int, int]:
    """The shortest stretch that holds all that is used, around the edge if need be: its first place, its length.

    >>> _window([True, False, False, True, False])
    (3, 3)
    """
    size = len(used)
    places = [i for i, here in enumerate(used) if here] or [0]
    gaps = [((b - a - 1) % size, b) for a, b in zip(places, places[1:] + places[:1])]
    gap, start = max(gaps)
    return start, size - gap
