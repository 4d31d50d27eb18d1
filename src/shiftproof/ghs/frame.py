"""Where the samples of a map lie in the picture that it was made from, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Frame:
    """The grid of a map: on each axis sample i lies at `offset + step * i` pixels of the picture, around its edges.

    A layer that selects gives the frame of its output in its input: `layer.frame(selection, sizes)`. Along a network
    frames compose, with `then`. Positions need not be whole numbers.

    `sizes`: the sizes of the picture, d1..dn.
    `offset`: where sample 0 of each map lies, (B, n), in float64.
    `step`: how far samples are apart on each axis.

    >>> x = torch.zeros(1, 3, 8, 12)
    >>> frame = Frame.of(x).then(Frame((8, 12), torch.tensor([[1.0, 0.0]]), (2.0, 2.0)))
    >>> frame.to_picture(torch.tensor([[3, 5]]))
    tensor([[ 7., 10.]], dtype=torch.float64)
    >>> frame.from_picture(torch.tensor([[0, 10]]))
    tensor([[3.5000, 5.0000]], dtype=torch.float64)
    """

    sizes: tuple[int, ...]
    offset: Tensor
    step: tuple[float, ...]

    @classmethod
    def of(cls, x: Tensor) -> Frame:
        """The frame of pictures (B, C, d1..dn) themselves."""
        sizes = tuple(x.shape[2:])
        return cls(
            sizes, torch.zeros(x.shape[0], len(sizes), dtype=torch.float64, device=x.device), (1.0,) * len(sizes)
        )

    def then(self, inner: Frame) -> Frame:
        """The frame of a map in the picture, from its frame `inner` in the map that this frame belongs to."""
        step = tuple(a * b for a, b in zip(self.step, inner.step))
        return Frame(self.sizes, self.offset + inner.offset * self._tensor(self.step), step)

    def to_picture(self, positions: Tensor) -> Tensor:
        """Positions (B, ..., n) on the map, in pixels of the picture: from 0 up to its sizes."""
        return (self._offset(positions) + positions * self._tensor(self.step)) % self._tensor(self.sizes)

    def from_picture(self, pixels: Tensor) -> Tensor:
        """The inverse of `to_picture`: positions on the map, from 0 up to the number of its samples."""
        return (pixels - self._offset(pixels)) % self._tensor(self.sizes) / self._tensor(self.step)

    def _offset(self, positions: Tensor) -> Tensor:
        batch, ndim = self.offset.shape
        if positions.dim() < 2 or (positions.shape[0], positions.shape[-1]) != (batch, ndim):
            raise ValueError(
                f"positions (shape {tuple(positions.shape)}) must have the shape ({batch}, ..., {ndim}): one row for "
                f"each position, in (row, column) order."
            )
        return self.offset.view(batch, *[1] * (positions.dim() - 2), ndim)

    def _tensor(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, device=self.offset.device)
