"""The protocol every downsampling method follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from shiftproof import checks
from shiftproof.maps.padding import BORDERS

LAWS = ("exact-invariant", "exact-equivariant", "equivariant", "none")


class Downsample(nn.Module):
    """A layer that downsamples maps: (B, C, d1..dn) -> (B, C, ceil(d1/s1)..ceil(dn/sn)).

    `select(x)` takes the data-dependent decision of the method (a pivot, a polyphase index, or None), and
    `forward(x, selection=None)` applies it, so that branches which meet again can share one decision. `law` names
    the shift law the method claims, one of `LAWS`.
    """

    law: str = "none"
    in_convolution = False  # whether a network may give the stride to the convolution before the layer instead

    def __init__(self, stride: int | Sequence[int] = 2, ndim: int = 2) -> None:
        super().__init__()
        self.ndim = checks.dimensions(ndim)
        self.stride = checks.per_axis("stride", stride, ndim)

    def select(self, x: Tensor, *companions: Tensor) -> Tensor | None:
        """The decision for `x`; `companions` are the maps of other branches that will share it."""
        return None

    @property
    def selects(self) -> bool:
        """Whether the method takes a decision that branches can share."""
        return type(self).select is not Downsample.select

    @property
    def exact(self) -> bool:
        """Whether a network of such layers can be exactly invariant."""
        return self.law.startswith("exact")

    def staying(self) -> Downsample:
        """The layer that networks use where maps should keep their place: at every downsampling but the last."""
        return self

    def start(self, selection: Tensor, sizes: Sequence[int]) -> Tensor:
        """Where the first sample lies in maps of the given sizes, in whole pixels. (B, n)

        Then samples are a stride apart, so an operation with a stride takes them from maps that are moved by it.
        """
        raise TypeError(f"{self} does not choose where samples lie.")

    @property
    def starts(self) -> bool:
        """Whether the method chooses where samples lie: whether it has a `start`."""
        return type(self).start is not Downsample.start

    def smooth(self, x: Tensor) -> Tensor:
        """The filter of the method at every pixel, without downsampling."""
        raise TypeError(f"{self} has no filter of its own.")

    def split(self) -> tuple[nn.Module | None, Downsample]:
        """What to do to the input of a network once (or None), and the layer to use at each place inside it."""
        return None, self

    def progress(self, done: float) -> None:
        """Training tells the share of its steps that is done, from 0 to 1; methods with a schedule follow it."""

    def extra_repr(self) -> str:
        """The stride, then the options that the method adds."""
        stride = self.stride[0] if len(set(self.stride)) == 1 else self.stride
        words = [] if "output_size" in self.options() else [f"stride={stride}"]
        if self.ndim != 2:
            words.append(f"ndim={self.ndim}")
        return ", ".join(words + [f"{k}={v!r}" for k, v in self.options().items()])

    def options(self) -> dict[str, Any]:
        """The options worth showing in the `repr`."""
        return {}


class PaddedDownsample(Downsample):
    """A layer that reads beyond the border of its maps, as `padding` continues them (one of `BORDERS`)."""

    def __init__(self, stride: int | Sequence[int] = 2, ndim: int = 2, padding: str = "circular") -> None:
        super().__init__(stride, ndim)
        self.padding = checks.choice("padding", padding, BORDERS)

    def options(self) -> dict[str, Any]:
        """The padding."""
        return {"padding": self.padding}
