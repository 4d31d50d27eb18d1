"""The fixed matrix that samples one axis, and what it is made of.

Moments followed by reconstruction are one (N, M) matrix per axis. It depends on sizes only, so it is built once in
float64 on the CPU, kept, and cast at the border. Letters: M input and N output size, K number of functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.cache import TensorCache
from shiftproof.ghs import basis, grids
from shiftproof.tensors import wide

EXTENSIONS = ("zero", "periodic")
GAINS = ("paper", "unit")
TAPERS = ("none", "linear", "cosine", "gaussian")

_LARGEST = 2**28  # numbers in one matrix: two gigabytes in float64
_WIDEST = 100  # periods
_cache = TensorCache()


@dataclass(frozen=True)
class Kernel:
    """What the matrix of one axis is made of; the defaults are those of the method `ghs`.

    `orders`: the number K of functions, also as `"N"`, `"4N"`, `"N/2"` or `"M"` of the output and input size.
    `sigma`: their scale, a number, `"rule"` (Eq. 24), `"band"` (cut off at the output's Nyquist limit), or a
    multiple such as `"0.5*band"`.
    `extension`: the map continued by `"zero"` or `"periodic"` beyond its border when moments are taken.
    `grid`: output samples `"inclusive"` of both ends; `"periodic"`, equally spaced around the wrapped axis and centred
    on the map; or `"pivot"`, likewise, with a sample on the pixel to which the pivot is moved (see `grids.samples`).
    `projection`: `"quadrature"` or `"least-squares"`.
    `gain`: `"paper"`, or `"unit"` to divide each row by its sum, so that a constant stays what it is.
    `taper`: the weight of order p. 1 up to K (`"none"`, the paper); 1 - p/K (`"linear"`, the arithmetic mean of the
    first K partial sums, after Fejer); cos(pi p / 2K) (`"cosine"`); or 2^(-p/K) for all orders there are
    (`"gaussian"`). A series that is simply cut off rings; one that fades out does not. In the last case each sample is
    a mean of the pixels around it, weighted by a Gaussian, and depends on a few of them only. With `"band"` its gain is
    one half at the output's Nyquist limit, with `"1.5*band"` one fifth.
    """

    orders: int | str = "4N"
    sigma: float | str = "band"
    extension: str = "periodic"
    grid: str = "pivot"
    projection: str = "quadrature"
    gain: str = "unit"
    taper: str = "gaussian"

    def __post_init__(self) -> None:
        grids.resolve_sigma(self.sigma, grids.resolve_orders(self.orders, 2, 1), 2, 1)
        checks.choice("extension", self.extension, EXTENSIONS)
        checks.choice("grid", self.grid, grids.GRIDS)
        checks.choice("projection", self.projection, basis.PROJECTIONS)
        checks.choice("gain", self.gain, GAINS)
        checks.choice("taper", self.taper, TAPERS)
        if self.projection == "least-squares" and self.taper == "gaussian":
            raise ValueError(
                "`projection='least-squares'` fits a number of functions, and `taper='gaussian'` takes all there are: "
                "choose another `taper`, such as 'none'."
            )


GHS = Kernel()
GHS_PAPER = Kernel("N", "rule", "zero", "inclusive", "quadrature", "paper", "none")


def sampling_matrix(size: int, count: int, kernel: Kernel = GHS) -> npt.NDArray[np.float64]:
    """R, the (N, M) matrix that takes M pixels to N samples: moments (Eq. 12), then reconstruction (Eq. 22).

    R = Q_N^T W P with P = step Q_M (quadrature) or pinv(Q_M^T) (least squares), and W the taper, which is the identity
    in the paper. For the periodic extension the functions of Q_M are summed over their wrapped copies, and those of Q_N
    too where they were fitted that way. A single pixel sampled once is left alone: R = 1.

    >>> sampling_matrix(32, 16, GHS_PAPER).shape
    (16, 32)
    """
    if size == count == 1:
        return np.ones((1, 1))
    if size * count > _LARGEST:
        raise ValueError(
            f"an axis of {size} pixels sampled at {count} places needs a matrix of {size * count:.1e} numbers, beyond "
            f"the limit of {_LARGEST:.1e}: GHS is meant for feature maps. Cut the signal up, or take fewer samples."
        )
    orders = grids.resolve_orders(kernel.orders, size, count)
    sigma = grids.resolve_sigma(kernel.sigma, orders, size, count)
    period = grids.period(size) if kernel.extension == "periodic" else None
    if period is not None and sigma > _WIDEST * period:
        raise ValueError(
            f"`sigma` (={sigma:.1e}) must be at most {_WIDEST} times the size of the map ({period:.1f}), around which "
            f"its functions are wrapped."
        )
    x, y = grids.pixels(size), grids.samples(size, count, kernel.grid)
    if kernel.taper == "gaussian":
        matrix = grids.step(size) * mehler(orders, x, y, sigma, period)
    elif kernel.projection == "least-squares":
        q = basis.functions(orders, x, sigma, period)
        weighted = basis.functions(orders, y, sigma, period) * taper_weights(kernel.taper, orders)[:, None]
        matrix = weighted.T @ basis.least_squares(q)
    else:
        matrix, done = np.zeros((count, size)), 0
        weights = grids.step(size) * taper_weights(kernel.taper, orders)
        for q_out, q_in in zip(basis.blocks(orders, y, sigma), basis.blocks(orders, x, sigma, period)):
            matrix += q_out.T @ (weights[done : done + len(q_in), None] * q_in)
            done += len(q_in)
    if kernel.gain == "unit":
        total = matrix.sum(1, keepdims=True)
        if not (np.abs(total) >= 1e-3).all():
            raise ValueError(
                f"`gain='unit'` cannot keep a constant here: a row of the {count} x {size} matrix sums to "
                f"{total.flat[np.abs(total).argmin()]:.1e}. Take more `orders`, another `sigma`, or `gain='paper'`."
            )
        matrix /= total
    return matrix


def taper_weights(taper: str, orders: int) -> npt.NDArray[np.float64]:
    """The weight of each of K orders, for a taper that ends there; the first is 1.

    >>> taper_weights("linear", 4)
    array([1.  , 0.75, 0.5 , 0.25])
    """
    p = np.arange(orders) / orders
    if taper == "linear":
        return 1 - p
    return np.cos(np.pi / 2 * p) if taper == "cosine" else np.ones(orders)


def mehler(
    orders: int, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], sigma: float, period: float | None = None
) -> npt.NDArray[np.float64]:
    r"""The sum of 2^(-p/K) h_p(y) h_p(x) over all orders p, at y by row and x by column (Mehler's formula).

    .. math:: \sum_p w^p h_p(x) h_p(y) = \frac{1}{s \sqrt{\pi (1 - w^2)}} \exp\left(
        -\frac{1 - w}{1 + w} \frac{(x + y)^2}{4 s^2} - \frac{1 + w}{1 - w} \frac{(x - y)^2}{4 s^2} \right)

    With a `period`, the functions of x are summed over their copies.
    """
    t = math.log(2) / orders  # w = exp(-t)
    ratio = math.tanh(t / 2)  # (1 - w) / (1 + w), without cancellation
    width = sigma * math.sqrt(2 * math.sinh(t))  # ... of the second exponential where the first is at its largest
    copies = 0 if period is None else math.ceil((9 * width + np.abs(x).max() + np.abs(y).max()) / period)
    total = np.zeros((len(y), len(x)))
    with np.errstate(over="ignore", invalid="ignore"):  # far away, where a tiny sigma leaves nothing
        for copy in range(-copies, copies + 1):
            u, v = (x + copy * (period or 0)) / sigma, y[:, None] / sigma
            total += np.exp(-((u + v) ** 2 * ratio + (u - v) ** 2 / ratio) / 4)
    return total / (sigma * math.sqrt(-math.pi * math.expm1(-2 * t)))


def matrices_for(x: Tensor, counts: Sequence[int], kernel: Kernel = GHS) -> list[Tensor]:
    """The matrix of each spatial axis of (B, C, d1..dn), in the accumulation dtype and on the device of `x`."""
    return [_matrix(m, n, kernel, x) for m, n in zip(x.shape[2:], counts)]


def _matrix(size: int, count: int, kernel: Kernel, like: Tensor) -> Tensor:
    """`sampling_matrix` in the accumulation dtype and on the device of `like`; built once and kept."""
    if torch.compiler.is_dynamo_compiling() or isinstance(size, torch.SymInt):
        numbers, words = (str(kernel.orders), str(kernel.sigma)), (kernel.extension, kernel.grid, kernel.projection)
        matrix: Tensor = matrix_op(like.detach(), size, count, *numbers, *words, kernel.gain, kernel.taper)
        return matrix

    return _cache.get((size, count, kernel), like, lambda: torch.from_numpy(sampling_matrix(size, count, kernel)))


# said in full: torch 2.4 cannot read annotations that are kept as text
_SCHEMA = (
    "(Tensor like, SymInt size, SymInt count, str orders, str sigma, str extension, str grid, str projection, "
    "str gain, str taper) -> Tensor"
)


@torch.library.custom_op("shiftproof::sampling_matrix", mutates_args=(), schema=_SCHEMA)
def matrix_op(
    like: Tensor,
    size: int,
    count: int,
    orders: str,
    sigma: str,
    extension: str,
    grid: str,
    projection: str,
    gain: str,
    taper: str,
) -> Tensor:
    """`sampling_matrix` as an operator: what a traced graph calls where the size is known only at run time."""
    kernel = Kernel(_number(orders), _number(sigma), extension, grid, projection, gain, taper)
    # a graph may write into what an operator returns, so it gets a copy
    return _matrix(size, count, kernel, like).clone()


@matrix_op.register_fake
def _(like: Tensor, size: int, count: int, *options: str) -> Tensor:
    if torch.onnx.is_in_onnx_export():
        raise ValueError(
            "GHS needs a fixed height and width in ONNX, where its matrices become constants: leave only the "
            "batch dynamic, or use `torch.export` for dynamic sizes."
        )
    return like.new_empty((count, size), dtype=wide(like.dtype))


def _number(text: str) -> Any:
    """The number in `text`, or `text` where it is a word."""
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return text
