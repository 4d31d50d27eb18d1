"""Gaussian-Hermite Sampling as layers: `ghs2d` with its arguments kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from shiftproof import checks
from shiftproof.ghs.frame import Frame
from shiftproof.ghs.kernel import GHS, GHS_PAPER, Kernel, Local, parse_kernel
from shiftproof.ghs.pivots import Rule
from shiftproof.ghs.sampler import Sampling
from shiftproof.layers.base import Downsample
from shiftproof.layers.registry import register_method

G = TypeVar("G", bound="GHSBase")
_OPTIONS = ("output_size", "kernel", "grid", "anchor", "pivot_rule", "ties", "padding")
# the layer of the paper to the letter: the pivot at the maximum, in the corner; K = N functions, Eq. 24, zero extension
PAPER: dict[str, Any] = {"kernel": GHS_PAPER, "grid": "inclusive", "anchor": "corner", "pivot_rule": "max"}


class GHSBase(Downsample):
    """Gaussian-Hermite Sampling for maps of one, two or three dimensions.

    * theorem 2: for every input and every circular shift the output is equal, bit for bit on equal shapes and
      memory layouts, ties included; with `anchor="stay"` it is equal up to a roll of itself;
    * no parameters and no buffers: checkpoints are those of the network without it.

    Shape: (B, C, d1..dn) -> (B, C, ceil(d1/stride)..ceil(dn/stride)), or `output_size`.
    """

    dimensions: ClassVar[int]

    def __init__(
        self,
        stride: int | Sequence[int] = 2,
        *,
        output_size: int | Sequence[int] | None = None,
        kernel: Kernel | str = GHS,
        grid: str = "anchored",
        anchor: str = "center",
        pivot_rule: str | Rule = "phase",
        ties: str = "exact",
        padding: str = "circular",
        return_selection: bool = False,
    ) -> None:
        """What the layer does, whatever the maps.

        `stride`: the distance between output samples in pixels, one number or one for each axis.
        `output_size`: the sizes of the output, instead of `stride`.
        `kernel`: what the matrices are made of, `Hermite(...)`, `Local(...)` or the text of one.
        `grid`: where output samples lie, `"anchored"`, `"periodic"` or `"inclusive"` (the paper).
        `anchor`: where the pivot is moved to, `"center"` or `"corner"` (the paper); or the map is to `"stay"`.
        `pivot_rule`: how the pivot is found, `"phase"`, `"max"` (the paper), `"energy"` or a function of the maps.
        `ties`: what decides between equal scores, `"exact"`, `"window"` or `"first"`.
        `padding`: what is beyond the border, `"circular"`, or `"zeros"`, `"reflect"` or `"replicate"` with `Local(...)`
        and `anchor="stay"`; then nothing is guaranteed under circular shifts.
        `return_selection`: also return the pivots, so that other branches can use them.

        See `ghs2d` for details.
        """
        super().__init__(stride, self.dimensions)
        self.sampling = Sampling.of(self.ndim, stride, output_size, kernel, grid, anchor, pivot_rule, ties, padding)
        self.output_size, self.kernel = self.sampling.output_size, self.sampling.kernel
        self.grid, self.anchor, self.pivot_rule, self.ties, self.padding = grid, anchor, pivot_rule, ties, padding
        self.return_selection = return_selection
        exact = "exact-equivariant" if anchor == "stay" else "exact-invariant"
        self.law = exact if ties == "exact" and padding == "circular" else "none"

    @classmethod
    def paper(cls: type[G], stride: int | Sequence[int] = 2, **options: Any) -> G:
        """The layer of the paper to the letter; `options` change it."""
        return cls(stride, **PAPER | options)

    def staying(self: G) -> G:
        """The same layer with `anchor="stay"`; layers that move the pivot to a corner, or have ends, are left alone."""
        if self.anchor != "center" or self.grid == "inclusive":
            return self
        options = {k: getattr(self.sampling, k) for k in _OPTIONS} | {"anchor": "stay"}
        return type(self)(self.stride, return_selection=self.return_selection, **options)

    def select(self, x: Tensor, *companions: Tensor) -> Tensor:
        """The pivots of `x`; `companions` share them, and break the ties that `x` itself leaves open."""
        return self.sampling.select(x, *companions)

    def frame(self, selection: Tensor, sizes: Sequence[int]) -> Frame:
        """Where the samples lie in maps of the given sizes with the pivots `selection`."""
        return self.sampling.frame(selection, sizes)

    def start(self, selection: Tensor, sizes: Sequence[int]) -> Tensor:
        """The pivot's phase on maps that stay and that the stride divides; else the pivot comes to the anchor."""
        return self.sampling.start(selection, sizes)

    def smooth(self, x: Tensor) -> Tensor:
        """The kernel at every pixel."""
        return self.sampling.smooth(x)

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """The samples of `x`, and the pivots too if `return_selection` is set."""
        y, selection = self.sampling(x, selection)
        return (y, selection) if self.return_selection else y

    def options(self) -> dict[str, Any]:
        """What differs from the defaults."""
        usual = Sampling.of(self.ndim, 2, None, GHS, "anchored", "center", "phase", "exact")
        shown = {k: v for k in _OPTIONS if (v := getattr(self.sampling, k)) != getattr(usual, k)}
        return shown | ({"return_selection": True} if self.return_selection else {})


class GHS1d(GHSBase):
    """Gaussian-Hermite Sampling of signals (B, C, W), with equal bits for every circular shift."""

    dimensions = 1


class GHS2d(GHSBase):
    """Gaussian-Hermite Sampling of images (B, C, H, W), with equal bits for every circular shift.

    `__init__` explains the arguments, `GHSBase` the guarantees.

    >>> GHS2d(stride=2)
    GHS2d(stride=2)
    """

    dimensions = 2


class GHS3d(GHSBase):
    """Gaussian-Hermite Sampling of volumes (B, C, D, H, W), with equal bits for every circular shift."""

    dimensions = 3


_BY_NDIM: dict[int, type[GHSBase]] = {1: GHS1d, 2: GHS2d, 3: GHS3d}


@register_method("ghs", options_of=GHSBase)
def ghs(channels: int, stride: int | Sequence[int], padding: str, ndim: int, **options: Any) -> GHSBase:
    """GHS as this package recommends it. Beside a border its local form is used, on maps that stay in place."""
    kernel = parse_kernel(options.get("kernel", GHS))
    kernel = Local(0) if kernel == GHS else kernel
    whole = options.get("output_size") is None and options.get("grid") != "inclusive"  # steps of whole pixels
    if padding != "circular" and isinstance(kernel, Local) and whole:
        options |= {"padding": padding, "kernel": kernel, "anchor": "stay"}
    return _BY_NDIM[checks.dimensions(ndim)](stride, **options)


@register_method("ghs-paper", options_of=GHSBase, defaults=PAPER)
def ghs_paper(channels: int, stride: int | Sequence[int], padding: str, ndim: int, **options: Any) -> GHSBase:
    """GHS to the letter of the paper. It has no border to pad: `padding` is accepted and has no effect."""
    return _BY_NDIM[checks.dimensions(ndim)].paper(stride, **options)
