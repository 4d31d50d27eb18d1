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

from shiftproof.shifts import pixels_together

_LANES, _ROWS = 16, 4  # as in native.c
_Sizes = ctypes.c_int64 * 8
_THREADED = 1_000_000  # operations below which a second thread does not pay


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
            library.shiftproof_sample.argtypes = [ctypes.c_void_p] * 6 + [ctypes.c_int] * 5
            return library
    return None


library = _load()


def fits(x: Tensor) -> bool:
    """Whether the kernels take these maps: eager code has to make sure that they hold real data."""
    return (
        library is not None and x.dtype == torch.float32 and x.device.type == "cpu" and x.dim() == 4 and x.numel() > 0
    )


def find(x: Tensor) -> Tensor | None:
    """The positions (B, 2) of the maxima over all channels, where every sample has just one and no NaN."""
    pivots = torch.empty((x.shape[0], 2), dtype=torch.int64)
    return pivots if _run(_laid_out(x), pivots, find=True) else None


def sample(
    x: Tensor, selection: Tensor, origin: Sequence[int], matrices: Sequence[Tensor], backwards: bool = False
) -> Tensor | None:
    """`resample._forward`, or its transpose; None where it cannot be done here.

    Pivots of -1 give some result or other, which the caller replaces.
    """
    x = _laid_out(x)
    if pixels_together(x) and selection.dim() == 3:
        return None
    out = _empty(x, matrices, backwards)
    return out if _run(x, selection.contiguous(), out, origin, matrices, backwards=backwards) else None


def find_and_sample(x: Tensor, origin: Sequence[int], matrices: Sequence[Tensor]) -> tuple[Tensor, Tensor] | None:
    """`sample` at the pivots of `find`, and these; each map is read from memory once."""
    x = _laid_out(x)
    out, pivots = _empty(x, matrices), torch.empty((x.shape[0], 2), dtype=torch.int64)
    return (out, pivots) if _run(x, pivots, out, origin, matrices, find=True) else None


def _laid_out(x: Tensor) -> Tensor:
    """Pixel by pixel, or plane by plane."""
    return x if pixels_together(x) else x.contiguous()


def _empty(x: Tensor, matrices: Sequence[Tensor], backwards: bool = False) -> Tensor:
    """Room for the result, laid out like `x`."""
    form = torch.channels_last if pixels_together(x) else torch.contiguous_format
    return torch.empty((*x.shape[:2], *(m.shape[backwards] for m in matrices)), memory_format=form)


def _run(
    x: Tensor,
    pivots: Tensor,
    out: Tensor | None = None,
    origin: Sequence[int] = (0, 0),
    matrices: Sequence[Tensor] = (),
    *,
    find: bool = False,
    backwards: bool = False,
) -> bool:
    """Find the pivots, sample there, or both; whether that could be done."""
    together = pixels_together(x)
    # held until the call is over: another thread may make them too, and replace these
    operands = [_operand(m, backwards, folded) for m, folded in zip(matrices, (True, together))]
    rows, columns = out.shape[2:] if out is not None else (1, 1)
    failed: int = library.shiftproof_sample(
        x.data_ptr(),
        out.data_ptr() if out is not None else None,
        _Sizes(*x.shape, rows, columns, *origin),
        *([m.data_ptr() for m in operands] or (None, None)),
        pivots.data_ptr(),
        find,
        together,
        pivots.dim() == 3,
        backwards,
        torch.get_num_threads() if x.numel() * rows > _THREADED else 1,
    )
    return not failed


def _operand(matrix: Tensor, backwards: bool, folded: bool) -> Tensor:
    """The matrix as the kernel reads it, made once and kept with it.

    (N, M) folded: the sums and the differences of each upper row and the same read backwards, four rows by four,
    (N/2/4, M/2, 8). Otherwise transposed, (M, N), rows filled up to the vector length, and backwards twice side by
    side, so that they can be read from any column on.
    """
    made = vars(matrix).setdefault("operands", {})
    if (backwards, folded) not in made:
        m = matrix.mT if backwards else matrix
        if folded:
            upper = ((m + m.flip(0, 1)) / 2)[: (m.shape[0] + 1) // 2]
            parts = [upper + upper.flip(1), upper - upper.flip(1)]
            parts = [pad(t, (0, 0, 0, -len(t) % _ROWS))[:, : (m.shape[1] + 1) // 2] for t in parts]
            m = torch.cat([t.reshape(-1, _ROWS, t.shape[1]) for t in parts], 1).mT
        else:
            m = pad(m.mT.repeat(1, 2), (0, _LANES - 1)) if backwards else m.mT
            m = pad(m, (0, -m.shape[1] % _LANES))
        made[backwards, folded] = m.contiguous()
    out: Tensor = made[backwards, folded]
    return out
