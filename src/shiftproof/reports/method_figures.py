"""Figures 1 to 4 of the paper, drawn from arrays of `experiments.cameraman`, and the gains of kernels.

Every function writes one file and returns its path.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from shiftproof.experiments.cameraman import Outputs, Steps
from shiftproof.invariance import same_bits
from shiftproof.reports.figures import COLOURS, INK, save

_RING: dict[str, Any] = {"ms": 9, "mfc": "none", "mec": COLOURS[2], "mew": 1.8, "clip_on": False}


def symmetry(path: Path, image: Tensor, moved: Tensor, shift: tuple[int, int], outputs: Sequence[Outputs]) -> Path:
    """Figure 1: for an image and its shifted copy, one output that stays the same and one that shifts along."""
    figure = Figure(figsize=(9.6, 5.0), layout="constrained")
    halves: Any = figure.subfigures(1, len(outputs), wspace=0.06)
    for half, (label, before, after) in zip(halves, outputs):
        low, high = float(min(before.min(), after.min())), float(max(before.max(), after.max()))
        half.suptitle(label, fontsize=11)
        axes = half.subplots(2, 2)
        _panel(axes[0, 0], image[0, 0], "image $f$")
        _panel(axes[1, 0], moved[0, 0], f"$g(f)$, shifted by {shift}")
        _panel(axes[0, 1], before, "$O(f)$", vmin=low, vmax=high)
        _panel(axes[1, 1], after, _relation(before, after), vmin=low, vmax=high)
    return save(figure, path)


def _relation(before: Tensor, after: Tensor) -> str:
    """How the output for the shifted image relates to the output for the image."""
    if same_bits(before, after):
        return "$O(g(f)) = O(f)$, bit for bit"
    for shift in itertools.product(*map(range, before.shape)):
        if torch.equal(before.roll(shift, (0, 1)), after):
            return f"$O(g(f))$ is $O(f)$, shifted by {shift}"
    return "$O(g(f))$"


def functions(path: Path, x: Tensor, values: Tensor, sigma: float) -> Path:
    """Figure 2: the Gaussian-Hermite functions of the lowest orders."""
    figure = Figure(figsize=(5.2, 3.2), layout="constrained")
    axes = figure.subplots()
    for p, h in enumerate(values):
        axes.plot(x.numpy(), h.numpy(), color=COLOURS[p % len(COLOURS)], linewidth=1.6, label=f"$p = {p}$")
    axes.axhline(0, color=INK, linewidth=0.5, zorder=0)
    axes.set(xlabel="$x$", ylabel=r"$\hat{H}_p(x, \sigma)$", xlim=(float(x[0]), float(x[-1])))
    axes.set_title(rf"Gaussian-Hermite functions, $\sigma = {sigma}$", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=1, loc="upper right", handlelength=1.4)
    return save(figure, path)


def process(path: Path, shift: tuple[int, int], q: Tensor, steps: Sequence[Steps]) -> Path:
    """Figure 3: GHS step by step on an image (top) and its shifted copy (bottom)."""
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    axes = figure.subplots(2, 5)
    count, size = q.shape
    for row, (step, name) in enumerate(zip(steps, ("$F$", f"$F'$, shifted by {shift}"))):
        _panel(axes[row, 0], step.image, name)
        axes[row, 0].plot(step.pivot[1], step.pivot[0], "o", **_RING)
        _panel(axes[row, 1], step.aligned, f"pivot {step.pivot} at (0, 0)")
        axes[row, 1].plot(0, 0, "o", **_RING)
        _signed_panel(axes[row, 2], q, f"{count} orders x {size} pixels")
        rooted = step.moments.sign() * step.moments.abs().sqrt()
        _signed_panel(axes[row, 3], rooted, f"{count} x {count}, signed root")
        _panel(axes[row, 4], step.samples, f"{count} x {count}", vmin=None, vmax=None)
    titles = ("(a) image and its maximum", "(b) rolled to the corner", "functions $Q$")
    for ax, title in zip(axes[0], (*titles, "moments $A^*_{\\max}$", "(c) samples")):
        ax.set_title(title, fontsize=10)
    same = same_bits(steps[0].samples, steps[1].samples)
    outcome = "equal bit for bit" if same else "DIFFERENT"
    figure.suptitle(f"Gaussian-Hermite Sampling: the outputs are {outcome}", fontsize=11)
    return save(figure, path)


def comparison(path: Path, image: Tensor, moved: Tensor, shift: tuple[int, int], outputs: Sequence[Outputs]) -> Path:
    """Figure 4: an image and its shifted copy, downsampled by each method, with the absolute difference."""
    figure = Figure(figsize=(2 * (len(outputs) + 1), 4.5), layout="constrained")
    axes = figure.subplots(2, len(outputs) + 1)
    _panel(axes[0, 0], image[0, 0], "")
    _panel(axes[1, 0], moved[0, 0], f"shifted by {shift}")
    axes[0, 0].set_title("Original", fontsize=10)
    for column, (label, before, after) in enumerate(outputs, start=1):
        low, high = float(min(before.min(), after.min())), float(max(before.max(), after.max()))
        difference = (before - after).abs()
        _panel(axes[0, column], before, "", vmin=low, vmax=high)
        _panel(axes[1, column], after, f"AD {difference.sum():.2f}, max {difference.max():.2f}", vmin=low, vmax=high)
        axes[0, column].set_title(label, fontsize=10)
    for k, ax in enumerate(axes.flat):
        ax.text(0.0, -0.02, f"({chr(ord('a') + k)})", transform=ax.transAxes, va="top", ha="left", fontsize=8)
    return save(figure, path)


def gains(path: Path, frequencies: Sequence[float], curves: Mapping[str, Sequence[float]]) -> Path:
    """The gain of each kernel against the frequency, in parts of the output's Nyquist limit; local ones get darker."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    orders = [name for name in curves if name.startswith("order")]
    for name, curve in curves.items():
        if name in orders:
            shade = 0.75 * (1 - (orders.index(name) + 1) / len(orders))
            axes.plot(frequencies, curve, color=str(shade), linewidth=1.8, label=name)
        else:
            axes.plot(frequencies, curve, color=COLOURS[2 if name.startswith("LPF") else 1], linestyle="--", label=name)
    axes.axvline(1, color=INK, linewidth=0.8, linestyle=(0, (1, 3)))
    axes.set(xlabel="frequency, in parts of the output's Nyquist limit", ylabel="gain", xlim=(0, 2), ylim=(0, 1.05))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, handlelength=2.2)
    return save(figure, path)


def _panel(
    ax: Any, values: Tensor, label: str, cmap: str = "gray", vmin: float | None = 0, vmax: float | None = 1
) -> None:
    ax.imshow(values.numpy(), cmap=cmap, vmin=vmin, vmax=vmax, interpolation="nearest", aspect="auto")
    ax.set_box_aspect(1)  # every panel is square, even that of a matrix which is not
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_xlabel(label, fontsize=8)


def _signed_panel(ax: Any, values: Tensor, label: str) -> None:
    """Values of both signs, zero in white."""
    top = float(values.abs().max())
    _panel(ax, values, label, cmap="RdBu_r", vmin=-top, vmax=top)
