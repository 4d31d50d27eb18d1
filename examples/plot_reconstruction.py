"""Reconstruction by order.

With more functions per axis, the moments contain more of the image. The Riemann sum of the paper loses brightness
towards the border, where its functions are cut off. The least-squares projection finds the best coefficients and does
not.
"""

import torch
from matplotlib.figure import Figure
from skimage import data, transform
from torch import Tensor

import shiftproof as sp

SHOWN = (4, 8, 16, 32, 48)
PROJECTIONS = {"quadrature": "Riemann sum", "least-squares": "least squares"}


def reconstructed(image: Tensor, orders: int, projection: str) -> Tensor:
    """The image from its moments below `orders` on each axis."""
    return sp.reconstruct(sp.moments(image, orders, projection=projection), size=image.shape)


def draw() -> Figure:
    """Reconstructions from more and more moments, and the error by the number of functions."""
    image = torch.tensor(transform.resize(data.camera(), (64, 64), anti_aliasing=True))
    figure = Figure(figsize=(11, 3.3), layout="constrained")
    pictures, curve = figure.subfigures(1, 2, width_ratios=[2.5, 1])

    axes = pictures.subplots(2, len(SHOWN) + 1)
    for row, (projection, label) in zip(axes, PROJECTIONS.items()):
        for ax, orders in zip(row, SHOWN):
            ax.imshow(reconstructed(image, orders, projection).numpy(), cmap="gray", vmin=0, vmax=1)
            ax.set_title(f"K = {orders}", fontsize=10)
        row[-1].imshow(image.numpy(), cmap="gray", vmin=0, vmax=1)
        row[-1].set_title("original", fontsize=10)
        row[0].set_ylabel(label)
        for ax in row:
            ax.set(xticks=[], yticks=[])

    ax = curve.subplots()
    counts = range(2, 61, 2)
    for projection, label in PROJECTIONS.items():
        errors = [float((reconstructed(image, k, projection) - image).norm() / image.norm()) for k in counts]
        ax.semilogy(counts, errors, label=label, linewidth=1.8)
    ax.set(xlabel="functions per axis, K", title="relative error", xticks=[2, 16, 32, 48, 60])
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return figure


if __name__ == "__main__":
    draw().savefig("reconstruction.png", dpi=160)
