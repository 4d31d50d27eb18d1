"""Registering a method.

Spectral pooling keeps the low frequencies of a map and drops the rest. With one class and one decorator it is
available in the factory, the networks and the converter. It does not alias, but its output moves with the input, as
with any blur. After `align`, which rolls the map to its pivot, it is exactly invariant, as any method is.
"""

import torch
from matplotlib.figure import Figure
from skimage import data, transform
from torch import Tensor

import shiftproof as sp
from shiftproof.layers import Downsample


@sp.register_method("spectral")
class SpectralPool(Downsample):
    """Keep the frequencies that a map of ceil(H/stride) x ceil(W/stride) can represent."""

    def __init__(self, channels: int, stride: int = 2, padding: str = "circular", ndim: int = 2) -> None:
        super().__init__(stride, ndim)

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """The map at its new size; there is nothing to select."""
        height, width = (-(-m // s) for m, s in zip(x.shape[2:], self.stride))
        spectrum = torch.fft.rfft2(x)[..., : width // 2 + 1]
        rows = torch.cat([spectrum[..., : (height + 1) // 2, :], spectrum[..., -(height // 2) :, :]], -2)
        return torch.fft.irfft2(rows, (height, width)) * (height * width / x[0, 0].numel())


def draw() -> Figure:
    """The output of each layer for one picture, and how much it changes over all shifts."""
    image = transform.resize(data.coins()[20:280, 20:280], (32, 32), anti_aliasing=True)
    x = torch.tensor(image, dtype=torch.float32)[None, None]
    layers = {name: sp.create_downsample(name, channels=1) for name in ("max", "lpf", "spectral", "ghs")}
    layers["align + spectral"] = sp.create_downsample("align", channels=1, inner="spectral")

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1, 1])
    shown = {"input": x, **{name: layer(x) for name, layer in layers.items()}}
    for ax, (name, y) in zip(top.subplots(1, len(shown)), shown.items()):
        ax.imshow(y[0, 0].numpy(), cmap="gray", vmin=0, vmax=1)
        ax.set(title=name, xticks=[], yticks=[])
    ax = bottom.subplots()
    errors = [sp.shift_error(layer, x).max for layer in layers.values()]
    bars = ax.barh(list(layers), errors, color=["#33658a" if e else "#2a9d8f" for e in errors])
    ax.bar_label(bars, [f"{e:.2f}" if e else "0, bit for bit" for e in errors], padding=4)
    ax.set(xlabel="largest change of an output value over all 1,024 shifts", xlim=(0, 1.08 * max(errors)))
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    draw().savefig("method.png", dpi=160)
