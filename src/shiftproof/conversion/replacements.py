"""What a conversion puts in: convolution and pooling with other strides and padding, layers that several maps share."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from shiftproof.conversion.error import ConversionError
from shiftproof.conversion.operation import Operation
from shiftproof.ghs.backend.torch_backend import mark_absent
from shiftproof.layers import Downsample
from shiftproof.layers.convolution import CONVOLUTIONS, same_padding
from shiftproof.maps.gather import take_from
from shiftproof.maps.padding import pad


def padded_convolution(source: _ConvNd, op: Operation, padding: str | None, stride: tuple[int, ...]) -> nn.Module:
    """The same parameters with another stride.

    A `padding` mode keeps the size of the map at stride 1; None leaves the padding alone.
    """
    if padding is None and source.padding != "same":
        around = getattr(source, "around", [(p, p) for p in op.padding])
    else:
        around = [same_padding(k, d, p) for k, d, p in zip(op.kernel, op.dilation, op.padding)]
    ours = CONVOLUTIONS[len(op.stride)]
    layer: Any = ours.__new__(ours)
    if type(source) in ours.__mro__:
        layer.__dict__.update(source.__dict__)  # shares the parameters, under the same names
        layer.around = tuple(around)
    else:  # a subclass, or parametrized: keep it and let torch pad
        layer = source
    layer.stride = stride
    layer.padding = tuple(before for before, _ in around)
    layer.padding_mode = padding or op.padding_mode
    layer._reversed_padding_repeated_twice = [n for pair in reversed(around) for n in pair]
    return layer  # type: ignore[no-any-return]


class PaddedPool(nn.Module):
    """Pooling with another stride: at stride 1 the windows of the source and all those in between.

    A `padding` mode keeps the size of the map at stride 1; with None, which is for stride 1 alone, it pads like the
    pooling that it replaces.
    """

    def __init__(self, source: Operation, padding: str | None, stride: tuple[int, ...]) -> None:
        super().__init__()
        self.steps = stride
        self.kind = "max" if source.kind == "max pooling" else "avg"
        self.kernel, self.dilation = source.kernel, source.dilation
        self.stride, self.amounts, self.options, self.padding = source.stride, source.padding, source.options, padding

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, d1..dn) -> (B, C, d1..dn), or less without enough padding."""
        pool: Any = getattr(F, f"{self.kind}_pool{len(self.kernel)}d")
        spread = {"dilation": self.dilation} if self.kind == "max" else {}
        if self.padding is not None:
            around = [same_padding(k, d, p) for k, d, p in zip(self.kernel, self.dilation, self.amounts)]
            if self.padding == "zeros" and self.kind == "max":
                padded = F.pad(x, [n for pair in reversed(around) for n in pair], value=-torch.inf)
            else:
                padded = pad(x, around, self.padding)
            return pool(padded, self.kernel, self.steps, **spread)  # type: ignore[no-any-return]
        options = {k: v for k, v in self.options.items() if k != "ceil_mode"}
        if self.options.get("ceil_mode"):
            x = self._pad_for_the_last_window(x)
        return pool(x, self.kernel, 1, self.amounts, **spread, **options)  # type: ignore[no-any-return]

    def _pad_for_the_last_window(self, x: Tensor) -> Tensor:
        """`ceil_mode` allows a last window that reaches past the border: pad with values that a maximum ignores."""
        extra = []
        for m, k, s, p, d in zip(x.shape[2:], self.kernel, self.stride, self.amounts, self.dilation):
            reach = m + 2 * p - d * (k - 1) - 1  # the last start that fits
            last = -(-reach // s) * s
            extra.append(last - reach if last < m + p else 0)
        if self.kind != "max" and any(extra):
            raise ConversionError(
                f"average pooling with `ceil_mode` on a map of size {tuple(x.shape[2:])} has a window that reaches "
                f"past the border, which has no counterpart at stride 1.",
                f"Use inputs whose maps the stride {self.stride} divides, or pass `padding='circular'`.",
            )
        return F.pad(x, [n for e in reversed(extra) for n in (0, e)], value=-torch.inf) if any(extra) else x

    def extra_repr(self) -> str:
        """The kind of pooling, the window and the padding."""
        return f"{self.kind}, kernel_size={self.kernel}, stride={self.steps}, padding={self.padding!r}"


class SharedDownsample(nn.Module):
    """Downsample maps that meet again by one selection: that of the first map, with ties broken by the others."""

    def __init__(self, down: Downsample) -> None:
        super().__init__()
        self.down = down

    def forward(self, *maps: Tensor) -> tuple[Tensor, ...]:
        """The maps, each downsampled."""
        selection = self.down.select(*maps)
        return tuple(self.down(x, selection) for x in maps)


class MoveToSelection(nn.Module):
    """Move maps that meet again by one selection, so that operations with a stride after it sample where it says.

    Where they wrap, pixels move around the edges. Otherwise zeros enter, as they do beside a border of zeros.
    """

    def __init__(self, down: Downsample, wraps: bool, antialias: bool) -> None:
        super().__init__()
        self.down, self.wraps, self.antialias = down, wraps, antialias

    def forward(self, *maps: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The maps, each moved, and filtered first with `antialias`."""
        selection = self.down.select(*maps)
        assert selection is not None
        start = self.down.start(selection, maps[0].shape[2:])
        moved = tuple(self._move(self.down.smooth(x) if self.antialias else x, start) for x in maps)
        if not selection.is_floating_point() and selection.dim() == 2:  # pivots, which a map with NaN does not have
            moved = tuple(mark_absent(x, selection) for x in moved)
        return moved if len(moved) > 1 else moved[0]

    def _move(self, x: Tensor, start: Tensor) -> Tensor:
        if self.wraps:
            return take_from(x, start)
        moved = take_from(pad(x, [(0, s - 1) for s in self.down.stride], "zeros"), start)
        for axis, size in enumerate(x.shape[2:], 2):
            moved = moved.narrow(axis, 0, size)
        return moved

    def extra_repr(self) -> str:
        """What is not usual."""
        words = [] if self.wraps else ["wraps=False"]
        return ", ".join(words + (["antialias=True"] if self.antialias else []))
