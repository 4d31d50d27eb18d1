"""The way back from GHS: the transposed kernel, to the map that a selection was found on."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from shiftproof.ghs.kernel import GHS, Kernel
from shiftproof.ghs.sampler import Sampling


def upsample(
    y: Tensor,
    selection: Tensor,
    output_size: int | Sequence[int] | None = None,
    stride: int | Sequence[int] = 2,
    *,
    kernel: Kernel | str = GHS,
    grid: str = "anchored",
    anchor: str = "center",
) -> Tensor:
    r"""Return maps made from the output of GHS to the size and the place of its input.

    .. math:: \hat F = (U^\top G\, U)^{[p - a]}, \quad U = R \,/\, \mathbf{1}^\top R

    with R the matrix of the downsampling, whose columns are divided by their sums. A constant keeps its value.

    * `up(f(down(x)))` moves with x bit for bit for every circular shift, on equal shapes and memory layouts, for every
      f that moves with its input (`anchor="stay"`), or for any f at all (`"center"` and `"corner"`). A map that repeats
      itself comes back moved by the shift up to a period, like its pivot;
    * linear in `y`, and differentiable to any order;
    * maps without a pivot (`selection` -1: they contained NaN) are NaN.

    `selection`: what `select` of the downsampling returned, or the function with `return_selection=True`.
    `output_size`: the sizes of the map that was downsampled; those of `y` times `stride` if left out.
    `stride`, `kernel`, `grid`, `anchor`: those of the downsampling.

    Shape: (B, C, N1..Nn) -> (B, C, d1..dn), for N = ceil(d / stride).

    >>> import torch
    >>> from shiftproof.ghs.sampling import ghs2d
    >>> x = torch.rand(2, 3, 9, 8)
    >>> y, selection = ghs2d(x, return_selection=True)
    >>> upsample(y, selection, (9, 8)).shape
    torch.Size([2, 3, 9, 8])
    """
    sampling = Sampling.of(y.dim() - 2, stride, None, kernel, grid, anchor, "phase", "exact")
    return sampling.back(y, selection, output_size)
