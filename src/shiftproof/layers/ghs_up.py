"""The way back from GHS as layers: `upsample` with its arguments kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from shiftproof.ghs.kernel import GHS, Kernel
from shiftproof.ghs.sampler import Sampling


class GHSUpBase(nn.Module):
    """Return maps to the size and the place of the map that a selection was found on; called like `nn.MaxUnpool2d`.

    * `up(f(down(x)))` moves with x bit for bit for every circular shift: see `upsample`;
    * a constant keeps its value; no parameters and no buffers.

    Shape: (B, C, N1..Nn) -> (B, C, d1..dn), for N = ceil(d / stride).
    """

    dimensions: ClassVar[int]

    def __init__(
        self,
        stride: int | Sequence[int] = 2,
        *,
        kernel: Kernel | str = GHS,
        grid: str = "anchored",
        anchor: str = "center",
    ) -> None:
        """What the layer does, whatever the maps: the arguments of the downsampling that it goes back from.

        `stride`: the distance between samples in pixels, one number or one for each axis.
        `kernel`: what the matrices are made of, `Hermite(...)`, `Local(...)` or the text of one.
        `grid`: where samples lie, `"anchored"`, `"periodic"` or `"inclusive"` (the paper).
        `anchor`: where the pivot was moved to, `"center"` or `"corner"` (the paper), or `"stay"`.
        """
        super().__init__()
        self.sampling = Sampling.of(self.dimensions, stride, None, kernel, grid, anchor, "phase", "exact")

    def forward(self, y: Tensor, selection: Tensor, output_size: int | Sequence[int] | None = None) -> Tensor:
        """`y` at `output_size`, or at its own sizes times the stride."""
        return self.sampling.back(y, selection, output_size)

    def extra_repr(self) -> str:
        """The arguments."""
        s = self.sampling
        return f"stride={s.stride}, kernel={str(s.kernel)!r}, grid={s.grid!r}, anchor={s.anchor!r}"


class GHSUp1d(GHSUpBase):
    """The way back from `GHS1d`: (B, C, N) -> (B, C, W)."""

    dimensions = 1


class GHSUp2d(GHSUpBase):
    """The way back from `GHS2d`: (B, C, N1, N2) -> (B, C, H, W).

    >>> import torch
    >>> from shiftproof.layers import GHS2d
    >>> x = torch.rand(2, 3, 9, 8)
    >>> y, selection = GHS2d(2, anchor="stay", return_selection=True)(x)
    >>> GHSUp2d(2, anchor="stay")(y.relu(), selection, (9, 8)).shape
    torch.Size([2, 3, 9, 8])
    """

    dimensions = 2


class GHSUp3d(GHSUpBase):
    """The way back from `GHS3d`: (B, C, N1, N2, N3) -> (B, C, D, H, W)."""

    dimensions = 3
