"""Register your own downsampling method: then networks, the converter and tables can use it by name."""

import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.layers import PaddedDownsample
from shiftproof.maps.padding import pad


@sp.register_method("power")
class PowerPool(PaddedDownsample):
    """The generalised mean (mean of x^p)^(1/p) over windows: average pooling at p = 1, near max pooling at large p."""

    def __init__(self, channels: int, stride: int, padding: str, ndim: int = 2, exponent: float = 3.0) -> None:
        super().__init__(stride, ndim, padding)
        self.exponent = exponent

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """The pooled maps; there is nothing to select."""
        around = [(0, -m % s) for m, s in zip(x.shape[2:], self.stride)]
        powers = pad(x.clamp_min(1e-6), around, "circular") ** self.exponent
        return nn.functional.avg_pool2d(powers, self.stride) ** (1 / self.exponent)


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.rand(2, 3, 32, 32)
    print(sp.create_downsample("power", channels=3, exponent=4.0)(x).shape)
    for method in ("power", "ghs"):
        network = sp.create_model("resnet20", method=method).eval()
        print(f"{method}: largest change of the logits over 64 shifts {sp.shift_error(network, x, shifts=64).max:.2g}")
    converted = sp.convert(sp.create_model("resnet20", method="strided"), "power")
    print(sp.conversion_report(converted))
