"""Align: roll the input to its pivot once and leave the network as it is; the rival GHS has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from shiftproof import checks
from shiftproof.ghs.backend.torch_backend import mark_absent
from shiftproof.ghs.sampling import ANCHORS, check_selection, find_pivot
from shiftproof.layers.base import Downsample
from shiftproof.layers.registry import create_downsample, register_method
from shiftproof.maps.gather import take_from


def roll_to_pivot(x: Tensor, pivot: Tensor, anchor: str = "center", ndim: int = 2) -> Tensor:
    """Wrap-shift each sample so that its pivot (B, ndim) comes to the anchor; all NaN where there is none.

    * with the pivot of `find_pivot`: equal bits for every circular shift of `x`, ties included.

    Shape: (B, C, d1..dn) -> the same.
    """
    checks.maps("x", x, ndim)
    checks.choice("anchor", anchor, ANCHORS)
    check_selection(pivot, x)
    origin = [size // 2 if anchor == "center" else 0 for size in x.shape[2:]]
    return mark_absent(take_from(x, pivot, origin), pivot)


class RollToPivot(nn.Module):
    """`roll_to_pivot` as a layer that finds the pivot by itself."""

    def __init__(self, anchor: str = "center", ndim: int = 2) -> None:
        super().__init__()
        self.anchor = checks.choice("anchor", anchor, ANCHORS)
        self.ndim = checks.dimensions(ndim)

    def forward(self, x: Tensor) -> Tensor:
        """The aligned maps."""
        return roll_to_pivot(x, find_pivot(x, ndim=self.ndim), self.anchor, self.ndim)

    def extra_repr(self) -> str:
        """The anchor."""
        return f"anchor={self.anchor!r}"


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
        return RollToPivot(self.anchor, self.ndim), self.inner

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
