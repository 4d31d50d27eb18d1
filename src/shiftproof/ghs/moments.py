r"""Discrete Gaussian-Hermite moments and reconstruction, in any dimension (paper, section 3.2).

Letters: d1..dn sizes of the map, K1..Kn numbers of functions per axis, Q the (K, M) matrix of functions on a
grid. The paper's matrix form A = step^2 Q F Q^T (Eq. 12) is one matrix product per axis (Eqs. 8 and 10), so it
is written that way, for any n >= 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.cache import TensorCache
from shiftproof.ghs import basis, grids
from shiftproof.ghs.functions import gauss_hermite
from shiftproof.tensors import autocast_off, wide

_cache = TensorCache()


def moments(
    f: Tensor,
    orders: int | Sequence[int] | None = None,
    sigma: float | None = None,
    ndim: int = 2,
    projection: str = "quadrature",
) -> Tensor:
    r"""Gaussian-Hermite moments of the last `ndim` axes of `f` (Eqs. 7-10 and 12).

    .. math:: A_{p_1 \dots p_n} = \sum_{i_1 \dots i_n} f(i_1, \dots, i_n) \prod_k h_{p_k}(x_{i_k}) \Delta x_k

    * linear and differentiable in `f`; float16 and bfloat16 are multiplied in float32 and rounded once;
    * `projection="quadrature"` is the paper's Riemann sum; `"least-squares"` takes the coefficients that fit `f`
      best, so that `reconstruct` returns any map spanned by the functions unchanged. It needs at most as many
      functions as pixels and refuses a projection whose `condition_number` is hopeless.

    `orders` is the number of functions per axis (default: the size of the axis), `sigma` their scale (default:
    `0.9 K^-0.52`, Eq. 24).

    Shape: (..., d1..dn) -> (..., K1..Kn).

    >>> moments(torch.ones(5, 8, 6), orders=4).shape
    torch.Size([5, 4, 4])
    """
    checks.floating("f", f)
    checks.choice("projection", projection, basis.PROJECTIONS)
    sizes = _axes("f", f, ndim)
    counts = sizes if orders is None else checks.per_axis("orders", orders, ndim)
    return along_axes(f, [_projector(m, k, sigma, projection, f) for m, k in zip(sizes, counts)])


def reconstruct(a: Tensor, size: int | Sequence[int], sigma: float | None = None, ndim: int = 2) -> Tensor:
    r"""The map with moments `a`, on a grid of any `size` (Eqs. 11 and 13).

    .. math:: \hat f(i_1, \dots, i_n) = \sum_{p_1 \dots p_n} A_{p_1 \dots p_n} \prod_k h_{p_k}(x_{i_k})

    A `size` below that of the original map is the paper's downsampling. `sigma` must be the one the moments
    were taken with (default: `0.9 K^-0.52`, Eq. 24).

    Shape: (..., K1..Kn) -> (..., N1..Nn).

    >>> reconstruct(moments(torch.ones(32, 32), orders=16), size=16).shape
    torch.Size([16, 16])
    """
    checks.floating("a", a)
    counts = _axes("a", a, ndim)
    sizes = checks.per_axis("size", size, ndim)
    return along_axes(a, [_functions(n, k, sigma, a).mT for n, k in zip(sizes, counts)])


def condition_number(size: int, orders: int, sigma: float | None = None) -> float:
    """Condition number of `orders` functions sampled on `size` pixels: the factor by which a least-squares
    projection may magnify noise.

    >>> round(condition_number(32, 32), 1)
    9.4
    """
    size, orders = checks.integer("size", size), checks.integer("orders", orders)
    scale = grids.scale_rule(orders) if sigma is None else checks.positive("sigma", sigma)
    return float(np.linalg.cond(basis.functions(orders, grids.pixels(size), scale).T))


def centroid_moments(
    f: Tensor, orders: int | Sequence[int] | None = None, sigma: float | None = None, ndim: int = 2
) -> Tensor:
    r"""Moments about the centroid of `f`: the translation normalisation of the related work (paper, section 2.2).

    The origin is moved to the centre of mass m_{10}/m_{00}, m_{01}/m_{00} of each map. That undoes a translation
    as long as the object stays clear of the border; where it wraps around or is cut off, the centroid moves by
    something else than the shift, and the moments change. `max_centered_moments` has no such border. Maps
    without mass keep the origin in the middle.

    Shape: (..., d1..dn) -> (..., K1..Kn).
    """
    checks.floating("f", f)
    sizes = _axes("f", f, ndim)
    counts = sizes if orders is None else checks.per_axis("orders", orders, ndim)
    lead = f.shape[: f.dim() - ndim]
    work = f.reshape(-1, *sizes).to(wide(f.dtype))
    mass = work.flatten(1).sum(1)
    mass = torch.where(mass == 0, torch.ones_like(mass), mass)
    out = work
    for axis, (m, k) in enumerate(zip(sizes, counts), start=1):
        x = torch.from_numpy(grids.pixels(m)).to(work)
        others = [d for d in range(1, ndim + 1) if d != axis]
        marginal = work.sum(others) if others else work  # (B, m)
        centroid = (marginal * x).sum(1) / mass  # (B,)
        scale = grids.scale_rule(k) if sigma is None else checks.positive("sigma", sigma)
        q = gauss_hermite(k, x - centroid[:, None], scale) * grids.step(m)  # (k, B, m)
        with autocast_off(f):
            out = torch.einsum("kbm,b...m->b...k", q, out.movedim(axis, -1)).movedim(-1, axis)
    return out.reshape(*lead, *counts).to(f.dtype)


def along_axes(x: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """Multiply the last axes of `x` by one matrix each: (..., d1..dn) -> (..., r1..rn) for matrices (rk, dk).

    Accumulated in at least float32 and rounded once to the dtype of `x`.
    """
    first = x.dim() - len(matrices)
    out = x.to(matrices[0].dtype)
    with autocast_off(x):
        for axis, matrix in enumerate(matrices, first):
            out = torch.movedim(out, axis, -1) @ matrix.mT
            out = torch.movedim(out, -1, axis)
    return out.to(x.dtype)


def _projector(size: int, orders: int, sigma: float | None, projection: str, like: Tensor) -> Tensor:
    """The (K, M) matrix that takes one axis of a map to its moments, in the accumulation dtype of `like`."""
    scale = grids.scale_rule(orders) if sigma is None else checks.positive("sigma", sigma)

    def make() -> Tensor:
        q = basis.functions(orders, grids.pixels(size), scale)
        return torch.from_numpy(grids.step(size) * q if projection == "quadrature" else basis.least_squares(q))

    return _cache.get_like(("project", size, orders, scale, projection), like, make)


def _functions(size: int, orders: int, sigma: float | None, like: Tensor) -> Tensor:
    """The (K, N) matrix of functions on `size` pixels, in the accumulation dtype of `like`."""
    scale = grids.scale_rule(orders) if sigma is None else checks.positive("sigma", sigma)
    key = ("functions", size, orders, scale)
    return _cache.get_like(key, like, lambda: torch.from_numpy(basis.functions(orders, grids.pixels(size), scale)))


def _axes(name: str, x: Tensor, ndim: int) -> tuple[int, ...]:
    """The sizes of the last `ndim` axes of `x`."""
    ndim = checks.integer("ndim", ndim)
    if x.dim() < ndim:
        raise ValueError(f"`{name}` (shape {tuple(x.shape)}) must have at least `ndim` (={ndim}) dimensions.")
    sizes = tuple(x.shape[x.dim() - ndim :])
    if 0 in sizes:
        raise ValueError(f"`{name}` (shape {tuple(x.shape)}) must not have a zero-sized axis among its last {ndim}.")
    return sizes
