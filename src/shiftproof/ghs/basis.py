"""Gaussian-Hermite functions on a grid of pixels: the matrix Q of Eq. 12, wrapped if need be, and its pseudo-inverse.

Letters: K number of functions, M number of pixels.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from shiftproof.ghs.functions import function_blocks

PROJECTIONS = ("quadrature", "least-squares")
CONDITION_LIMIT = 1e8  # beyond it a least-squares projection loses half of the digits of float64


def functions(
    orders: int, x: npt.NDArray[np.float64], sigma: float, period: float | None = None
) -> npt.NDArray[np.float64]:
    """Q, the (orders, len(x)) matrix of functions at `x`, each summed over its copies if there is a `period`."""
    return np.concatenate(list(blocks(orders, x, sigma, period)))


def blocks(
    orders: int, x: npt.NDArray[np.float64], sigma: float, period: float | None = None
) -> Iterator[npt.NDArray[np.float64]]:
    """`functions` in blocks of orders, so that a long sum over orders needs little memory."""
    if period is None:
        yield from function_blocks(orders, x / sigma, sigma)
        return
    # the functions vanish beyond their turning point s sqrt(2K+1), to double precision after another 9 s
    reach = sigma * (np.sqrt(2 * orders + 1) + 9) + np.abs(x).max()
    copies = int(np.ceil(reach / period))
    wrapped = x + period * np.arange(-copies, copies + 1)[:, None]  # (copies, M)
    for block in function_blocks(orders, wrapped / sigma, sigma):
        yield block.sum(1)


def least_squares(q: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """pinv(Q^T), the (K, M) matrix that takes a map to the coefficients that fit it best."""
    orders, size = q.shape
    if orders > size:
        raise ValueError(
            f"`orders` (={orders}) must be at most the grid size (={size}) for `projection='least-squares'`: "
            f"a grid of n points carries n independent functions."
        )
    condition = float(np.linalg.cond(q.T))
    if not condition <= CONDITION_LIMIT:
        raise ValueError(
            f"`projection='least-squares'` is hopeless here: {orders} functions on {size} pixels have the condition "
            f"number {condition:.1e} (limit {CONDITION_LIMIT:.0e}). Take fewer `orders`, another `sigma`, or "
            f"'quadrature'."
        )
    return np.asarray(np.linalg.pinv(q.T), dtype=np.float64)
