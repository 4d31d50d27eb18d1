"""Half precision: what is computed in float32 all the same."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which sums over maps of `dtype` are taken: at least float32."""
    return torch.promote_types(dtype, torch.float32)


def autocast_off(x: Tensor) -> contextlib.AbstractContextManager[object]:
    """A context in which autocast leaves the dtypes of products alone."""
    kind = x.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return contextlib.nullcontext()
