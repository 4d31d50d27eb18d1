"""The paper's figures, drawn from real computations. Every function writes one file and returns its path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from shiftproof import grids, shifts
from shiftproof.expansion import functions as basis
from shiftproof.invariance import same_bits
from shiftproof.kernels import GHS_PAPER
from shiftproof.pivots import select_pivot
from shiftproof.polynomials import gauss_hermite
from shiftproof.sampling import ghs2d, max_centered_moments

INK = "#1b1f24"
COLOURS = ("#1b1f24", "#0b6e99", "#d1495b", "#edae49", "#5b8c5a")
DPI = 300


def functions(path: Path, orders: int = 5, sigma: float = 0.75) -> Path:
    """Figure 2: the Gaussian-Hermite functions of orders 0 to 4."""
    figure = Figure(figsize=(5.2, 3.2), layout="constrained")
    axes = figure.subplots()
    reach = 4.2
    x = torch.linspace(-reach, reach, 801, dtype=torch.float64)
    for p, h in enumerate(gauss_hermite(orders, x, sigma)):
        axes.plot(x.numpy(), h.numpy(), color=COLOURS[p % len(COLOURS)], linewidth=1.6, label=f"$p = {p}$")
    axes.axhline(0, color=INK, linewidth=0.5, zorder=0)
    axes.set(xlabel="$x$", ylabel=r"$\hat{H}_p(x, \sigma)$", xlim=(-reach, reach))
    axes.set_title(rf"Gaussian-Hermite functions, $\sigma = {sigma}$", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=1, loc="upper right", handlelength=1.4)
    return _save(figure, path)


def process(path: Path, image: Tensor, shift: tuple[int, int]) -> Path:
    """Figure 3: GHS step by step on an image (top) and its shifted copy (bottom)."""
    moved = shifts.circular_shift(image, shift)
    size = image.shape[-1]
    count = (size + 1) // 2
    q = basis(count, grids.pixels(size), grids.scale_rule(count))
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    axes = figure.subplots(2, 5)
    titles = (
        "(a) image and its maximum",
        "(b) turned to the pivot",
        "functions $Q$",
        "moments $A^*_{\\max}$",
        "(c) samples",
    )
    outputs: list[Tensor] = []
    for row, (picture, name) in enumerate(((image, "$F$"), (moved, f"$F'$, shifted by {shift}"))):
        pivot = select_pivot(picture)[0].tolist()
        aligned = shifts.circular_shift(picture, [-p for p in pivot])
        moments = max_centered_moments(picture, orders=count)[0, 0]
        samples = ghs2d(picture, output_size=count, **vars(GHS_PAPER), anchor="corner")
        outputs.append(samples)
        _picture(axes[row, 0], picture[0, 0], name)
        axes[row, 0].plot(pivot[1], pivot[0], "o", ms=9, mfc="none", mec="#d1495b", mew=1.8)
        _picture(axes[row, 1], aligned[0, 0], f"pivot {tuple(pivot)} at (0, 0)")
        axes[row, 1].plot(0, 0, "o", ms=9, mfc="none", mec="#d1495b", mew=1.8, clip_on=False)
        top = abs(q).max()
        _picture(axes[row, 2], q, f"{count} orders x {size} pixels", cmap="RdBu_r", vmin=-top, vmax=top)
        top = float(moments.abs().max()) ** 0.5
        rooted = moments.sign() * moments.abs().sqrt()
        _picture(axes[row, 3], rooted, f"{count} x {count}, signed root", cmap="RdBu_r", vmin=-top, vmax=top)
        _picture(axes[row, 4], samples[0, 0], f"{count} x {count}", vmin=None, vmax=None)
    for ax, title in zip(axes[0], titles):
        ax.set_title(title, fontsize=10)
    same = same_bits(*outputs)
    figure.suptitle(
        f"Gaussian-Hermite Sampling: outputs are {'equal bit for bit' if same else 'DIFFERENT'}", fontsize=11
    )
    return _save(figure, path)


def comparison(
    path: Path, image: Tensor, shift: tuple[int, int], methods: Sequence[tuple[str, Callable[[Tensor], Any]]]
) -> Path:
    """Figure 4: an image and its shifted copy, downsampled by each method, with the absolute difference."""
    moved = shifts.circular_shift(image, shift)
    figure = Figure(figsize=(2 * (len(methods) + 1), 4.5), layout="constrained")
    axes = figure.subplots(2, len(methods) + 1)
    _picture(axes[0, 0], image[0, 0], "")
    _picture(axes[1, 0], moved[0, 0], f"shifted by {shift}")
    axes[0, 0].set_title("Original", fontsize=10)
    for column, (label, layer) in enumerate(methods, start=1):
        before, after = layer(image)[0, 0], layer(moved)[0, 0]
        low = float(min(before.min(), after.min()))
        high = float(max(before.max(), after.max()))
        difference = (before - after).abs()
        _picture(axes[0, column], before, "", vmin=low, vmax=high)
        _picture(axes[1, column], after, f"AD {difference.sum():.2f}, max {difference.max():.2f}", vmin=low, vmax=high)
        axes[0, column].set_title(label, fontsize=10)
    for k, ax in enumerate(axes.flat):
        ax.text(0.0, -0.02, f"({chr(ord('a') + k)})", transform=ax.transAxes, va="top", ha="left", fontsize=8)
    return _save(figure, path)


def _picture(
    ax: Any, values: Any, label: str, cmap: str = "gray", vmin: float | None = 0, vmax: float | None = 1
) -> None:
    picture = values.numpy() if isinstance(values, Tensor) else values
    ax.imshow(picture, cmap=cmap, vmin=vmin, vmax=vmax, interpolation="nearest", aspect="auto")
    ax.set_box_aspect(1)  # all panels alike, also that of a matrix which is not square
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_xlabel(label, fontsize=8)


def _save(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, bbox_inches="tight", pad_inches=0.08)
    return path


def scaling(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Time and memory of every method against the size of the map, both axes logarithmic."""
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = [row["size"][-1] for row in rows]
    for k, name in enumerate(rows[0]["times"]):
        ours = name.startswith("ghs")
        style = {
            "color": f"C{k % 10}" if not ours else INK,
            "linewidth": 2.4 if name == "ghs" else 1.2,
            "linestyle": "--" if name == "ghs-paper" or k >= 10 else "-",
            "marker": "o",
            "markersize": 3,
            "zorder": 3 if ours else 2,
        }
        left.plot(sizes, [row["times"][name]["median"] * 1e3 for row in rows], label=name, **style)
        if all(row["bytes"][name] > 2**10 for row in rows):  # plain subsampling is a view and takes nothing
            right.plot(sizes, [row["bytes"][name] / 2**20 for row in rows], label=name, **style)
    batch, channels = rows[0]["size"][:2]
    left.set(title="forward pass", ylabel="milliseconds")
    right.set(title="tensors held at once, result included", ylabel="MiB")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel=f"pixels on each side, {batch} maps of {channels} channels")
        axes.set_xticks(sizes, [str(n) for n in sizes])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#e3e3e3", linewidth=0.6, zorder=0)
    figure.legend(*left.get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    return _save(figure, path)
