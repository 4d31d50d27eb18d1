"""Gaussian-Hermite Sampling (GHS) as pure functions (paper, section 3.3).

Find the pivot of each map, turn the map so that the pivot comes to the anchor, multiply each axis by one fixed
matrix. The arithmetic after the turn is the same for every shift, so equal maps give equal bits.

Letters: B batch, C channels, d1..dn sizes, M input and N output size of one axis, K number of functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.ghs import moments
from shiftproof.ghs.backend.resample import find_and_resample, mark_absent, resample
from shiftproof.ghs.matrix import GHS, Kernel, matrices_for
from shiftproof.ghs.pivots import NATIVE, TIES, Rule, phases, select_pivot
from shiftproof.maps.shifts import circular_shift
from shiftproof.tensors import is_eager

ANCHORS = ("corner", "center")


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
    return moments.moments(aligned, orders, sigma, ndim)


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


@overload
def ghs2d(
    x: Tensor, stride: int | Sequence[int] = ..., *, return_selection: Literal[False] = ..., **options: Any
) -> Tensor: ...
@overload
def ghs2d(
    x: Tensor, stride: int | Sequence[int] = ..., *, return_selection: Literal[True], **options: Any
) -> tuple[Tensor, Tensor]: ...
def ghs2d(  # type: ignore[misc]
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
    taper: str = GHS.taper,
    anchor: str = "center",
    pivot: str | Rule = "phase",
    ties: str = "exact",
    companions: Sequence[Tensor] = (),
    selection: Tensor | None = None,
    return_selection: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Gaussian-Hermite Sampling: downsample maps so that a circular shift of the input changes nothing (Eq. 22).

    .. math:: \hat F^* = Q_N^\top A^*_{\max}(F) Q_N = R\, F^{[a - p]} R^\top

    with p the pivot (the maximum, in the best phase), a the anchor it is moved to, R the fixed matrix of
    `sampling_matrix`.

    * theorem 2: for every input and every circular shift the output is equal, bit for bit on equal shapes and
      memory layouts, ties included (`ties="exact"`);
    * linear in the values where the pivot stays, and differentiable to any order;
    * float16 and bfloat16 are multiplied in float32 and rounded once, autocast or not: against float64 the error is at
      most u + 2^-20 times max \|x\| times the largest row sum of \|R\| on each axis, with u = 2^-8 for bfloat16, 2^-11
      for float16, and 0 for float32, where no sample depends on more than 512 pixels of an axis;
    * a sample that contains NaN has no pivot, and all its outputs are NaN (with `pivot="per-channel"` all those of
      the channel); other samples do not notice. An infinity makes the outputs that it reaches infinite or NaN.

    `orders`, `sigma`, `extension`, `grid`, `projection`, `gain` and `taper` make the matrix: see `Kernel`. `anchor` is
    `"center"` or `"corner"` (the paper). `pivot` and `ties` are those of `select_pivot`. `output_size` takes the
    place of `stride`. The paper's layer is `**vars(GHS_PAPER), anchor="corner", pivot="max"`.

    Branches that meet again must share one pivot: `return_selection` hands it out, and as `selection` it replaces
    the search on the other branch. Name that branch among the `companions` when the pivot is found, so that it can
    break the ties which `x` itself leaves open; otherwise the law does not hold for it where `x` has ties.

    Shape: (B, C, H, W) -> (B, C, ceil(H/stride), ceil(W/stride)), or `output_size`.

    >>> x = torch.rand(2, 3, 7, 10)
    >>> y = ghs2d(x)
    >>> y.shape
    torch.Size([2, 3, 4, 5])
    >>> bool((ghs2d(x.roll((3, 8), (2, 3))) == y).all())
    True
    """
    kernel = Kernel(orders, sigma, extension, grid, projection, gain, taper)
    rest: dict[str, Any] = {"ndim": 2, "output_size": output_size, "kernel": kernel, "anchor": anchor}
    y, selection = run(x, stride, selection, *companions, pivot=pivot, ties=ties, **rest)
    return (y, selection) if return_selection else y


def run(
    x: Tensor,
    stride: int | Sequence[int],
    selection: Tensor | None,
    *companions: Tensor,
    pivot: str | Rule,
    ties: str,
    ndim: int,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """`sample` at the pivots `selection`, or else at those of `select`, and the pivots.

    Finding and sampling take one pass over the maps where that is possible.
    """
    if selection is not None:
        checks.maps("x", x, ndim)
        check_range(selection, x)
    elif pivot in NATIVE and ties in TIES and not companions and is_eager(x):
        origin, matrices = _plan(x, stride, ndim, **options)
        counts = [matrix.shape[0] for matrix in matrices]
        done = find_and_resample(x, origin, matrices, phases(pivot, x.shape[2:], counts))
        if done is not None:
            return done
    if selection is None:
        size = options.get("output_size")
        selection = select(x, *companions, pivot=pivot, ties=ties, ndim=ndim, stride=stride, output_size=size)
    return sample(x, selection, stride, ndim=ndim, **options), selection


def select(
    x: Tensor,
    *companions: Tensor,
    pivot: str | Rule = "max",
    ties: str = "exact",
    ndim: int = 2,
    stride: int | Sequence[int] = 2,
    output_size: int | Sequence[int] | None = None,
) -> Tensor:
    """`select_pivot` on maps (B, C, d1..dn), with its arguments checked."""
    for i, t in enumerate((x, *companions)):
        checks.maps("x" if i == 0 else f"companions[{i - 1}]", t, ndim)
        if t.shape[:1] + t.shape[2:] != x.shape[:1] + x.shape[2:]:
            raise ValueError(
                f"`companions[{i - 1}]` (shape {tuple(t.shape)}) must have the batch and the sizes of `x` "
                f"(shape {tuple(x.shape)})."
            )
    if not torch.compiler.is_compiling() and torch._C._is_tracing():
        raise RuntimeError(
            "GHS cannot go through `torch.jit.trace`, which keeps one side of every branch: use `torch.export`."
        )
    counts = _output_size(x.shape[2:], checks.per_axis("stride", stride, ndim), output_size)
    return select_pivot(x, pivot, ties, companions, counts)


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
    origin, matrices = _plan(x, stride, ndim, output_size, kernel, anchor)
    _check_selection(selection, x, ndim)
    return resample(x, selection, origin, matrices)


def _plan(
    x: Tensor,
    stride: int | Sequence[int],
    ndim: int,
    output_size: int | Sequence[int] | None,
    kernel: Kernel,
    anchor: str,
) -> tuple[list[int], list[Tensor]]:
    """Where the pivots of `x` are moved to, and the matrix of each axis."""
    checks.maps("x", x, ndim)
    checks.choice("anchor", anchor, ANCHORS)
    counts = _output_size(x.shape[2:], checks.per_axis("stride", stride, ndim), output_size)
    origin = [size // 2 if anchor == "center" else 0 for size in x.shape[2:]]
    return origin, matrices_for(x, counts, kernel)


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


def check_range(selection: Tensor, x: Tensor) -> None:
    """Refuse pivots that lie outside of `x`: they were found on a map of another size."""
    _check_selection(selection, x, x.dim() - 2)
    if is_eager(selection) and selection.numel():
        for axis, size in enumerate(x.shape[2:]):
            top = int(selection[..., axis].max())
            if top >= size:
                raise ValueError(
                    f"`selection` (up to {top} on axis {axis}) must lie inside the map (size {size} there): "
                    f"take it from `select` on a map of the same size."
                )


def _check_selection(selection: Tensor, x: Tensor, ndim: int) -> None:
    if not isinstance(selection, Tensor) or selection.dtype != torch.int64:
        raise TypeError(f"`selection` must be an int64 tensor from `select`, not {checks.shown(selection)}.")
    if selection.device != x.device:
        raise ValueError(f"`selection` (on {selection.device}) must be on the device of the maps ({x.device}).")
    shapes = [(x.shape[0], ndim), (x.shape[0], x.shape[1], ndim)]
    if tuple(selection.shape) not in shapes:
        raise ValueError(
            f"`selection` (shape {tuple(selection.shape)}) must have the shape {shapes[0]} for maps of shape "
            f"{tuple(x.shape)} (or {shapes[1]}, one per channel): take it from `select` on a map of the same batch."
        )
