"""The compiled kernels in `native.c`, where they could be built: float32 on the CPU. Everything works without them.

`SHIFTPROOF_NATIVE=0` in the environment leaves them out.
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

from shiftproof.tensors import whole_pixels

_LANES, _ROWS = 16, 4  # as in native.c
_Sizes, _Bands = ctypes.c_int64 * 12, ctypes.c_void_p * 4
_THREADED = 1_000_000  # operations below which a second thread does not pay
# what the kernels read and write, whatever torch's defaults are
_FLOATS: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}
_INTEGERS: dict[str, Any] = {"dtype": torch.int64, "device": "cpu"}
_NEGLIGIBLE = 2.0**-22  # of the largest entry of a row: what is less does not show in a sum in float32


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
            library.shiftproof_sample.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int] * 5
            return library
    return None


library = _load()


def fits(x: Tensor) -> bool:
    """Whether the kernels take these maps: eager code has to make sure that they hold real data."""
    return (
        library is not None
        and x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.dim() == 4
        and x.numel() > 0
        and not x.is_neg()  # whose memory holds the opposite
    )


def find(x: Tensor, phases: Sequence[int] | None = None) -> Tensor | None:
    """The positions (B, 2) of the maxima over all channels, where every sample has just one and no NaN.

    With `phases`, so many on each axis, of the maxima in the best phase: `pivots.score_phase`.
    """
    pivots = _no_pivots(x)
    return pivots if _run(_laid_out(x), pivots, phases=phases, find=True) else None


def sample(
    x: Tensor, selection: Tensor, origin: Sequence[int], matrices: Sequence[Tensor], backwards: bool = False
) -> Tensor | None:
    """`resample._forward`, or its transpose; None where it cannot be done here.

    Pivots of -1 give some result or other, which the caller replaces.
    """
    x = _laid_out(x)
    if whole_pixels(x) and selection.dim() == 3:
        return None
    out = _empty(x, matrices, backwards)
    return out if _run(x, selection.contiguous(), out, origin, matrices, backwards=backwards) else None


def find_and_sample(
    x: Tensor, origin: Sequence[int], matrices: Sequence[Tensor], phases: Sequence[int] | None = None
) -> tuple[Tensor, Tensor] | None:
    """`sample` at the pivots of `find`, and these; each map is read from memory once."""
    x = _laid_out(x)
    out, pivots = _empty(x, matrices), _no_pivots(x)
    return (out, pivots) if _run(x, pivots, out, origin, matrices, phases, find=True) else None


def _laid_out(x: Tensor) -> Tensor:
    """Pixel by pixel, or plane by plane."""
    return x if whole_pixels(x) else x.contiguous()


def _empty(x: Tensor, matrices: Sequence[Tensor], backwards: bool = False) -> Tensor:
    """Room for the result, laid out like `x`."""
    form = torch.channels_last if whole_pixels(x) else torch.contiguous_format
    shape = *x.shape[:2], *(m.shape[backwards] for m in matrices)
    return torch.empty(shape, memory_format=form, **_FLOATS)


def _no_pivots(x: Tensor) -> Tensor:
    """Room for a pivot for each sample."""
    return torch.empty((x.shape[0], 2), **_INTEGERS)


def _run(
    x: Tensor,
    pivots: Tensor,
    out: Tensor | None = None,
    origin: Sequence[int] = (0, 0),
    matrices: Sequence[Tensor] = (),
    phases: Sequence[int] | None = None,
    *,
    find: bool = False,
    backwards: bool = False,
) -> bool:
    """Find the pivots, sample there, or both; whether that could be done."""
    together = whole_pixels(x)
    # held until the call is over: another thread may make them too, and replace these
    bands = [_band(m, backwards, rows) for m, rows in zip(matrices, (_ROWS, _ROWS if together else _LANES))]
    counts = out.shape[2:] if out is not None else (1, 1)
    taps = [weights.shape[1] for weights, _ in bands] or [0, 0]
    failed: int = library.shiftproof_sample(
        x.data_ptr(),
        out.data_ptr() if out is not None else None,
        _Sizes(*x.shape, *counts, *origin, *taps, *(phases or (0, 0))),
        _Bands(*(t.data_ptr() for band in bands for t in band)),
        pivots.data_ptr(),
        find,
        together,
        pivots.dim() == 3,
        backwards,
        torch.get_num_threads() if x.numel() * max(1, *taps) > _THREADED else 1,
    )
    return not failed


def _band(matrix: Tensor, backwards: bool, rows: int) -> tuple[Tensor, Tensor]:
    """The matrix (m, k) as the kernel reads it, made once and kept with it.

    `rows` by `rows`: the columns where one of them is not zero, around the edge if need be, and the one it begins with:
    (m / rows, taps, rows) and (m / rows).
    """
    made: dict[tuple[bool, int], tuple[Tensor, Tensor]] = vars(matrix).setdefault("bands", {})
    if (backwards, rows) not in made:
        least = _NEGLIGIBLE * matrix.abs().amax(1, keepdim=True)
        kept = torch.where(matrix.abs() < least, 0.0, matrix)
        kept = kept.mT if backwards else kept
        groups = pad(kept, (0, 0, 0, -len(kept) % rows)).reshape(-1, rows, kept.shape[1])
        windows = [_window(group.any(0).tolist()) for group in groups]
        taps = max(length for _, length in windows)
        starts = torch.tensor([start for start, _ in windows], **_INTEGERS)
        columns = (starts[:, None] + torch.arange(taps, **_INTEGERS)) % kept.shape[1]  # (groups, taps)
        weights = groups.gather(2, columns[:, None].expand(-1, rows, -1)).mT.contiguous()
        made[backwards, rows] = weights, starts
    return made[backwards, rows]


def _window(used: Sequence[bool]) -> tuple[int, int]:
    """The shortest stretch that holds all that is used, around the edge if need be: where it begins, and its length.

    >>> _window([True, False, False, True, False])
    (3, 3)
    """
    size = len(used)
    places = [i for i, here in enumerate(used) if here] or [0]
    gaps = [((b - a - 1) % size, b) for a, b in zip(places, places[1:] + places[:1])]
    gap, start = max(gaps) if len(places) > 1 else (size - 1, places[0])
    return start, size - gap
