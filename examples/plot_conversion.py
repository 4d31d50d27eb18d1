"""Converting a pretrained network.

A strided ResNet-20, trained on CIFAR-10, classifies a picture of a cat that moves. Each pixel of a map is one
circular shift, up to 15 pixels down and to the right. After conversion, the same weights give the same answer for all
shifts. They were trained without the new layers, so fine-tune before use. On the right is a network trained with GHS
from the start.
"""

import torch
from matplotlib.figure import Figure
from skimage import data, transform
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.data.sets import CIFAR10_MEAN, CIFAR10_STD

CAT, REACH = 3, 16  # the index of the class in CIFAR-10, and the number of shifts along each axis


def photograph() -> Tensor:
    """Chelsea the cat at the size of CIFAR-10. (1, 3, 32, 32)"""
    pixels = torch.tensor(transform.resize(data.chelsea()[:, 76:376], (32, 32), anti_aliasing=True))
    return pixels.float().permute(2, 0, 1)[None].contiguous()


def cat_by_shift(network: nn.Module, x: Tensor) -> Tensor:
    """The probability of `cat` for each circular shift. (REACH, REACH)"""
    rows = torch.cat([sp.circular_shift(x, (r, 0)) for r in range(REACH)])
    with torch.no_grad():
        columns = [network(sp.circular_shift(rows, (0, c))).softmax(1)[:, CAT] for c in range(REACH)]
    return torch.stack(columns, 1)


def draw() -> Figure:
    """The picture, and the probability of the right class over all shifts for each of three networks."""
    picture = photograph()
    x = (picture - torch.tensor(CIFAR10_MEAN).view(3, 1, 1)) / torch.tensor(CIFAR10_STD).view(3, 1, 1)
    strided = sp.create_model("resnet20", method="strided", weights="cifar10").eval()
    networks = {
        "strided": strided,
        "same weights, converted": sp.convert(strided, "ghs", example=x).eval(),
        "trained with GHS": sp.create_model("resnet20", method="ghs", weights="cifar10").eval(),
    }
    figure = Figure(figsize=(10.5, 3.1), layout="constrained")
    axes = figure.subplots(1, 4)
    axes[0].imshow(picture[0].permute(1, 2, 0).numpy())
    axes[0].set(title="input, 32 x 32", xticks=[], yticks=[])
    maps = [cat_by_shift(network, x) for network in networks.values()]
    low, high = float(torch.stack(maps).min()), float(torch.stack(maps).max())
    for ax, title, cat in zip(axes[1:], networks, maps):
        drawn = ax.imshow(cat.numpy(), cmap="cividis", vmin=low, vmax=high)
        ax.set(title=title, xticks=[], yticks=[])
        ax.set_xlabel(f"{cat.min():.2f} to {cat.max():.2f}" if cat.min() < cat.max() else f"{cat[0, 0]:.2f}, always")
    figure.colorbar(drawn, ax=axes[1:], shrink=0.9, label="probability of cat")
    return figure


if __name__ == "__main__":
    draw().savefig("conversion.png", dpi=160)
