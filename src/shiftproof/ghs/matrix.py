"""The fixed matrix R that samples one axis (Eqs. 12 and 22), and the plan of a whole call.

Moments followed by reconstruction are one (N, M) matrix per axis. It depends on sizes only, so it is built once in
float64 on the CPU, kept, and cast at the border. Letters: M input and N output size, K number of functions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from shiftproof.cache import TensorCache
from shiftproof.ghs import basis, grids
from shiftproof.ghs.functions import function_blocks
from shiftproof.ghs.kernel import GHS, Hermite, Kernel, Local, parse_kernel
from shiftproof.tensors import wide

Array = npt.NDArray[np.float64]

_LARGEST = 2**28  # numbers in one matrix: two gigabytes in float64
_WIDEST = 100  # periods
_cache = TensorCache()  # for traced graphs; eager calls keep whole plans


def sampling_matrix(size: int, count: int, kernel: Kernel = GHS, grid: str = "anchored", back: bool = False) -> Array:
    """R, the (N, M) matrix that takes M pixels to N samples; for M = N = 1, R = 1.

    `back`: with its columns divided by their sums, so that its transpose, which takes samples to pixels, keeps a
    constant.

    >>> sampling_matrix(32, 16, Local(2)).shape
    (16, 32)
    """
    if size == count == 1:
        return np.ones((1, 1))
    if size * count > _LARGEST:
        raise ValueError(
            f"an axis of {size} pixels sampled at {count} places needs a matrix of {size * count:.1e} numbers, beyond "
            f"the limit of {_LARGEST:.1e}: GHS is meant for feature maps. Cut the signal up, or take fewer samples."
        )
    if isinstance(kernel, Local):
        matrix = _local_matrix(size, count, kernel, grid)
    else:
        matrix = _hermite_matrix(size, count, kernel, grid)
    if isinstance(kernel, Local) or kernel.gain == "unit":
        total = matrix.sum(1, keepdims=True)
        if not (np.abs(total) >= 1e-3).all():
            least = f"a row of the {count} x {size} matrix sums to {total.flat[np.abs(total).argmin()]:.1e}"
            if isinstance(kernel, Local):
                raise ValueError(f"`width` (={kernel.width:g}) is too small here: {least}. Take a larger one.")
            raise ValueError(
                f"`gain='unit'` cannot keep a constant here: {least}. Take more `orders`, another `sigma`, or "
                f"`gain='paper'`."
            )
        matrix /= total
    if back:
        total = matrix.sum(0)
        if not (np.abs(total) >= 1e-3).all():
            raise ValueError(
                f"`kernel` (={kernel}) has no way back here: a column of the {count} x {size} matrix sums to "
                f"{total[np.abs(total).argmin()]:.1e}. Take a wider one."
            )
        matrix /= total
    return matrix


def _hermite_matrix(size: int, count: int, kernel: Hermite, grid: str) -> Array:
    """R = Q_N^T W P with P = step Q_M (quadrature) or pinv(Q_M^T) (least squares), and W the taper.

    For the periodic extension the functions of Q_M are summed over their wrapped copies, and those of Q_N too where
    they were fitted that way.
    """
    orders = grids.resolve_orders(kernel.orders, size, count)
    sigma = grids.resolve_sigma(kernel.sigma, orders, size, count)
    period = grids.period(size) if kernel.extension == "periodic" else None
    if period is not None and sigma > _WIDEST * period:
        raise ValueError(
            f"`sigma` (={sigma:.1e}) must be at most {_WIDEST} times the size of the map ({period:.1f}), around which "
            f"its functions are wrapped."
        )
    x, y = grids.pixels(size), grids.samples(size, count, grid)
    if kernel.taper == "gaussian":
        return grids.step(size) * mehler(orders, x, y, sigma, period)
    if kernel.projection == "least-squares":
        fitted = basis.least_squares(basis.functions(orders, x, sigma, period))
        return basis.functions(orders, y, sigma, period).T @ fitted
    matrix = np.zeros((count, size))
    for q_out, q_in in zip(basis.blocks(orders, y, sigma), basis.blocks(orders, x, sigma, period)):
        matrix += q_out.T @ (grids.step(size) * q_in)
    return matrix


def mehler(orders: int, x: Array, y: Array, sigma: float, period: float | None = None) -> Array:
    r"""The sum of 2^(-p/K) h_p(y) h_p(x) over all orders p, at y by row and x by column (Mehler's formula).

    .. math:: \sum_p w^p h_p(x) h_p(y) = \frac{1}{s \sqrt{\pi (1 - w^2)}} \exp\left(
        -\frac{1 - w}{1 + w} \frac{(x + y)^2}{4 s^2} - \frac{1 + w}{1 - w} \frac{(x - y)^2}{4 s^2} \right)

    With a `period`, the functions of x are summed over their copies.
    """
    t = math.log(2) / orders  # w = exp(-t)
    ratio = math.tanh(t / 2)  # (1 - w) / (1 + w), without cancellation
    width = sigma * math.sqrt(2 * math.sinh(t))  # of the second exponential where the first is at its largest
    copies = 0 if period is None else math.ceil((9 * width + np.abs(x).max() + np.abs(y).max()) / period)
    total = np.zeros((len(y), len(x)))
    with np.errstate(over="ignore", invalid="ignore"):  # far away, where a tiny sigma leaves nothing
        for copy in range(-copies, copies + 1):
            u, v = (x + copy * (period or 0)) / sigma, y[:, None] / sigma
            total += np.exp(-((u + v) ** 2 * ratio + (u - v) ** 2 / ratio) / 4)
    return total / (sigma * math.sqrt(-math.pi * math.expm1(-2 * t)))


def _local_matrix(size: int, count: int, kernel: Local, grid: str) -> Array:
    """k_m at the distance of each pixel from each sample, summed over the copies of the wrapped axis."""
    scale = kernel.scale(size / count)  # in pixels
    if scale > _WIDEST * size:
        raise ValueError(
            f"`width` (={kernel.width:g}) makes a window of {scale:.1e} pixels: it must be at most {_WIDEST} times the "
            f"size of the map ({size}), around which it is wrapped."
        )
    pixel = grids.samples(size, count, grid) / grids.step(size) + (size - 1) / 2
    distance = np.arange(size) - pixel[:, None]  # (N, M)
    # k_m falls to the rounding of float64 within 9 s of the turning point sqrt(4m + 1) of its highest function
    reach = math.sqrt(2) * scale * (math.sqrt(4 * kernel.order + 1) + 9)
    copies = math.ceil(reach / size) + 1
    matrix = np.zeros((count, size))
    for copy in range(-copies, copies + 1):
        matrix += local_function(kernel.order, distance + copy * size, scale)
    return matrix


def local_function(order: int, x: Array, scale: float) -> Array:
    """k_m at the distances `x` (see `Local`), by the stable recurrence of the normalised functions h_p.

    With H_2n(y) exp(-y^2 / 2) = h_2n(y) (4^n (2n)! sqrt(pi))^(1/2) the weight of h_2n becomes (-1)^n
    (C(2n, n) / 4^n)^(1/2), each of which is the one before it times -((2n - 1) / 2n)^(1/2): nothing grows.
    """
    y = x / (math.sqrt(2) * scale)
    total, weight = np.zeros_like(y), math.pi**0.25
    p = 0
    for block in function_blocks(2 * order + 1, y, 1.0):
        for h in block:
            if p % 2 == 0:
                weight *= -math.sqrt((p - 1) / p) if p else 1.0
                total += weight * h
            p += 1
    return total * np.exp(-y * y / 2) / (scale * math.sqrt(2 * math.pi))


class Axis:
    """The (N, M) matrix of one axis, and what a backend derives from it, kept as long as the matrix is."""

    def __init__(self, dense: Tensor) -> None:
        self.dense = dense
        self.derived: dict[Hashable, tuple[Tensor, Tensor]] = {}

    @property
    def nbytes(self) -> int:
        """Of all of them."""
        return self.dense.nbytes + sum(t.nbytes for made in list(self.derived.values()) for t in made)


class Plan(NamedTuple):
    """What one call does to maps of one size: where pivots are moved to, the grid's phases, a matrix per axis.

    With `first` the samples are rolled back to where the map was: see `moved`.
    """

    origin: tuple[int, ...]
    counts: tuple[int, ...]
    phases: tuple[int, ...] | None  # None where no two positions have the same phase
    axes: tuple[Axis, ...]
    sizes: tuple[int, ...]
    first: tuple[int, ...] | None  # of `place` on each axis; None where samples stay in the frame of the pivot

    def moved(self, pivots: Tensor) -> Tensor | None:
        """How far samples are rolled so that the first lies less than a step from the first pixel; None: not at all.

        On each axis it lies at p - a + first / 2N + j M / N pixels for a roll by -j.
        """
        if self.first is None:
            return None
        size, count, first, origin = (
            torch.tensor(t, device=pivots.device) for t in (self.sizes, self.counts, self.first, self.origin)
        )
        return (2 * count * (pivots - origin) + first).div(2 * size, rounding_mode="floor")

    @property
    def nbytes(self) -> int:
        """Of the matrices and what is derived from them."""
        return sum(axis.nbytes for axis in {id(axis): axis for axis in self.axes}.values())


def make_plan(
    like: Tensor,
    sizes: Sequence[int],
    counts: Sequence[int],
    origin: Sequence[int],
    kernel: Kernel,
    grid: str,
    stay: bool = False,
    back: bool = False,
) -> Plan:
    """The plan for maps of the given sizes, in the accumulation dtype and on the device of `like`.

    `stay`: samples are rolled back. `back`: for the way back, whose matrices keep a constant.
    """
    first = tuple(grids.place(m, n, grid)[0] for m, n in zip(sizes, counts)) if stay else None

    def make(size: int, count: int) -> Axis:
        return Axis(_matrix(size, count, kernel, grid, back, like))

    if torch.compiler.is_compiling():  # sizes may be symbols, which cannot be compared
        axes = tuple([make(m, n) for m, n in zip(sizes, counts)])
        return Plan(tuple(origin), tuple(counts), None, axes, tuple(sizes), first)
    axes = tuple(map(functools.cache(make), sizes, counts))  # equal axes share a matrix
    return Plan(tuple(origin), tuple(counts), grids.all_phases(sizes, counts), axes, tuple(sizes), first)


def _matrix(size: int, count: int, kernel: Kernel, grid: str, back: bool, like: Tensor) -> Tensor:
    """`sampling_matrix` in the accumulation dtype and on the device of `like`."""
    if torch.compiler.is_dynamo_compiling() or isinstance(size, torch.SymInt):
        matrix: Tensor = matrix_op(like.detach(), size, count, kernel.text, grid, back)
        return matrix
    return _dense(size, count, kernel, grid, back).to(device=like.device, dtype=wide(like.dtype))


# said in full: torch 2.4 cannot read annotations that are kept as text
_SCHEMA = "(Tensor like, SymInt size, SymInt count, str kernel, str grid, bool back=False) -> Tensor"


@torch.library.custom_op("shiftproof::sampling_matrix", mutates_args=(), schema=_SCHEMA)
def matrix_op(like: Tensor, size: int, count: int, kernel: str, grid: str, back: bool = False) -> Tensor:
    """`sampling_matrix` as an operator: what a traced graph calls where the size is known only at run time."""
    key = size, count, kernel, grid, back
    made = _cache.get_like(key, like, lambda: _dense(size, count, parse_kernel(kernel), grid, back))
    return made.clone()  # a graph may write into what an operator returns


def _dense(size: int, count: int, kernel: Kernel, grid: str, back: bool) -> Tensor:
    return torch.from_numpy(sampling_matrix(size, count, kernel, grid, back))


@matrix_op.register_fake
def _(like: Tensor, size: int, count: int, kernel: str, grid: str, back: bool = False) -> Tensor:
    if torch.onnx.is_in_onnx_export():
        raise ValueError(
            "GHS needs a fixed height and width in ONNX, where its matrices become constants: leave only the "
            "batch dynamic, or use `torch.export` for dynamic sizes."
        )
    return like.new_empty((count, size), dtype=wide(like.dtype))
