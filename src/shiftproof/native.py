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

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.weak import WeakIdKeyDictionary

from shiftproof.shifts import pixels_together

_LANES, _ROWS = 16, 8  # as in native.c
_operands: Any = WeakIdKeyDictionary()
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
            pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
            library.shiftproof_resample.argtypes = [pointer] * 6 + [number] * 4
            library.shiftproof_maxima.argtypes = [pointer, size, size, size, number, pointer, pointer, number]
            library.shiftproof_maxima.restype = None
            return library
    return None


library = _load()


def fits(x: Tensor) -> bool:
    """Whether the kernels take these maps: eager code has to make sure that they hold real data."""
    return (
        library is not None and x.dtype == torch.float32 and x.device.type == "cpu" and x.dim() == 4 and x.numel() > 0
    )


def maxima(x: Tensor) -> Tensor | None:
    """The positions (B, 2) of the maxima over all channels, where every sample has just one and no NaN."""
    whole = pixels_together(x)
    x = x if whole else x.contiguous()
    count, channels, height, width = x.shape
    index, state = np.empty(count, np.int64), np.empty(count, np.int32)
    library.shiftproof_maxima(
        x.data_ptr(),
        count,
        channels,
        height * width,
        whole,
        index.ctypes.data,
        state.ctypes.data,
        torch.get_num_threads() if x.numel() > _THREADED else 1,
    )
    if state.any():
        return None
    return torch.from_numpy(np.stack(np.divmod(index, width), 1))


def resample(
    x: Tensor, selection: Tensor, origin: Sequence[int], matrices: Sequence[Tensor], backwards: bool
) -> Tensor | None:
    """`resample._forward`, or its transpose; None where it cannot be done here.

    Pivots of -1 give some result or other, which the caller replaces.
    """
    whole = pixels_together(x)
    per_channel = selection.dim() == 3
    if whole and per_channel:
        return None
    first, second = (_operand(m, backwards, packed) for m, packed in zip(matrices, (True, whole)))
    rows, columns = (m.shape[1 if backwards else 0] for m in matrices)
    x = x if whole else x.contiguous()
    form = torch.channels_last if whole else torch.contiguous_format
    out = torch.empty((*x.shape[:2], rows, columns), dtype=x.dtype, memory_format=form)
    start = np.ascontiguousarray(selection.numpy() - np.array(origin))
    sizes = np.array([*x.shape, rows, columns], np.int64)
    failed = library.shiftproof_resample(
        x.data_ptr(),
        out.data_ptr(),
        sizes.ctypes.data,
        first.data_ptr(),
        second.data_ptr(),
        start.ctypes.data,
        whole,
        per_channel,
        backwards,
        torch.get_num_threads() if x.numel() * rows > _THREADED else 1,
    )
    return None if failed else out


def _operand(matrix: Tensor, backwards: bool, packed: bool) -> Tensor:
    """The matrix as the kernel reads it, made once.

    (N, M) packed: rows eight by eight, (N/8, M, 8); otherwise transposed, (M, N), rows filled up to the vector length.
    """
    made = _operands.setdefault(matrix, {})
    if (backwards, packed) not in made:
        m = matrix.mT if backwards else matrix
        if packed:
            m = pad(m, (0, 0, 0, -m.shape[0] % _ROWS)).reshape(-1, _ROWS, m.shape[1]).mT
        else:
            m = pad(m.mT, (0, -m.shape[0] % _LANES))
        made[backwards, packed] = m.contiguous()
    out: Tensor = made[backwards, packed]
    return out
