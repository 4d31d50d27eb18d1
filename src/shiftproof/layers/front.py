"""What a network does to its input first: roll it to its own pivot, so that every circular shift enters as equal bits.

Convolutions do not round alike at every position: in float64, in small batches, in other memory layouts, on a GPU. So a
network that is invariant by itself is invariant to rounding. If its input is rolled first, all shifted copies of a
picture are one and the same tensor from there on, and whatever rounds, rounds alike.

This is not the method `align`, which rolls the input of a network that is *not* invariant. There the pivot decides what
the network sees, so it answers better or worse with it. Here the pivot changes nothing but the rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from shiftproof import checks
from shiftproof.ghs.backend.torch_backend import mark_absent
from shiftproof.ghs.pivots import Rule, check_rule
from shiftproof.ghs.sampler import check_selection, find_pivot
from shiftproof.layers.base import Downsample
from shiftproof.maps.gather import take_from
from shiftproof.maps.shifts import circular_shift, fractional_shift
from shiftproof.maps.subpixel import shift_to_pixel_zero, subpixel_pivot
from shiftproof.tensors import channels_last, plain, whole_pixels

ANCHORS = ("corner", "center")


def roll_to_pivot(x: Tensor, pivot: Tensor, anchor: str = "center", ndim: int = 2) -> Tensor:
    """Wrap-shift each sample so that its pivot (B, ndim) comes to the anchor; all NaN where there is none.

    * with the pivot of `find_pivot`: equal bits for every circular shift of `x`, ties included.

    Shape: (B, C, d1..dn) -> the same.
    """
    checks.maps("x", x, ndim)
    check_selection(pivot, x)
    return mark_absent(take_from(plain(x), pivot, _origin(x, anchor)), pivot)


def _origin(x: Tensor, anchor: str) -> list[int]:
    """The position of the anchor."""
    checks.choice("anchor", anchor, ANCHORS)
    return [size // 2 if anchor == "center" else 0 for size in x.shape[2:]]


class RollToPivot(nn.Module):
    """Roll each sample of a batch of maps to its own pivot: one gather, which moves pixels and computes nothing.

    * every circular shift of the input gives the same bits, on any device, in any dtype and layout, ties included: the
      pivot is found by comparisons and whole numbers;
    * with `subpixel`, every circular shift by parts of a pixel gives the same maps, to rounding, and whole pixels the
      same bits. The Nyquist frequency of even sizes is left out.

    `pivot_rule`: as in `select_pivot`; `"patch"` seldom has ties, even on photographs with saturated skies.
    `anchor`: the pivot is moved to the `"center"` or to the `"corner"`.
    `subpixel`: after that, shift by the fraction that `subpixel_pivot` finds (in float64, one Fourier transform).

    Shape: (B, C, d1..dn) -> the same.

    >>> x = torch.rand(2, 3, 9, 8)
    >>> front = RollToPivot()
    >>> torch.equal(front(x), front(x.roll((2, 5), (2, 3))))
    True
    """

    def __init__(
        self, pivot_rule: str | Rule = "patch", anchor: str = "center", *, subpixel: bool = False, ndim: int = 2
    ) -> None:
        super().__init__()
        if pivot_rule == "phase":
            raise ValueError(
                "`pivot_rule='phase'` chooses where the samples of an output lie, and here there are none: use "
                "'patch', 'max' or 'energy'."
            )
        self.pivot_rule = check_rule(pivot_rule)
        self.anchor = checks.choice("anchor", anchor, ANCHORS)
        self.subpixel = subpixel
        self.ndim = checks.dimensions(ndim)

    def forward(self, x: Tensor) -> Tensor:
        """The rolled maps."""
        return self.roll(x)[0]

    def roll(self, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """The rolled maps, and a function that rolls maps made from them back, to where the input was.

        It takes maps of the size of the input, or smaller ones: these are rolled by the nearest whole number of their
        own pixels below.
        """
        if channels_last(x) and not whole_pixels(x):
            x = x.contiguous()  # a few channels are faster apart, and what is rolled is a copy anyway
        pivot = find_pivot(x, rule=self.pivot_rule, ndim=self.ndim)
        rolled = roll_to_pivot(x, pivot, self.anchor, self.ndim)
        fraction = subpixel_pivot(rolled, self.ndim) if self.subpixel else None

        def roll_back(y: Tensor) -> Tensor:
            dims = range(2, y.dim())
            sizes, now = (torch.tensor(t.shape[2:], device=y.device) for t in (x, y))
            moved = pivot - torch.tensor(_origin(x, self.anchor), device=y.device)
            if fraction is not None:
                y = fractional_shift(y, fraction * now / sizes, dims)
            return circular_shift(y, (moved * now).div(sizes, rounding_mode="floor"), dims)

        return rolled if fraction is None else shift_to_pixel_zero(rolled, fraction), roll_back

    def extra_repr(self) -> str:
        """The rule and the anchor."""
        words = [f"pivot_rule={self.pivot_rule!r}", f"anchor={self.anchor!r}"]
        return ", ".join(words + [f"{k}={v}" for k, v in (("subpixel", self.subpixel),) if v])


class RollFirst(nn.Module):
    """A network whose input is rolled to its pivot first, and whose maps are rolled back: for networks of your own.

    For a network that is invariant or equivariant to circular shifts by itself, to rounding:

    * scores and other vectors are the same bits for every circular shift of the input;
    * maps (B, C, d1..dn), alone or in tuples, lists and dictionaries, move with the input bit for bit.

    `subpixel`: as in `RollToPivot`; then it holds for shifts by parts of a pixel too, to rounding.

    >>> network = nn.Conv2d(3, 5, 3, padding=1, padding_mode="circular", dtype=torch.float64)
    >>> model, x = RollFirst(network), torch.rand(1, 3, 31, 31, dtype=torch.float64)
    >>> torch.equal(model(x).roll((4, 9), (2, 3)), model(x.roll((4, 9), (2, 3))))
    True
    """

    def __init__(self, network: nn.Module, *, subpixel: bool = False, ndim: int = 2) -> None:
        super().__init__()
        self.front = RollToPivot(subpixel=subpixel, ndim=ndim)
        self.network = network

    def forward(self, x: Tensor) -> Any:
        """The answer of the network."""
        rolled, roll_back = self.front.roll(x)

        def placed(y: Any) -> Any:
            return roll_back(y) if isinstance(y, Tensor) and y.dim() == x.dim() else y

        return pytree.tree_map(placed, self.network(rolled))


def make_front(
    layer: Downsample, padding: str | None, front: bool | None = None, subpixel: bool = False
) -> tuple[nn.Module | None, Downsample]:
    """What a network that downsamples by `layer` does to its input, or None, and the layer to use inside it.

    By default a network that is exactly invariant (see `Downsample.law`) has a `RollToPivot` if its `padding` is
    circular. `front` adds it to one that is invariant to rounding, or leaves it out; `subpixel` adds it in any case.
    """
    aligned, inner = layer.split()
    if isinstance(aligned, RollToPivot):
        return RollToPivot(aligned.pivot_rule, aligned.anchor, subpixel=subpixel, ndim=layer.ndim), inner
    if front is None:
        front = subpixel or (inner.exact and padding == "circular")
    elif subpixel and not front:
        raise ValueError("`subpixel=True` is done by the front of the network: leave `front=False` out.")
    if front and (padding != "circular" or inner.law == "none"):
        name = "subpixel" if subpixel else "front"
        reason = (
            f"{inner} guarantees nothing under shifts: use a method that does, or `method='align'`"
            if padding == "circular"
            else f"padding {padding!r} does not move with the picture: use `padding='circular'`"
        )
        raise ValueError(f"`{name}=True` needs a network that is invariant to circular shifts by itself; {reason}.")
    return (RollToPivot(subpixel=subpixel, ndim=layer.ndim) if front else aligned), inner
