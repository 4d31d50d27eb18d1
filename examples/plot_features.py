"""Moments as features.

A linear classifier for handwritten digits on a black background of 16 x 16 pixels. It is trained on digits in the
middle and tested on digits that are shifted circularly. Pixels and plain moments fail. Moments about the centroid
work as long as nothing wraps around. Moments about the maximum are invariant, and they work better the more stable
the maximum is: one bright pixel is a poor landmark, the brightest place of a blurred copy is a good one.
"""

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import shiftproof as sp
from shiftproof.ghs.moments import centroid_moments
from shiftproof.ghs.sampling import find_pivot, max_centered_moments, pivot_moments

ORDERS = (2, 4, 6, 8, 12)
BLUR = torch.nn.Sequential(*[sp.create_downsample("lpf", channels=1, stride=1, taps=7) for _ in range(3)])
FEATURES = {
    "pixels": lambda x, orders: x,
    "moments": lambda x, orders: sp.moments(x, orders),
    "about the centroid": lambda x, orders: centroid_moments(x, orders),
    "about the maximum": lambda x, orders: max_centered_moments(x, orders),
    "about the maximum, blurred": lambda x, orders: pivot_moments(x, find_pivot(BLUR(x)), orders),
}


def accuracy(train: Tensor, labels: Tensor, *tests: tuple[Tensor, Tensor]) -> list[float]:
    """The accuracy of one linear classifier on each test set, in per cent."""
    mean, std = train.mean(0), train.std(0) + 1e-3
    model = LogisticRegression(max_iter=200).fit((train - mean) / std, labels)
    return [100 * model.score((x - mean) / std, y) for x, y in tests]


def draw() -> Figure:
    """Accuracy by the number of functions, for digits in the middle and for shifted digits."""
    digits = load_digits()
    x = torch.nn.functional.pad(torch.tensor(digits.images / 16, dtype=torch.float32), (4, 4, 4, 4))[:, None]
    (train, rest), (y, labels) = x.tensor_split([1200]), torch.tensor(digits.target).tensor_split([1200])
    moved = sp.circular_shift(rest, torch.randint(0, 16, (len(rest), 2), generator=torch.Generator().manual_seed(0)))

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for name, features in FEATURES.items():
        made = [[features(part, orders).flatten(1) for part in (train, rest, moved)] for orders in ORDERS]
        for ax, line in zip(axes, zip(*[accuracy(a, y, (b, labels), (c, labels)) for a, b, c in made])):
            ax.plot(ORDERS, line, marker="o", markersize=4, label=name)
    for ax, title in zip(axes, ("digits in the middle", "digits shifted circularly")):
        ax.set(title=title, xlabel="functions per axis", xticks=ORDERS, ylim=(0, 100))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("accuracy, %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


if __name__ == "__main__":
    draw().savefig("features.png", dpi=160)
