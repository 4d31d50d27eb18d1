"""The computation for the tab Layer: move a picture and downsample it with several methods."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shiftproof.app.ghs_options import Settings
from shiftproof.invariance import shift_error
from shiftproof.layers import Downsample, create_downsample
from shiftproof.maps.shifts import circular_shift, cropped_shift, fractional_shift

# kinds of shift: the label on the page, and the name in Python
KINDS = {"circular": "circular", "cropped": "cropped", "sub-pixel": "fractional"}
METHODS = ("max", "lpf", "aps", "ghs")  # selected at first
REACH = 2.0  # the largest sub-pixel shift, in pixels
_one_at_a_time = threading.Lock()  # torch's random numbers are global to the process


@dataclass(frozen=True)
class MethodResult:
    """The output of one method for the moved picture, and its difference from the output for the unmoved one.

    `total`, `mean` and `largest` are over the absolute differences (AD) of all values; `exact` means equal bits.
    If the method failed, `problem` says why, and the other fields are empty.
    """

    method: str
    law: str
    output: Tensor  # (C, h, w)
    difference: Tensor  # (h, w), mean over the channels
    total: float = 0.0
    mean: float = 0.0
    largest: float = 0.0
    exact: bool = False
    problem: str | None = None


@dataclass(frozen=True)
class Comparison:
    """The moved picture (C, H, W), the position that GHS rolls to its anchor, and the result of each method."""

    moved: Tensor
    pivot: tuple[int, int] | None
    results: list[MethodResult]


def move(image: Tensor, shift: tuple[float, float], kind: str) -> Tensor:
    """Images (B, C, H, W) moved by (rows, columns), in whole pixels unless the kind is `fractional`."""
    if kind == "fractional":
        return fractional_shift(image, shift)
    whole = [round(v) for v in shift]
    return circular_shift(image, whole) if kind == "circular" else cropped_shift(image, whole)


def compare(
    image: Tensor, shift: tuple[float, float], kind: str, methods: Sequence[str], settings: Settings
) -> Comparison:
    """Move a picture (1, C, H, W) and downsample it with each of the methods."""
    moved = move(image, shift, kind)
    results, pivot = [], None
    with torch.no_grad():
        for method in methods:
            try:
                if method == "ghs":
                    settings.count_orders(max(image.shape[2:]))
                layer = _layer(method, image.shape[1], settings.stride, tuple(settings.options(method).items()))
                if pivot is None and layer.selects:
                    pivot = _pivot(layer.select(moved))
                results.append(_result(method, layer, image, moved, shift, kind))
            except (ValueError, TypeError, RuntimeError) as error:
                nothing = torch.zeros(1, 1, 1)
                results.append(MethodResult(method, "none", nothing, nothing[0], problem=str(error)))
    return Comparison(moved[0], pivot, results)


def _result(
    method: str, layer: Downsample, image: Tensor, moved: Tensor, shift: tuple[float, float], kind: str
) -> MethodResult:
    before, after = layer(image)[0], layer(moved)[0]
    tried = shift if kind == "fractional" else tuple(round(v) for v in shift)
    error = shift_error(layer, image, [tried], kind)
    return MethodResult(
        method,
        layer.law,
        after,
        (after - before).mean(0),
        total=error.mean * after.numel(),
        mean=error.mean,
        largest=error.max,
        exact=error.exact,
    )


@functools.lru_cache(maxsize=256)
def _layer(method: str, channels: int, stride: int, options: tuple[tuple[str, Any], ...]) -> Downsample:
    """A layer, built once: if it has random weights, they stay the same from one view to the next."""
    with _one_at_a_time, torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return create_downsample(method, channels, stride, **dict(options)).eval()


def _pivot(selection: Tensor | None) -> tuple[int, int] | None:
    """The position in a selection. A polyphase index, or one position per channel, gives None."""
    if selection is None or selection.shape != (1, 2) or selection.dtype != torch.int64:
        return None
    row, column = selection[0].tolist()
    return row, column
