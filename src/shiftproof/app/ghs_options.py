"""The options of GHS that the page offers, and what they make: the matrix R and the functions that it consists of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftproof.ghs import basis, grids
from shiftproof.ghs.kernel import GHS, TAPERS, Hermite
from shiftproof.ghs.matrix import sampling_matrix
from shiftproof.ghs.pivots import PIVOT_RULES
from shiftproof.ghs.sampler import ANCHORS

ORDERS = 4096  # the most functions that the page computes
DRAWN = 5  # functions drawn
# what the page suggests for each option; users may type other orders and sigmas
CHOICES = {
    "orders": ["N", "2N", "4N", "M"],
    "sigma": ["band", "1.5*band", "0.5*band", "rule"],
    "taper": list(TAPERS),
    "anchor": list(ANCHORS),
    "pivot_rule": list(PIVOT_RULES),
}


@dataclass(frozen=True)
class Settings:
    """The stride of all methods, and the options of `ghs` as the user typed or chose them."""

    stride: int = 2
    orders: str = str(GHS.orders)
    sigma: str = str(GHS.sigma)
    taper: str = GHS.taper
    anchor: str = "center"
    pivot_rule: str = "phase"

    @property
    def kernel(self) -> Hermite:
        """The recipe for the matrix of `ghs`."""
        return Hermite(orders=_number(self.orders), sigma=_number(self.sigma), taper=self.taper)

    def options(self, method: str) -> dict[str, Any]:
        """The keyword options of a method; only `ghs` has any here."""
        if method != "ghs":
            return {}
        grid = "periodic" if self.anchor == "corner" else "anchored"
        return {"kernel": self.kernel, "grid": grid, "anchor": self.anchor, "pivot_rule": self.pivot_rule}

    def count_orders(self, size: int) -> int:
        """The number of functions for an axis of `size` pixels; too many for the page are an error."""
        orders = grids.resolve_orders(self.kernel.orders, size, math.ceil(size / self.stride))
        if orders > ORDERS:
            raise ValueError(
                f"`orders` (={self.orders}) means {orders:,} functions here; the page computes up to {ORDERS:,}."
            )
        return orders


@dataclass(frozen=True)
class Inside:
    """The matrix R (N, M) that `ghs` multiplies each axis by, and its functions of lowest order over x.

    `endless` means that the weights of the functions fade out; otherwise the series ends after `orders` functions.
    """

    matrix: npt.NDArray[np.float64]
    x: npt.NDArray[np.float64]
    functions: npt.NDArray[np.float64]
    orders: int
    sigma: float
    endless: bool


def look_inside(size: int, settings: Settings) -> Inside:
    """The matrix of `ghs` for an axis of `size` pixels, and its first functions over [-1, 1]."""
    kernel = settings.kernel
    count = math.ceil(size / settings.stride)
    orders = settings.count_orders(size)
    sigma = grids.resolve_sigma(kernel.sigma, orders, size, count)
    x = np.linspace(-1, 1, 181)
    endless = kernel.taper == "gaussian"
    functions = basis.functions(DRAWN if endless else min(orders, DRAWN), x, sigma)
    return Inside(sampling_matrix(size, count, kernel), x, functions, orders, sigma, endless)


def _number(text: str) -> Any:
    """The number in `text`, or `text` itself if there is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip()
