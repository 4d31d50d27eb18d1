"""Sub-pixel shift.

Pictures move circularly to the right in steps of an eighth of a pixel, by the shift theorem of the Fourier transform.
At whole pixels the output of GHS is the original one. In between it is not: the pivot is always a whole pixel, so a
shift of up to half a pixel remains. If distant pixels are nearly equal maxima, the pivot jumps, as on the left. The
outputs of the other layers drift away. With `RollToPivot(subpixel=True)` before it, the output of GHS does not change.
"""

import torch
from matplotlib.figure import Figure
from skimage import data, transform
from torch import nn

import shiftproof as sp
from shiftproof.maps.shifts import fractional_shift

NAMES = {"subsampling": "strided", "max pooling": "max", "LPF": "lpf", "APS": "aps", "GHS": "ghs"}
LAYERS = {label: sp.create_downsample(method, channels=1) for label, method in NAMES.items()}
LAYERS["GHS after the sub-pixel front"] = nn.Sequential(sp.RollToPivot(subpixel=True), sp.GHS2d())
STEPS = [k / 8 for k in range(33)]


def draw() -> Figure:
    """The relative change of the output of each layer by shift, for one picture and for several."""
    photographs = (data.camera(), data.coins(), data.brick(), data.moon(), data.text(), data.page(), data.gravel())
    small = [transform.resize(picture, (32, 32), anti_aliasing=True) for picture in photographs]
    x = torch.stack([torch.tensor(picture, dtype=torch.float64) for picture in small])[:, None]

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for label, layer in LAYERS.items():
        rest = layer(x)
        changes = []
        for step in STEPS:
            y = layer(fractional_shift(x, (0.0, step)))
            changes.append((y - rest).flatten(1).norm(dim=1) / rest.flatten(1).norm(dim=1))
        curves = torch.stack(changes, 1)  # (pictures, steps)
        style = {"linewidth": 1.4}
        if label.startswith("GHS"):
            style = {"linewidth": 2.6, "color": "#111111" if label == "GHS" else "#7b3fa0", "zorder": 3}
        left.plot(STEPS, curves[0], label=label, **style)
        right.plot(STEPS, curves.mean(0), label=label, **style)
    left.set(title="one photograph", ylabel="relative change of the output")
    right.set(title=f"mean of {len(small)} photographs")
    for ax in (left, right):
        ax.set(xlabel="shift, pixels", xticks=range(5), xlim=(0, 4), ylim=(-0.006, None))
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="x", color="0.9")
    figure.legend(*left.get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


if __name__ == "__main__":
    draw().savefig("subpixel.png", dpi=160)
