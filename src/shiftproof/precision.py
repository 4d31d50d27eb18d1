"""Half precision: what is computed in float32 all the same."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor

# asked once: no torch before the newest can trace the question
_CASTING = frozenset(
    kind
    for kind in ("cpu", "cuda", "hpu", "maia", "mps", "mtia", "privateuseone", "xla", "xpu")
    if torch.amp.is_autocast_available(kind)
)


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which sums over maps of `dtype` are taken: at least float32."""
    return torch.promote_types(dtype, torch.float32)


def autocast_off(x: Tensor) -> contextlib.AbstractContextManager[object]:
    """A context in which autocast leaves the dtypes of products alone."""
    kind = x.device.type
    if kind in _CASTING and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return contextlib.nullcontext()
