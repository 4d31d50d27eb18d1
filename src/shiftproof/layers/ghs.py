"""Gaussian-Hermite Sampling as layers: `sampling.ghs2d` with its parameters kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from shiftproof import checks
from shiftproof.ghs import sampling
from shiftproof.ghs.matrix import GHS, GHS_PAPER, Kernel
from shiftproof.ghs.pivots import PIVOTS, TIES, Rule
from shiftproof.layers.base import Downsample, register_method

G = TypeVar("G", bound="GHSBase")


class GHSBase(Downsample):
    """Gaussian-Hermite Sampling for maps of one, two or three dimensions; see `sampling.ghs2d` for the parameters.

    * theorem 2: for every input and every circular shift the output is equal, bit for bit on equal shapes and
      memory layouts, ties included;
    * no parameters and no buffers: checkpoints are those of the network without it.

    Shape: (B, C, d1..dn) -> (B, C, ceil(d1/stride)..ceil(dn/stride)), or `output_size`.
    """

    dimensions: ClassVar[int]

    def __init__(
        self,
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
        return_selection: bool = False,
    ) -> None:
        super().__init__(stride, self.dimensions)
        self.output_size = None if output_size is None else checks.per_axis("output_size", output_size, self.ndim)
        self.kernel = Kernel(orders, sigma, extension, grid, projection, gain, taper)
        self.anchor = checks.choice("anchor", anchor, sampling.ANCHORS)
        self.pivot = pivot if callable(pivot) else checks.choice("pivot", pivot, PIVOTS)
        self.ties = checks.choice("ties", ties, TIES)
        self.return_selection = return_selection
        self.law = "exact-invariant" if ties == "exact" else "none"

    @classmethod
    def paper(cls: type[G], stride: int | Sequence[int] = 2, **options: Any) -> G:
        """The layer of the paper to the letter: pivot at the maximum, in the corner; K = N functions, scale rule, zero
        extension.
        """
        return cls(stride, **{**vars(GHS_PAPER), "anchor": "corner", "pivot": "max", **options})

    def select(self, x: Tensor, *companions: Tensor) -> Tensor:
        """The pivots of `x`; `companions` share them, and break the ties that `x` itself leaves open."""
        return sampling.select(
            x,
            *companions,
            pivot=self.pivot,
            ties=self.ties,
            ndim=self.ndim,
            stride=self.stride,
            output_size=self.output_size,
        )

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """The samples of `x`, and the pivots too if `return_selection` is set."""
        y, selection = sampling.run(
            x,
            self.stride,
            selection,
            pivot=self.pivot,
            ties=self.ties,
            ndim=self.ndim,
            output_size=self.output_size,
            kernel=self.kernel,
            anchor=self.anchor,
        )
        return (y, selection) if self.return_selection else y

    def options(self) -> dict[str, Any]:
        """What differs from the defaults."""
        mine = {**vars(self.kernel), "anchor": self.anchor, "pivot": self.pivot, "ties": self.ties}
        usual = {**dataclasses.asdict(GHS), "anchor": "center", "pivot": "phase", "ties": "exact"}
        shown = {k: v for k, v in mine.items() if v != usual[k]}
        if self.output_size is not None:
            shown = {"output_size": self.output_size, **shown}
        return shown | ({"return_selection": True} if self.return_selection else {})


class GHS1d(GHSBase):
    """`GHSBase` for signals (B, C, W)."""

    dimensions = 1


class GHS2d(GHSBase):
    """`GHSBase` for images (B, C, H, W).

    >>> GHS2d(stride=2)
    GHS2d(stride=2)
    """

    dimensions = 2


class GHS3d(GHSBase):
    """`GHSBase` for volumes (B, C, D, H, W)."""

    dimensions = 3


_BY_NDIM: dict[int, type[GHSBase]] = {1: GHS1d, 2: GHS2d, 3: GHS3d}


@register_method("ghs", options_of=GHSBase)
def ghs(channels: int, stride: int | Sequence[int], padding: str, ndim: int, **options: Any) -> GHSBase:
    """GHS as this package recommends it. It has no border to pad: `padding` is accepted and has no effect."""
    return _BY_NDIM[checks.dimensions(ndim)](stride, **options)


@register_method("ghs-paper", options_of=GHSBase)
def ghs_paper(channels: int, stride: int | Sequence[int], padding: str, ndim: int, **options: Any) -> GHSBase:
    """GHS to the letter of the paper. It has no border to pad: `padding` is accepted and has no effect."""
    return _BY_NDIM[checks.dimensions(ndim)].paper(stride, **options)
