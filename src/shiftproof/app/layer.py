"""The tab Layer, without the page: a picture is moved and downsampled by several methods."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from shiftproof.ghs import basis, grids
from shiftproof.ghs.kernel import GHS, Hermite
from shiftproof.ghs.matrix import sampling_matrix
from shiftproof.invariance import shift_error
from shiftproof.layers import Downsample, create_downsample
from shiftproof.maps.shifts import circular_shift, cropped_shift, fractional_shift

# what the page calls a kind of shift, and what the measure calls it
KINDS = {"circular": "circular", "cropped": "cropped", "sub-pixel": "fractional"}
METHODS = ("max", "lpf", "aps", "ghs")  # shown first
REACH = 2.0  # pixels of a sub-pixel shift, in steps of an eighth
ORDERS = 4096  # functions, at most
DRAWN = 5  # functions drawn


@dataclass(frozen=True)
class Settings:
    """What is compared: the stride of all methods, and the options of the method `ghs`, as the page has them."""

    stride: int = 2
    orders: str = str(GHS.orders)
    sigma: str = str(GHS.sigma)
    taper: str = GHS.taper
    anchor: str = "center"
    pivot_rule: str = "phase"

    @property
    def kernel(self) -> Hermite:
        """What the matrix of `ghs` is made of."""
        return Hermite(orders=_number(self.orders), sigma=_number(self.sigma), taper=self.taper)

    def options(self, method: str) -> dict[str, Any]:
        """The options of a method: those of `ghs`; all others keep their own."""
        if method != "ghs":
            return {}
        grid = "anchored" if self.anchor == "center" else "periodic"
        return {"kernel": self.kernel, "grid": grid, "anchor": self.anchor, "pivot_rule": self.pivot_rule}


@dataclass(frozen=True)
class Panel:
    """What one method makes of the moved picture, and how far that is from what it made of the unmoved one.

    `total`, `mean` and `largest` are the absolute difference (AD) over all values; `exact` says that all bits are
    equal. Where the method failed, `problem` says why and nothing else is known.
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
    """The moved picture (C, H, W), the pivot in it that GHS turns to its anchor, and a panel for each method."""

    moved: Tensor
    pivot: tuple[int, int] | None
    panels: list[Panel]


def move(image: Tensor, shift: tuple[float, float], kind: str) -> Tensor:
    """Images (B, C, H, W) moved by (rows, columns), in whole pixels unless the kind is `fractional`."""
    if kind == "fractional":
        return fractional_shift(image, shift)
    whole = [round(v) for v in shift]
    return circular_shift(image, whole) if kind == "circular" else cropped_shift(image, whole)


def compare(
    image: Tensor, shift: tuple[float, float], kind: str, methods: Sequence[str], settings: Settings
) -> Comparison:
    """Move a picture (1, C, H, W) and downsample it by each of the methods."""
    moved = move(image, shift, kind)
    panels, pivot = [], None
    with torch.no_grad():
        for method in methods:
            try:
                if method == "ghs":
                    count_orders(max(image.shape[2:]), settings)
                layer = _layer(method, image.shape[1], settings.stride, tuple(settings.options(method).items()))
                if pivot is None and layer.selects:
                    pivot = _pivot(layer.select(moved))
                panels.append(_panel(method, layer, image, moved, shift, kind))
            except (ValueError, TypeError, RuntimeError) as error:
                nothing = torch.zeros(1, 1, 1)
                panels.append(Panel(method, "none", nothing, nothing[0], problem=str(error)))
    return Comparison(moved[0], pivot, panels)


def _panel(
    method: str, layer: Downsample, image: Tensor, moved: Tensor, shift: tuple[float, float], kind: str
) -> Panel:
    before, after = layer(image)[0], layer(moved)[0]
    where = shift if kind == "fractional" else tuple(round(v) for v in shift)
    error = shift_error(layer, image, [where], kind)
    return Panel(
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
    """A layer, made once: where it has weights, they are drawn once and for all."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return create_downsample(method, channels, stride, **dict(options)).eval()


def _pivot(selection: Tensor | None) -> tuple[int, int] | None:
    """A selection that is one position of the picture; an index, or a position for each channel, is not."""
    if selection is None or selection.shape != (1, 2) or selection.dtype != torch.int64:
        return None
    row, column = selection[0].tolist()
    return row, column


@dataclass(frozen=True)
class Inside:
    """What `ghs` multiplies each axis by: R (N, M), and the first of the functions that it is made of.

    `endless` says that these fade out instead of ending with `orders`.
    """

    matrix: npt.NDArray[np.float64]
    x: npt.NDArray[np.float64]
    functions: npt.NDArray[np.float64]
    orders: int
    sigma: float
    endless: bool


def inside(size: int, settings: Settings) -> Inside:
    """The matrix of `ghs` for an axis of `size` pixels, and its functions of lowest order over [-1, 1]."""
    kernel = settings.kernel
    count = math.ceil(size / settings.stride)
    orders = count_orders(size, settings)
    sigma = grids.resolve_sigma(kernel.sigma, orders, size, count)
    x = np.linspace(-1, 1, 181)
    endless = kernel.taper == "gaussian"
    functions = basis.functions(DRAWN if endless else min(orders, DRAWN), x, sigma)
    return Inside(sampling_matrix(size, count, kernel), x, functions, orders, sigma, endless)


def count_orders(size: int, settings: Settings) -> int:
    """The number of functions that `ghs` takes for an axis of `size` pixels; too many for a page are refused."""
    orders = grids.resolve_orders(settings.kernel.orders, size, math.ceil(size / settings.stride))
    if orders > ORDERS:
        raise ValueError(
            f"`orders` (={settings.orders}) are {orders:,} functions here; the page takes up to {ORDERS:,}."
        )
    return orders


def _number(text: str) -> Any:
    """The number in what somebody typed, or the word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip()
