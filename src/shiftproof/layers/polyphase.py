"""Polyphase sampling: keep one polyphase component, that of largest norm (APS) or one that a network names (LPS).

Letters: B batch, C channels, d1..dn sizes, S = s1 * .. * sn components.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.layers.blur import BlurredDownsample, blur_pool
from shiftproof.layers.convolution import conv
from shiftproof.layers.registry import register_method
from shiftproof.maps.padding import pad
from shiftproof.maps.polyphase import polyphase
from shiftproof.tensors import wide

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
    """The polyphase component of each sample that `selection` (B,) names, or their mixture with weights (B, S).

    Shape: (B, C, d1..dn) -> (B, C, ceil(d1/stride)..ceil(dn/stride)).
    """
    parts = _components(x, stride, padding, ndim).transpose(1, 2)  # (B, S, C, ...)
    soft = selection.is_floating_point()
    if selection.shape != (parts.shape[:2] if soft else x.shape[:1]):
        shape = f"({x.shape[0]}, {parts.shape[1]})" if soft else f"({x.shape[0]},)"
        raise ValueError(
            f"`selection` (shape {tuple(selection.shape)}) must have the shape {shape}: take it from `select` "
            f"on a map of the same batch."
        )
    if soft:
        weights = selection.to(wide(x.dtype)).view(*parts.shape[:2], *[1] * (parts.dim() - 2))
        return (weights * parts).sum(1).to(x.dtype)
    index = selection.view(-1, *[1] * (parts.dim() - 1)).expand(-1, 1, *parts.shape[2:])
    return parts.gather(1, index)[:, 0]


def _components(x: Tensor, stride: int | Sequence[int], padding: str, ndim: int) -> Tensor:
    """The polyphase components of (B, C, d1..dn), padded at the end to a multiple of the stride."""
    checks.maps("x", x, ndim)
    strides = checks.per_axis("stride", stride, ndim)
    x = pad(x, [(0, -m % s) for m, s in zip(x.shape[2:], strides)], padding)
    return polyphase(x, strides, ndim)


class _Polyphase(BlurredDownsample):
    """What APS and LPS share: a dense maximum, a component selected on its output, a blur, the component."""

    pads = False  # whether `_choose` reads beyond the border

    def __init__(self, stride: int | Sequence[int], ndim: int, padding: str, taps: int, dense_max: int) -> None:
        super().__init__(stride, ndim, padding, taps, dense_max)
        # a border other than the wrap does not move with the map
        self.law = "equivariant" if padding == "circular" or not (self.pads or taps > 1 or dense_max > 1) else "none"

    def select(self, x: Tensor, *companions: Tensor) -> Tensor:
        """The component of each sample (B,), or weights (B, S) of a mixture."""
        return self._choose(self.dense(x))

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """The selected component of each sample."""
        x = self.dense(x)
        if selection is None:
            selection = self._choose(x)
        return polyphase_pool(self.smooth(x), selection, self.stride, self.padding, self.ndim)

    def smooth(self, x: Tensor) -> Tensor:
        """The blur of `taps`."""
        return blur_pool(x, 1, self.taps, self.padding, self.ndim)

    def _choose(self, x: Tensor) -> Tensor:
        raise NotImplementedError


@register_method("aps")
class APS(_Polyphase):
    """Adaptive polyphase sampling (Chaman and Dokmanic 2021): keep the component of largest norm.

    A dense maximum (`dense_max`, 1: none) comes first, then the selection, then a blur of `taps` (1: none): the
    component is selected on the features before the blur, as in the reference code for CIFAR.

    * equivariant: a circular shift of the input gives a circular shift of the output, to rounding, with
      `padding="circular"` (any padding where nothing is padded), sizes divisible by the stride, and one component
      of largest norm;
    * where two components tie (a checkerboard, a constant) the first is taken whatever the shift, and this no longer
      holds; at sizes such as 30 with stride 4, or 31, no polyphase split moves with the map.

    >>> import torch
    >>> layer = APS(stride=2, taps=1)
    >>> x = torch.tensor([[[[0.0, 1.0], [0.0, 0.0]]]])
    >>> layer.select(x), layer(x).item()
    (tensor([1]), 1.0)

    Two components of equal norm: the shifted map keeps the other one.

    >>> layer = APS(stride=2, taps=1, ndim=1)
    >>> x = torch.tensor([[[3.0, 0.0, 4.0, 5.0]]])
    >>> layer(x), layer(x.roll(1))
    (tensor([[[3., 4.]]]), tensor([[[5., 0.]]]))
    """

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
        super().__init__(stride, ndim, padding, taps, dense_max)
        self.criterion = checks.choice("criterion", criterion, CRITERIA)

    def _choose(self, x: Tensor) -> Tensor:
        return select_component(x, self.stride, self.criterion, self.padding, self.ndim)

    def options(self) -> dict[str, Any]:
        """The filter and the criterion, and the dense maximum if there is one."""
        return super().options() | {"criterion": self.criterion}

    def start(self, selection: Tensor, sizes: Sequence[int]) -> Tensor:
        """The place of the selected component, below the stride on each axis."""
        places = []
        for stride in reversed(self.stride):
            places.append(selection.remainder(stride))
            selection = selection.div(stride, rounding_mode="floor")
        return torch.stack(places[::-1], 1)


@register_method("lps")
class LPS(_Polyphase):
    r"""Learnable polyphase sampling (Rojas-Gomez et al. 2022): a small network names the component to keep.

    The network sees each component alone: convolution to `hidden` channels, ReLU, convolution, mean over all
    positions, one number. In training the components are mixed with weights

    .. math:: z = \mathrm{softmax}((\text{logits} + g) / \tau)

    with Gumbel noise g; in evaluation the component of largest logit is kept. The temperature falls from
    `temperature[0]` to `temperature[1]` geometrically as training tells its `progress`.

    * equivariant, to rounding, in evaluation mode, with `padding="circular"`, sizes divisible by the stride, and one
      component of largest logit; a shift permutes the components, and each is judged alike wherever it stands;
    * where two components tie (equal components, as in a constant map) the first is taken whatever the shift.

    The dense maximum, and the blur after the selection, are as in `APS`.

    >>> import torch
    >>> layer = LPS(channels=1, ndim=1, taps=1).eval()
    >>> layer.select(torch.ones(1, 1, 4)), LPS(channels=1).select(torch.rand(2, 1, 6, 6)).shape
    (tensor([0]), torch.Size([2, 4]))
    """

    temperature: Tensor
    pads = True

    def __init__(
        self,
        channels: int,
        stride: int | Sequence[int] = 2,
        padding: str = "circular",
        ndim: int = 2,
        taps: int = 3,
        hidden: int = 16,
        temperature: tuple[float, float] = (1.0, 0.1),
        dense_max: int = 1,
    ) -> None:
        super().__init__(stride, ndim, padding, taps, dense_max)
        self.hidden = checks.integer("hidden", hidden)
        self.schedule = tuple(checks.positive("temperature", t) for t in temperature)
        if len(self.schedule) != 2:
            raise ValueError(f"`temperature` (={checks.shown(temperature)}) must be a pair: at the start, at the end.")
        self.features = conv(channels, hidden, 3, padding=padding, ndim=ndim)
        self.logit = conv(hidden, 1, 3, padding=padding, ndim=ndim)
        self.register_buffer("temperature", torch.tensor(self.schedule[0]), persistent=False)

    def progress(self, done: float) -> None:
        """Lower the temperature."""
        start, end = self.schedule
        self.temperature.fill_(start * (end / start) ** done)

    def logits(self, x: Tensor) -> Tensor:
        """One number per component. (B, C, d1..dn) -> (B, S)"""
        parts = _components(x, self.stride, self.padding, self.ndim).transpose(1, 2)  # (B, S, C, ...)
        flat = parts.flatten(0, 1)
        out: Tensor = self.logit(torch.relu(self.features(flat)))  # (B * S, 1, ...)
        return out.flatten(1).mean(1).view(parts.shape[0], parts.shape[1])

    def _choose(self, x: Tensor) -> Tensor:
        logits = self.logits(x)
        if not self.training:
            return logits.argmax(1)
        noise = -torch.empty_like(logits).exponential_().log()  # Gumbel
        return ((logits + noise) / self.temperature).softmax(1)

    def options(self) -> dict[str, Any]:
        """The filter, the width and the temperatures, and the dense maximum if there is one."""
        return super().options() | {"hidden": self.hidden, "temperature": self.schedule}
