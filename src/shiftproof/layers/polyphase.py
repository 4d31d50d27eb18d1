"""Adaptive polyphase sampling (APS): keep the polyphase component of largest norm (Chaman and Dokmanic 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from shiftproof import checks
from shiftproof.layers.base import Downsample, register_method
from shiftproof.layers.blur import blur_pool
from shiftproof.layers.pooling import dense_max
from shiftproof.precision import wide
from shiftproof.shifts import pad, polyphase

CRITERIA = ("l1", "l2", "linf", "l1min", "l2min")


def select_component(
    x: Tensor, stride: int | Sequence[int] = 2, criterion: str = "l2", padding: str = "circular", ndim: int = 2
) -> Tensor:
    """The index of each sample's polyphase component of largest norm (smallest, for `l1min` and `l2min`). (B,)"""
    checks.choice("criterion", criterion, CRITERIA)
    parts = _components(x.detach(), stride, padding, ndim)  # (B, C, S, ...)
    parts = parts.to(wide(x.dtype)).transpose(1, 2).flatten(2)  # (B, S, C * ...)
    if criterion == "linf":
        norm = parts.abs().amax(2)
    else:
        norm = parts.abs().sum(2) if criterion.startswith("l1") else parts.square().sum(2)
    return norm.argmin(1) if criterion.endswith("min") else norm.argmax(1)


def polyphase_pool(
    x: Tensor, selection: Tensor, stride: int | Sequence[int] = 2, padding: str = "circular", ndim: int = 2
) -> Tensor:
    """The polyphase component of each sample that `selection` (B,) names.

    Shape: (B, C, d1..dn) -> (B, C, ceil(d1/stride)..ceil(dn/stride)).
    """
    parts = _components(x, stride, padding, ndim).transpose(1, 2)  # (B, S, C, ...)
    if selection.shape != x.shape[:1]:
        raise ValueError(
            f"`selection` (shape {tuple(selection.shape)}) must have the shape ({x.shape[0]},): take it from `select` "
            f"on a map of the same batch."
        )
    index = selection.view(-1, *[1] * (parts.dim() - 1)).expand(-1, 1, *parts.shape[2:])
    return parts.gather(1, index)[:, 0]


def _components(x: Tensor, stride: int | Sequence[int], padding: str, ndim: int) -> Tensor:
    """The polyphase components of (B, C, d1..dn), padded at the end to a multiple of the stride."""
    checks.maps("x", x, ndim)
    strides = checks.per_axis("stride", stride, ndim)
    x = pad(x, [(0, -m % s) for m, s in zip(x.shape[2:], strides)], padding)
    return polyphase(x, strides, ndim)


@register_method("aps")
class APS(Downsample):
    """Adaptive polyphase sampling, after a blur of `taps` (1: none) and a dense maximum (`dense_max`, 1: none).

    The component is selected on the features before the blur, as in the reference code for CIFAR.

    * equivariant: a circular shift of the input gives a circular shift of the output, to rounding, with
      `padding="circular"`, sizes divisible by the stride, and one component of largest norm;
    * where two components tie (a checkerboard, a constant) the first is taken whatever the shift, and the law
      breaks; at sizes such as 30 with stride 4, or 31, no polyphase split moves with the map.

    >>> import torch
    >>> layer = APS(stride=2, taps=1)
    >>> x = torch.tensor([[[[0.0, 1.0], [0.0, 0.0]]]])
    >>> layer.select(x), layer(x).item()
    (tensor([1]), 1.0)
    """

    law = "equivariant"

    def __init__(
        self,
        channels: int | None = None,
        stride: int | Sequence[int] = 2,
        padding: str = "circular",
        ndim: int = 2,
        taps: int = 3,
        criterion: str = "l2",
        dense_max: int = 1,
    ) -> None:
        super().__init__(stride, ndim, padding)
        if ndim not in (1, 2, 3):
            raise ValueError(f"`ndim` (={ndim}) must be 1, 2 or 3 for APS.")
        self.taps = checks.integer("taps", taps)
        self.criterion = checks.choice("criterion", criterion, CRITERIA)
        self.dense_max = checks.integer("dense_max", dense_max)

    def select(self, x: Tensor, *companions: Tensor) -> Tensor:
        """The component of each sample."""
        assert self.padding is not None
        checks.maps("x", x, self.ndim)
        x = dense_max(x, self.dense_max, self.padding, self.ndim)
        return select_component(x, self.stride, self.criterion, self.padding, self.ndim)

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """The selected component of each sample."""
        assert self.padding is not None
        checks.maps("x", x, self.ndim)
        x = dense_max(x, self.dense_max, self.padding, self.ndim)
        if selection is None:
            selection = select_component(x, self.stride, self.criterion, self.padding, self.ndim)
        x = blur_pool(x, 1, self.taps, self.padding, self.ndim)
        return polyphase_pool(x, selection, self.stride, self.padding, self.ndim)

    def options(self) -> dict[str, Any]:
        """The filter and the criterion, and the dense maximum if there is one."""
        shown: dict[str, Any] = {"taps": self.taps, "criterion": self.criterion}
        return shown | ({"dense_max": self.dense_max} if self.dense_max > 1 else {})
