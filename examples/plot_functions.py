"""Functions and moments.

Gaussian-Hermite functions are Hermite polynomials times a Gaussian, scaled to be orthonormal. The projections of an
image on products of two such functions are its moments. They form a matrix with coarse structure in the upper left
corner and finer structure away from it.
"""

import torch
from matplotlib.figure import Figure
from skimage import data, transform

import shiftproof as sp


def draw() -> Figure:
    """The first functions, an image, and its moments."""
    figure = Figure(figsize=(10, 3), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.55, 1, 1.05])

    x = torch.linspace(-3, 3, 400, dtype=torch.float64)
    for p, h in enumerate(sp.gauss_hermite(5, x, sigma=0.75)):
        left.plot(x, h, label=f"$h_{p}$", linewidth=1.8)
    left.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    left.spines[["top", "right"]].set_visible(False)
    left.set_box_aspect(0.66)
    left.set(title=r"$h_p(x)$ for $\sigma = 0.75$", xlabel="x", xlim=(-3, 3))
    left.legend(frameon=False, handlelength=1.2, loc="center left", bbox_to_anchor=(1, 0.5))

    image = torch.tensor(transform.resize(data.camera(), (64, 64), anti_aliasing=True))
    middle.imshow(image.numpy(), cmap="gray")
    middle.set(title="image, 64 x 64", xticks=[], yticks=[])

    moments = sp.moments(image, orders=32)
    shown = moments.sign() * moments.abs().sqrt()
    top = float(shown.abs().max())
    drawn = right.imshow(shown.numpy(), cmap="RdBu_r", vmin=-top, vmax=top)
    right.set(title="moments, signed root", xlabel="order along columns", ylabel="order along rows")
    figure.colorbar(drawn, ax=right, shrink=0.9)
    return figure


if __name__ == "__main__":
    draw().savefig("functions.png", dpi=160)
