"""Gaussian-Hermite Sampling (GHS) as pure functions (paper, section 3.3).

Find the pivot of each map, turn the map so that the pivot comes to the anchor, multiply each axis by one fixed
matrix. The arithmetic after the turn is the same for every shift, so equal maps give equal bits.

Letters: B batch, C channels, d1..dn sizes, M input and N output size of one axis, K number of functions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from shiftproof import checks, expansion, grids
from shiftproof.cache import TensorCache
from shiftproof.pivots import Rule, select_pivot
from shiftproof.precision import autocast_off, wide
from shiftproof.shifts import circular_shift, is_eager, take_from

EXTENSIONS = ("zero", "periodic")
GAINS = ("paper", "unit")
ANCHORS = ("corner", "center")

_cache = TensorCache(capacity=64 * 2**20)


@dataclass(frozen=True)
class Kernel:
    """What the matrix of one axis is made of; the defaults are those of the method `ghs`.

    `orders`: the number K of functions, also as `"N"`, `"4N"`, `"N/2"` or `"M"` of the output and input size.
    `sigma`: their scale, a number, `"rule"` (Eq. 24), `"band"` (cut off at the output's Nyquist limit), or a
    multiple such as `"0.5*band"`.
    `extension`: the map continued by `"zero"` or `"periodic"` beyond its border when moments are taken.
    `grid`: output samples `"inclusive"` of both ends, or `"periodic"`, equally spaced around the wrapped axis.
    `projection`: `"quadrature"` or `"least-squares"`.
    `gain`: `"paper"`, or `"unit"` to divide each row by its sum, so that a constant stays what it is.
    """

    orders: int | str = "4N"
    sigma: float | str = "band"
    extension: str = "periodic"
    grid: str = "periodic"
    projection: str = "quadrature"
    gain: str = "unit"

    def __post_init__(self) -> None:
        grids.resolve_sigma(self.sigma, grids.resolve_orders(self.orders, 2, 1), 2, 1)
        checks.choice("extension", self.extension, EXTENSIONS)
        checks.choice("grid", self.grid, grids.GRIDS)
        checks.choice("projection", self.projection, expansion.PROJECTIONS)
        checks.choice("gain", self.gain, GAINS)


GHS = Kernel()
GHS_PAPER = Kernel("N", "rule", "zero", "inclusive", "quadrature", "paper")


@functools.lru_cache(maxsize=256)
def make_kernel(*options: Any) -> Kernel:
    """`Kernel`, checked once per set of options."""
    return Kernel(*options)


def sampling_matrix(size: int, count: int, kernel: Kernel = GHS) -> npt.NDArray[np.float64]:
    """R, the (N, M) matrix that takes M pixels to N samples: moments (Eq. 12), then reconstruction (Eq. 22).

    R = Q_N^T P with P = step Q_M (quadrature) or pinv(Q_M^T) (least squares), Q_M summed over its wrapped copies
    for the periodic extension. A single pixel sampled once is left alone: R = 1.

    >>> sampling_matrix(32, 16, GHS_PAPER).shape
    (16, 32)
    """
    if size == count == 1:
        return np.ones((1, 1))
    orders = grids.resolve_orders(kernel.orders, size, count)
    sigma = grids.resolve_sigma(kernel.sigma, orders, size, count)
    period = grids.period(size) if kernel.extension == "periodic" else None
    x, y = grids.pixels(size), grids.samples(size, count, kernel.grid)
    if kernel.projection == "least-squares":
        q = expansion.functions(orders, x, sigma, period)
        matrix = expansion.functions(orders, y, sigma).T @ expansion.least_squares(q)
    else:
        matrix = np.zeros((count, size))
        for q_out, q_in in zip(expansion.blocks(orders, y, sigma), expansion.blocks(orders, x, sigma, period)):
            matrix += q_out.T @ (grids.step(size) * q_in)
    if kernel.gain == "unit":
        total = matrix.sum(1, keepdims=True)
        if (np.abs(total) < 1e-3).any():
            raise ValueError(
                f"`gain='unit'` cannot keep a constant here: a row of the {count} x {size} matrix sums to "
                f"{total.flat[np.abs(total).argmin()]:.1e}. Take more `orders`, another `sigma`, or `gain='paper'`."
            )
        matrix /= total
    return matrix


def pivot_moments(
    f: Tensor, pivot: Tensor, orders: int | Sequence[int] | None = None, sigma: float | None = None, ndim: int = 2
) -> Tensor:
    r"""A*_{c,r}, the moments of `f` for a pivot position (Eq. 19).

    .. math:: A^*_{c,r}(F) = \frac{4}{(M-1)^2}\, Q^{[r,0]} F\, Q^{\top[0,c]}

    Instead of the functions the map is turned, which is the same sum (property 1) in an order that does not
    depend on the pivot. `pivot` is (\*lead, ndim) in (row, column) order, with the leading axes of `f`.

    Shape: (\*lead, ..., d1..dn) -> (\*lead, ..., K1..Kn).
    """
    aligned = circular_shift(f, -pivot, dims=range(-ndim, 0))
    return expansion.moments(aligned, orders, sigma, ndim)


def max_centered_moments(
    x: Tensor, orders: int | Sequence[int] | None = None, sigma: float | None = None, ndim: int = 2
) -> Tensor:
    """A*_max, the moments of each sample for the pivot at its maximum (Eq. 20); `reconstruct` inverts it (Eq. 22).

    * theorem 1: invariant under every circular shift, bit for bit.

    A sample that contains NaN has no maximum, and all its moments are NaN.

    Shape: (B, C, d1..dn) -> (B, C, K1..Kn).
    """
    checks.maps("x", x, ndim)
    pivot = select_pivot(x)
    out = pivot_moments(x, pivot, orders, sigma, ndim)
    return mark_absent(out, pivot)


def ghs2d(
    x: Tensor,
    stride: int | Sequence[int] = 2,
    *,
    output_size: int | Sequence[int] | None = None,
    orders: int | str = GHS.orders,
    sigma: float | str = GHS.sigma,
    extension: str = GHS.extension,
    grid: str = GHS.grid,
    projection: str = GHS.projection,
    gain: str = GHS.gain,
    anchor: str = "center",
    pivot: str | Rule = "max",
    ties: str = "exact",
    selection: Tensor | None = None,
    return_selection: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Gaussian-Hermite Sampling: downsample maps so that a circular shift of the input changes nothing (Eq. 22).

    .. math:: \hat F^* = Q_N^\top A^*_{\max}(F) Q_N = R\, F^{[a - p]} R^\top

    with p the pivot (the position of the maximum), a the anchor it is moved to, R the fixed matrix of
    `sampling_matrix`.

    * theorem 2: for every input and every circular shift the output is equal, bit for bit on equal shapes, ties
      included (`ties="exact"`);
    * linear in the values where the pivot stays, and differentiable to any order;
    * float16 and bfloat16 are multiplied in float32 and rounded once, autocast or not;
    * a sample that contains NaN has no pivot, and all its outputs are NaN; other samples do not notice.

    `orders`, `sigma`, `extension`, `grid`, `projection` and `gain` make the matrix: see `Kernel`. `anchor` is
    `"center"` or `"corner"` (the paper). `pivot` and `ties` are those of `select_pivot`. A `selection` from
    `select_pivot` on another map replaces the search, so that branches which meet again stay aligned;
    `return_selection` hands it out. The paper's layer is `**vars(GHS_PAPER), anchor="corner"`.

    Shape: (B, C, H, W) -> (B, C, ceil(H/stride), ceil(W/stride)), or `output_size`.

    >>> x = torch.rand(2, 3, 7, 10)
    >>> y = ghs2d(x)
    >>> y.shape
    torch.Size([2, 3, 4, 5])
    >>> bool((ghs2d(x.roll((3, 8), (2, 3))) == y).all())
    True
    """
    kernel = make_kernel(orders, sigma, extension, grid, projection, gain)
    if selection is None:
        checks.maps("x", x, 2)
        selection = select_pivot(x, pivot, ties)
    y = sample(x, selection, stride, ndim=2, output_size=output_size, kernel=kernel, anchor=anchor)
    return (y, selection) if return_selection else y


def sample(
    x: Tensor,
    selection: Tensor,
    stride: int | Sequence[int] = 2,
    *,
    ndim: int = 2,
    output_size: int | Sequence[int] | None = None,
    kernel: Kernel = GHS,
    anchor: str = "center",
) -> Tensor:
    """Sample maps (B, C, d1..dn) that are aligned by the pivots `selection`: GHS without the search."""
    checks.maps("x", x, ndim)
    _check_selection(selection, x, ndim)
    checks.choice("anchor", anchor, ANCHORS)
    counts = _output_size(x.shape[2:], checks.per_axis("stride", stride, ndim), output_size)
    with autocast_off(x):
        return _sample(x, counts, kernel, anchor, selection)


def _sample(x: Tensor, counts: Sequence[int], kernel: Kernel, anchor: str, selection: Tensor) -> Tensor:
    origin = [size // 2 if anchor == "center" else 0 for size in x.shape[2:]]
    matrices = resampling_matrices(x, counts, kernel)
    if x.requires_grad and torch.is_grad_enabled() and is_eager(x):
        return _Sample.apply(x, selection, origin, matrices)  # type: ignore[no-untyped-call, no-any-return]
    return _forward(x, selection, origin, matrices)


def _forward(x: Tensor, selection: Tensor, origin: Sequence[int], matrices: Sequence[Tensor]) -> Tensor:
    # turn the map so that the pivot p lies at the anchor a: F^[a - p] (Eq. 19; there a = 0)
    aligned = take_from(x, selection, origin)  # (B, C, d1..dn)
    # one product per axis: Q^T A Q, with A of Eq. 20 and Q^T of Eq. 22 fused into R
    out = products(aligned.to(matrices[0].dtype), matrices)
    return mark_absent(out, selection).to(x.dtype)


def mark_absent(out: Tensor, selection: Tensor) -> Tensor:
    """Add 0, so that the sign of a zero leaves no trace of the shift, or NaN where a sample has no pivot."""
    if is_eager(out) and is_eager(selection) and (selection.numel() == 0 or int(selection.min()) >= 0):
        return out + 0.0
    absent = torch.where(selection[..., 0] < 0, torch.nan, 0.0).to(out.dtype)
    return out + absent.view(*absent.shape, *[1] * (out.dim() - absent.dim()))


def _adjoint(g: Tensor, selection: Tensor, origin: Sequence[int], matrices: Sequence[Tensor]) -> Tensor:
    """The transpose of `_forward` in x: from (B, C, N1..Nn) back to (B, C, d1..dn).

    In contiguous layout the map need not be turned back: each sample multiplies by R^T with its rows turned
    instead. The sums run over the outputs, whose order stays, so this is the same arithmetic.
    """
    work = g.to(matrices[0].dtype)
    if selection.dim() == 2 and _channels_last(g):
        turned_back = [-o for o in origin]
        return take_from(products(work, [m.mT for m in matrices]), -selection, turned_back).to(g.dtype)
    pivots = selection.reshape(-1, len(matrices))
    lead = pivots.shape[0]
    out = work.contiguous()
    after = 1
    for axis in reversed(range(len(matrices))):
        size = matrices[axis].shape[1]
        # row i of the turned R^T is row (i - p + a) of R^T
        i = torch.arange(origin[axis], origin[axis] + size, device=g.device) - pivots[:, axis, None]
        turned = matrices[axis].mT.index_select(0, i.remainder(size).flatten())
        turned = turned.view(lead, 1, size, matrices[axis].shape[0])  # (L, 1, M, N)
        if after == 1:
            out = out.reshape(lead, -1, turned.shape[3]) @ turned[:, 0].mT
        else:
            slabs = out.reshape(lead, -1, turned.shape[3], after)
            out = turned.expand(-1, slabs.shape[1], -1, -1) @ slabs
        after *= size
    return out.reshape(*g.shape[:2], *(m.shape[1] for m in matrices)).to(g.dtype)


class _Sample(torch.autograd.Function):
    """`_forward` with `_adjoint` as its backward pass; keeps nothing but the pivots."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, selection: Tensor, origin: Any, matrices: Any) -> Tensor:
        ctx.save_for_backward(selection)
        ctx.save_for_forward(selection)
        ctx.constants = origin, matrices
        return _forward(x, selection, origin, matrices)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (selection,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _Adjoint.apply(grads[0], selection, *ctx.constants), None, None, None  # type: ignore[no-untyped-call]
        return _adjoint(grads[0], selection, *ctx.constants), None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (selection,) = ctx.saved_tensors
        return _forward(tangents[0], selection, *ctx.constants)


class _Adjoint(torch.autograd.Function):
    """`_adjoint` with `_forward` as its backward pass, so that gradients of gradients exist."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, selection: Tensor, origin: Any, matrices: Any) -> Tensor:
        ctx.save_for_backward(selection)
        ctx.constants = origin, matrices
        return _adjoint(g, selection, origin, matrices)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (selection,) = ctx.saved_tensors
        return _Sample.apply(grads[0], selection, *ctx.constants), None, None, None  # type: ignore[no-untyped-call]


def _channels_last(x: Tensor) -> bool:
    return not x.is_contiguous() and x.movedim(1, -1).is_contiguous()


def products(x: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """Multiply each spatial axis of (B, C, d1..dn) by its matrix, in the memory layout the map already has."""
    channels_last = _channels_last(x)
    out = x.movedim(1, -1) if channels_last else x.contiguous()
    for axis, matrix in enumerate(matrices, start=1 if channels_last else 2):
        before, after = out.shape[:axis], out.shape[axis + 1 :]
        if len(after) == 0:
            out = (out.reshape(-1, out.shape[axis]) @ matrix.mT).view(*before, matrix.shape[0])
        else:
            slabs = out.reshape(math.prod(before), out.shape[axis], math.prod(after))
            out = torch.bmm(matrix.expand(slabs.shape[0], -1, -1), slabs).view(*before, matrix.shape[0], *after)
    return out.movedim(-1, 1) if channels_last else out


def resampling_matrices(x: Tensor, counts: Sequence[int], kernel: Kernel = GHS) -> list[Tensor]:
    """The matrix of each spatial axis of (B, C, d1..dn), in the accumulation dtype and on the device of `x`."""
    return [_matrix(m, n, kernel, x) for m, n in zip(x.shape[2:], counts)]


def _matrix(size: int, count: int, kernel: Kernel, like: Tensor) -> Tensor:
    """`sampling_matrix` in the accumulation dtype and on the device of `like`; built once and kept."""
    if torch.compiler.is_dynamo_compiling() or isinstance(size, torch.SymInt):
        orders, sigma = str(kernel.orders), str(kernel.sigma)
        matrix: Tensor = matrix_op(like.detach(), size, count, orders, sigma, *astuple(kernel)[2:])
        return matrix

    def make() -> Tensor:
        return expansion.cast(sampling_matrix(size, count, kernel), like)

    if torch.compiler.is_compiling() or type(like) not in (Tensor, torch.nn.Parameter):
        return make()  # a constant of the trace, which must not outlive it
    return _cache.get((size, count, kernel, wide(like.dtype), like.device), make)


@torch.library.custom_op("shiftproof::sampling_matrix", mutates_args=())
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
) -> Tensor:
    """`sampling_matrix` as an operator: what a traced graph calls where the size is known only at run time."""
    kernel = Kernel(_number(orders), _number(sigma), extension, grid, projection, gain)
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


def _output_size(
    sizes: Sequence[int], strides: Sequence[int], output_size: int | Sequence[int] | None
) -> tuple[int, ...]:
    """ceil(M / stride) on each axis, or `output_size`."""
    if output_size is None:
        return tuple((m + s - 1) // s for m, s in zip(sizes, strides))
    counts = checks.per_axis("output_size", output_size, len(sizes))
    for m, n in zip(sizes, counts):
        if n > m:
            raise ValueError(
                f"`output_size` (={tuple(counts)}) must be at most the input size {tuple(sizes)} on each axis."
            )
    return counts


def _check_selection(selection: Tensor, x: Tensor, ndim: int) -> None:
    if not isinstance(selection, Tensor) or selection.dtype != torch.int64:
        raise TypeError(f"`selection` must be an int64 tensor from `select`, not {checks.shown(selection)}.")
    shapes = [(x.shape[0], ndim), (x.shape[0], x.shape[1], ndim)]
    if tuple(selection.shape) not in shapes:
        raise ValueError(
            f"`selection` (shape {tuple(selection.shape)}) must have the shape {shapes[0]} for maps of shape "
            f"{tuple(x.shape)} (or {shapes[1]}, one per channel): take it from `select` on a map of the same batch."
        )
