"""Who is looking on: whether Python may look at data and keep what it makes, and whether derivatives are asked for."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad


def is_eager(x: Tensor) -> bool:
    """Whether `x` is an ordinary tensor with data that Python may look at.

    It is not while a compiler, an exporter, a tracer or a torch.func transform looks on, nor on the meta device.
    """
    return (
        type(x) in (Tensor, torch.nn.Parameter)
        and not x.is_meta
        and not torch.compiler.is_compiling()
        and not torch._C._is_tracing()
        and not torch._C._are_functorch_transforms_active()
    )


def has_derivative(x: Tensor) -> bool:
    """Whether autograd wants to know what becomes of `x`, backwards or in forward mode."""
    return (x.requires_grad and torch.is_grad_enabled()) or forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]
