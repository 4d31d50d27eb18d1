"""Align: roll the input to its pivot once and leave the network as it is; the rival GHS has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from shiftproof import checks
from shiftproof.ghs.sampler import find_pivot
from shiftproof.layers.base import Downsample
from shiftproof.layers.front import ANCHORS, RollToPivot, roll_to_pivot
from shiftproof.layers.registry import create_downsample, register_method


@register_method("align")
class Align(Downsample):
    """Roll the maps to their pivot, then downsample them by another method, `inner`, whose options follow.

    A network that is built with it rolls its input once and is otherwise the network of `inner` (see `split`).

    * for every input and every circular shift the output is equal, bit for bit on equal shapes and memory layouts,
      ties included, whatever `inner` and `padding` are (in training, where some draw: for the same random numbers).

    >>> Align(3, inner="lpf", taps=5)
    Align(
      stride=2, anchor='center'
      (inner): BlurPool(stride=2, padding='circular', taps=5)
    )
    """

    law = "exact-invariant"

    def __init__(
        self,
        channels: int,
        stride: int | Sequence[int] = 2,
        padding: str = "circular",
        ndim: int = 2,
        inner: str = "strided",
        anchor: str = "center",
        **options: Any,
    ) -> None:
        super().__init__(stride, ndim)
        self.inner = create_downsample(inner, channels, stride, padding, ndim, **options)
        self.anchor = checks.choice("anchor", anchor, ANCHORS)

    def split(self) -> tuple[nn.Module, Downsample]:
        """Align the input of the network, then use `inner` throughout."""
        return RollToPivot("max", self.anchor, ndim=self.ndim), self.inner

    def progress(self, done: float) -> None:
        """Handed on to `inner`."""
        self.inner.progress(done)

    def select(self, x: Tensor, *companions: Tensor) -> Tensor:
        """The pivots of `x`; `companions` share them, and break the ties that `x` itself leaves open."""
        return find_pivot(x, *companions, ndim=self.ndim)

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """The aligned maps, downsampled."""
        if selection is None:
            selection = self.select(x)
        y: Tensor = self.inner(roll_to_pivot(x, selection, self.anchor, self.ndim))
        return y

    def options(self) -> dict[str, Any]:
        """Where the pivot goes."""
        return {"anchor": self.anchor}
