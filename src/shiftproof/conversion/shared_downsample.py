"""The layer that downsamples maps which meet again."""

from __future__ import annotations

from torch import Tensor, nn

from shiftproof.layers import Downsample


class SharedDownsample(nn.Module):
    """Downsample several maps by one selection: that of the first map, with ties broken by the others."""

    def __init__(self, down: Downsample) -> None:
        super().__init__()
        self.down = down

    def forward(self, *maps: Tensor) -> tuple[Tensor, ...]:
        """The maps, each downsampled."""
        selection = self.down.select(*maps)
        return tuple(self.down(x, selection) for x in maps)
