"""Who is looking on: whether Python may look at data, and keep what it makes."""

from __future__ import annotations

import torch
from torch import Tensor


def is_eager(x: Tensor) -> bool:
    """Whether `x` is an ordinary tensor with data that Python may look at.

    It is not while a compiler, an exporter or a torch.func transform looks on, nor on the meta device.
    """
    return (
        type(x) in (Tensor, torch.nn.Parameter)
        and not x.is_meta
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
    )
