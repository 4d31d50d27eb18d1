"""Gaussian-Hermite Sampling (GHS) as pure functions (paper, section 3.3).

Find the pivot of each map, roll the map so that the pivot comes to the anchor, multiply each axis by one fixed
matrix. The arithmetic after the roll is the same for every shift, so equal maps give equal bits.

Letters: B batch, C channels, d1..dn sizes, N output size of one axis, K number of functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

from torch import Tensor

from shiftproof.ghs.backend.torch_backend import mark_absent
from shiftproof.ghs.kernel import GHS, Kernel
from shiftproof.ghs.moments import moments
from shiftproof.ghs.pivots import Rule
from shiftproof.ghs.sampler import Sampling, find_pivot
from shiftproof.maps.shifts import circular_shift


def pivot_moments(
    f: Tensor, pivot: Tensor, orders: int | Sequence[int] | None = None, sigma: float | None = None, ndim: int = 2
) -> Tensor:
    r"""A*_{c,r}, the moments of `f` for a pivot position (Eq. 19).

    .. math:: A^*_{c,r}(F) = \frac{4}{(M-1)^2}\, Q^{[r,0]} F\, Q^{\top[0,c]}

    The map is rolled instead of the functions, which is the same sum (property 1) in an order that does not
    depend on the pivot. `pivot` is (\*lead, ndim) in (row, column) order, with the leading axes of `f`.

    Shape: (\*lead, ..., d1..dn) -> (\*lead, ..., K1..Kn).
    """
    aligned = circular_shift(f, -pivot, dims=range(-ndim, 0))
    return moments(aligned, orders, sigma, ndim)


def max_centered_moments(
    x: Tensor, orders: int | Sequence[int] | None = None, sigma: float | None = None, ndim: int = 2
) -> Tensor:
    """A*_max, the moments of each sample for the pivot at its maximum (Eq. 20); `reconstruct` inverts it (Eq. 22).

    * theorem 1: invariant under every circular shift, bit for bit.

    A sample that contains NaN has no maximum, and all its moments are NaN.

    Shape: (B, C, d1..dn) -> (B, C, K1..Kn).
    """
    pivot = find_pivot(x, ndim=ndim)
    return mark_absent(pivot_moments(x, pivot, orders, sigma, ndim), pivot)


@overload
def ghs2d(
    x: Tensor, stride: int | Sequence[int] = ..., *, return_selection: Literal[False] = ..., **options: object
) -> Tensor: ...
@overload
def ghs2d(
    x: Tensor, stride: int | Sequence[int] = ..., *, return_selection: Literal[True], **options: object
) -> tuple[Tensor, Tensor]: ...
def ghs2d(  # type: ignore[misc]
    x: Tensor,
    stride: int | Sequence[int] = 2,
    *,
    output_size: int | Sequence[int] | None = None,
    kernel: Kernel | str = GHS,
    grid: str = "anchored",
    anchor: str = "center",
    pivot_rule: str | Rule = "phase",
    ties: str = "exact",
    selection: Tensor | None = None,
    return_selection: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Gaussian-Hermite Sampling: downsample maps so that a circular shift of the input changes nothing (Eq. 22).

    .. math:: \hat F^* = Q_N^\top A^*_{\max}(F) Q_N = R\, F^{[a - p]} R^\top

    with p the pivot, a the anchor it is moved to, R the fixed matrix of `sampling_matrix`.

    * theorem 2: for every input and every circular shift the output is equal, bit for bit on equal shapes and
      memory layouts, ties included (`ties="exact"`);
    * with `anchor="stay"` the output is equal up to a roll of itself, likewise, and `selection` tells which (`Frame`);
    * linear as long as the pivot does not change, and differentiable to any order;
    * float16 and bfloat16 are multiplied in float32 and rounded once, autocast or not: against float64 the error is at
      most u + 2^-20 times max \|x\| times the largest row sum of \|R\| on each axis, with u = 2^-8 for bfloat16, 2^-11
      for float16, and 0 for float32, where no sample depends on more than 512 pixels of an axis;
    * a sample that contains NaN has no pivot, and all its outputs are NaN; other samples are not affected. An infinity
      makes the outputs that it reaches infinite or NaN.

    `stride`: the distance between output samples in pixels, one number or one for each axis.
    `output_size`: the sizes of the output, instead of `stride`.
    `kernel`: what the matrix R is made of, `Hermite(...)`, `Local(...)` or the text of one.
    `grid`: output samples `"inclusive"` of both ends (the paper); `"periodic"`, equally spaced around the wrapped axis
    and centred on the map; or `"anchored"`, equally spaced with one on the pixel to which the pivot is moved.
    `anchor`: the pivot is moved to the `"center"` of the map or to its `"corner"` (the paper); or the map is to
    `"stay"`: samples lie where the pivot puts them, and the first is the one less than a step from the first pixel.
    `pivot_rule`: the score whose largest value is the pivot, `"max"` (the paper), `"phase"`, `"energy"` or a function:
    see `select_pivot`.
    `ties`: what decides between equal scores, `"exact"`, `"window"` or `"first"`: see `select_pivot`.
    `selection`: the pivots of another branch, instead of a search.
    `return_selection`: also return the pivots, so that another branch can use them.

    Branches that meet again must share one pivot. Where `x` has ties, find it with `GHS2d.select(x, other)`, so that
    the other branch can break them. The paper's layer is `GHS2d.paper()`.

    Shape: (B, C, H, W) -> (B, C, ceil(H/stride), ceil(W/stride)), or `output_size`.

    >>> import torch
    >>> x = torch.rand(2, 3, 7, 10)
    >>> y = ghs2d(x)
    >>> y.shape
    torch.Size([2, 3, 4, 5])
    >>> bool((ghs2d(x.roll((3, 8), (2, 3))) == y).all())
    True
    """
    sampling = Sampling.of(2, stride, output_size, kernel, grid, anchor, pivot_rule, ties)
    y, selection = sampling(x, selection)
    return (y, selection) if return_selection else y
