"""Inputs to convert and check a network with."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from shiftproof import checks
from shiftproof.conversion.error import ConversionError

_SIZES = (64, 224, 32, 28, 128)  # tried in turn if the caller gives no example


def input_layout(model: nn.Module) -> tuple[int, int]:
    """The number of channels and of spatial axes of a network's input, from its first convolution."""
    first = next((m for m in model.modules() if isinstance(m, _ConvNd)), None)
    return (3, 2) if first is None else (first.in_channels, len(first.kernel_size))


def random_inputs(model: nn.Module, sizes: Sequence[int]) -> Tensor:
    """A batch of two, the same in every call, in the dtype and on the device of the parameters. (2, C, *sizes)"""
    x = torch.rand(2, input_layout(model)[0], *sizes, generator=torch.Generator().manual_seed(0))
    return x.to(next(model.parameters(), x))


def find_inputs(model: nn.Module, example: Tensor | None) -> Tensor:
    """Inputs that the network accepts in evaluation: `example` if there is one."""
    if example is not None:
        checks.floating("example", example)
        if example.dim() < 3:
            raise ValueError(f"`example` (shape {tuple(example.shape)}) must be a batch of inputs (B, C, H, W).")
        candidates = [example]
    else:
        candidates = [random_inputs(model, [size] * input_layout(model)[1]) for size in _SIZES]
    errors = []
    network = copy.deepcopy(model).eval()
    for x in candidates:
        try:
            with torch.no_grad():
                network(x.clone())
            return x
        except Exception as error:  # whatever the network raises
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            errors.append(f"{tuple(x.shape)}: {reason}")
            cause = error
    raise ConversionError(
        f"the network fails on inputs of shape {'; '.join(errors)}.", "Choose inputs that fit with `example`."
    ) from cause
