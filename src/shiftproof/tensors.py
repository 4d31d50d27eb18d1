"""How a tensor is handled: read by Python or traced, differentiated, accumulated, laid out in memory."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

# asked once: only the newest torch can trace the question
_AUTOCAST_DEVICES = frozenset(
    kind
    for kind in ("cpu", "cuda", "hpu", "maia", "mps", "mtia", "privateuseone", "xla", "xpu")
    if torch.amp.is_autocast_available(kind)
)

_NO_DISPATCH = Tensor.__torch_dispatch__  # of tensors whose operations are those of torch


def leaves(value: Any) -> list[Any]:
    """What an answer holds: the entries of tuples, lists, dictionaries and dataclasses, inside each other too."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return leaves([getattr(value, f.name) for f in dataclasses.fields(value)])
    if isinstance(value, Mapping):
        return leaves(list(value.values()))
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


def is_eager(x: Tensor) -> bool:
    """Whether `x` is an ordinary tensor whose values Python may read.

    It is not under a compiler, an exporter, a tracer or a torch.func transform, nor on the meta device.
    """
    return (
        type(x) in (Tensor, torch.nn.Parameter)
        and not x.is_meta
        and not torch.compiler.is_compiling()
        and not torch._C._is_tracing()
        and not torch._C._are_functorch_transforms_active()
    )


def plain(x: Tensor) -> Tensor:
    """`x` without a subclass that only names it (such as an image of torchvision), and with its negation carried out.

    So a tensor and its shifted copy, which `torch.roll` makes an ordinary one, are handled alike.
    """
    if type(x) is not Tensor and isinstance(x, Tensor) and type(x).__torch_dispatch__ is _NO_DISPATCH:
        x = x.as_subclass(Tensor)
    return x.resolve_neg() if isinstance(x, Tensor) and is_eager(x) else x


def has_derivative(x: Tensor) -> bool:
    """Whether autograd follows `x`, in backward or in forward mode."""
    return (x.requires_grad and torch.is_grad_enabled()) or forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which values of `dtype` are added up: at least float32."""
    return torch.promote_types(dtype, torch.float32)


def autocast_off(x: Tensor) -> contextlib.AbstractContextManager[object]:
    """A context in which autocast leaves the dtypes of products alone."""
    kind = x.device.type
    if kind in _AUTOCAST_DEVICES and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return contextlib.nullcontext()


def channels_last(x: Tensor) -> bool:
    """Whether images (B, C, H, W) are in channels-last memory, which torch keeps through most operations.

    Layouts of other dimensions are not kept (`torch.roll` drops them), so a shifted copy would come in another one.
    """
    return x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)


def whole_pixels(x: Tensor) -> bool:
    """Whether whole pixels of `x` are worth moving at a time: channels-last memory and more than four channels."""
    return x.shape[1] > 4 and channels_last(x)
