"""One layer under shift.

A picture and its copy, moved by one pixel, through four layers with stride 2. The bottom row shows the largest change
of an output value for each of the 1,024 circular shifts. For GHS all of them are zero, bit for bit.
"""

import torch
from matplotlib.figure import Figure
from skimage import data, transform

import shiftproof as sp

METHODS = {"max": "max pooling", "lpf": "LPF", "aps": "APS", "ghs": "GHS"}


def draw() -> Figure:
    """Outputs before and after the shift, and the change over all shifts."""
    image = transform.resize(data.camera(), (32, 32), anti_aliasing=True)
    x = torch.tensor(image, dtype=torch.float32)[None, None]
    moved = sp.circular_shift(x, (1, 1))
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    axes = figure.subplots(3, len(METHODS) + 1)
    axes[0, 0].set(title="input")
    axes[0, 0].imshow(x[0, 0].numpy(), cmap="gray", vmin=0, vmax=1)
    axes[1, 0].imshow(moved[0, 0].numpy(), cmap="gray", vmin=0, vmax=1)
    axes[1, 0].set_xlabel("moved by (1, 1)")
    axes[2, 0].axis("off")

    errors = {}
    for column, (method, label) in enumerate(METHODS.items(), start=1):
        layer = sp.create_downsample(method, channels=1)
        before, after = layer(x)[0, 0], layer(moved)[0, 0]
        errors[method] = sp.shift_error(layer, x)
        axes[0, column].imshow(before.numpy(), cmap="gray", vmin=0, vmax=1)
        axes[0, column].set(title=label)
        axes[1, column].imshow(after.numpy(), cmap="gray", vmin=0, vmax=1)
        axes[1, column].set_xlabel(f"absolute difference {(before - after).abs().sum():.2f}")
        axes[2, column].set_xlabel(f"largest change {errors[method].max:.2f}")

    top = max(error.max for error in errors.values())
    for column, error in enumerate(errors.values(), start=1):
        drawn = axes[2, column].imshow(error.map.numpy(), cmap="magma", vmin=0, vmax=top)
    bar = figure.colorbar(drawn, cax=axes[2, 0].inset_axes([0.8, 0.05, 0.1, 0.9]), label="largest change, by shift")
    bar.ax.yaxis.set_ticks_position("left")
    bar.ax.yaxis.set_label_position("left")
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[])
    return figure


if __name__ == "__main__":
    draw().savefig("layer.png", dpi=160)
