"""Pixel grids, the number of functions kept on them, and their scale.

Letters: M input size, N output size, K number of functions, L period of the wrapped axis.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shiftproof import checks

GRIDS = ("inclusive", "periodic", "anchored")
_ORDERS = re.compile(r"(0*[1-9]\d*)?\s*\*?\s*([NM])\s*(?:/\s*([1-9]\d*))?")
_SIGMA = re.compile(r"(?:(\d*\.?\d+)\s*\*\s*)?(rule|order|band)")


def step(size: int) -> float:
    """Distance of neighbouring pixels, 2/(M - 1) (Eq. 9); a single pixel covers the whole of [-1, 1]."""
    return 2 / (size - 1) if size > 1 else 2.0


def period(size: int) -> float:
    """Length L = M * step after which a wrapped axis of `size` pixels repeats."""
    return size * step(size)


def pixels(size: int) -> npt.NDArray[np.float64]:
    """Pixel positions x_i = (2i - M + 1)/(M - 1) in [-1, 1] (Eq. 9); a single pixel lies at 0.

    >>> pixels(3)
    array([-1.,  0.,  1.])
    """
    i = np.arange(size, dtype=np.float64)
    return (2 * i - size + 1) / max(size - 1, 1)


def samples(size: int, count: int, grid: str) -> npt.NDArray[np.float64]:
    """Positions of `count` output samples over an axis of `size` pixels.

    `"inclusive"` is the paper's grid: Eq. 9 with N points, first and last on the ends of [-1, 1].
    `"periodic"` spaces them by L/N, so that the distance from the last to the wrapped first is the same, and centres
    them: at even sizes and stride 2 each lies between two pixels.
    `"anchored"` spaces them likewise and puts one on the middle pixel M//2, to which `anchor="center"` moves the pivot.
    An odd axis with an even number of samples keeps the periodic grid, which is symmetric around that pixel.

    >>> np.allclose(samples(8, 4, "anchored"), pixels(8)[::2])
    True
    """
    if grid == "inclusive":
        return pixels(count)
    j = np.arange(count, dtype=np.float64)
    spacing = period(size) / count
    if grid == "anchored" and size % 2 == 0:
        return float(pixels(size)[size // 2]) + (j - count // 2) * spacing
    return (2 * j - count + 1) * (spacing / 2)


def place(size: int, count: int, grid: str) -> tuple[int, int, int]:
    """Where the first sample lies, one pixel, and the distance of two samples, in equal parts of a pixel.

    >>> place(8, 4, "anchored"), place(8, 4, "periodic"), place(8, 3, "inclusive")
    ((0, 8, 16), (4, 8, 16), (0, 2, 7))
    """
    if grid == "inclusive":
        return (0, count - 1, size - 1) if count > 1 else (size - 1, 2, 2 * size)
    # without branches: in a graph sizes may be open
    middle = size % 2 * (size - count) + (1 - size % 2) * (count % 2) * size
    return middle if grid == "anchored" else size - count, 2 * count, 2 * size


def phases(size: int, count: int) -> int:
    """The period, in pixels, of an equally spaced grid of `count` samples: M / gcd(M, N).

    The stride where it divides the size; otherwise up to the whole size, and then no two positions share a phase.

    >>> phases(32, 16), phases(12, 8), phases(15, 8)
    (2, 3, 15)
    """
    return size // math.gcd(size, count)


def all_phases(sizes: Sequence[int], counts: Sequence[int]) -> tuple[int, ...] | None:
    """`phases` of each axis; None where no two positions share one.

    >>> all_phases((32, 12), (16, 8)), all_phases((15, 7), (8, 4))
    ((2, 3), None)
    """
    found = tuple(phases(m, n) for m, n in zip(sizes, counts))
    return None if found == tuple(sizes) else found


def resolve_orders(orders: int | str, size: int, count: int) -> int:
    """The number K of functions for M = `size` and N = `count`: a number, or `"N"`, `"4N"`, `"N/2"`, `"M"`.

    >>> resolve_orders("4N", 32, 16), resolve_orders("N/2", 32, 1), resolve_orders(7, 32, 16)
    (64, 1, 7)
    """
    if not isinstance(orders, str):
        return checks.integer("orders", orders)
    found = _ORDERS.fullmatch(orders.strip())
    if not found:
        raise ValueError(
            f"`orders` (={orders!r}) must be an integer of at least 1, or a multiple or fraction of the output "
            f"size N or the input size M, such as 'N', '4N', 'N/2' or 'M'."
        )
    base = count if found[2] == "N" else size
    return max(1, int(found[1] or 1) * base // int(found[3] or 1))


def resolve_sigma(sigma: float | str, orders: int, size: int, count: int) -> float:
    """The scale s for K = `orders` functions: a number, `"rule"`, `"order"`, `"band"`, or a multiple as `"0.5*band"`.

    `"rule"` is the paper's `scale_rule`, `"order"` the same with the highest order, K - 1, for its N. `"band"` puts the
    highest frequency of the functions, sqrt(2K+1)/s, at the Nyquist limit of the output, pi N/L, for any K.
    """
    if not isinstance(sigma, str):
        return checks.positive("sigma", sigma)
    found = _SIGMA.fullmatch(sigma.strip())
    if not found:
        raise ValueError(
            f"`sigma` (={sigma!r}) must be a positive number, 'rule' (Eq. 24), 'order' (Eq. 24 of the highest "
            f"order), 'band', or a multiple of one of them such as '0.5*band'."
        )
    if found[2] != "band":
        base = scale_rule(orders if found[2] == "rule" else orders - 1)
    else:
        base = math.sqrt(2 * orders + 1) * period(size) / (math.pi * count)
    return checks.positive("sigma", float(found[1] or 1) * base)


def scale_rule(orders: int) -> float:
    """s = 0.9 K^-0.52 for K functions, 1 for none (Eq. 24).

    >>> round(scale_rule(16), 4)
    0.2129
    """
    return float(0.9 * orders**-0.52) if orders >= 1 else 1.0
