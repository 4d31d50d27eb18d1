"""The paper's figures, drawn from real computations. Every function writes one file and returns its path."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from shiftproof.ghs import grids
from shiftproof.ghs.basis import functions as basis
from shiftproof.ghs.functions import gauss_hermite
from shiftproof.ghs.kernel import GHS_PAPER
from shiftproof.ghs.pivots import select_pivot
from shiftproof.ghs.sampling import ghs2d, max_centered_moments
from shiftproof.invariance import same_bits
from shiftproof.layers import create_downsample
from shiftproof.maps import shifts

INK = "#1b1f24"
COLOURS = ("#1b1f24", "#0b6e99", "#d1495b", "#edae49", "#5b8c5a")
DPI = 300


def symmetry(path: Path, image: Tensor, shift: tuple[int, int]) -> Path:
    """Figure 1: an operator whose output stays (GHS), and one whose output moves along (APS), on one image."""
    moved = shifts.circular_shift(image, shift)
    figure = Figure(figsize=(9.6, 5.0), layout="constrained")
    halves: Any = figure.subfigures(1, 2, wspace=0.06)
    for half, title, name in zip(halves, ("Invariance", "Equivariance"), ("ghs", "aps")):
        layer = create_downsample(name, channels=image.shape[1])
        before, after = layer(image), layer(moved)
        low, high = float(min(before.min(), after.min())), float(max(before.max(), after.max()))
        half.suptitle(f"{title}: {name.upper()}", fontsize=11)
        axes = half.subplots(2, 2)
        _picture(axes[0, 0], image[0, 0], "image $f$")
        _picture(axes[1, 0], moved[0, 0], f"$g(f)$, shifted by {shift}")
        _picture(axes[0, 1], before[0, 0], "$O(f)$", vmin=low, vmax=high)
        if same_bits(before, after):
            said = "$O(g(f)) = O(f)$, bit for bit"
        else:
            steps = [(r, c) for r in range(before.shape[-2]) for c in range(before.shape[-1])]
            found = next((s for s in steps if torch.equal(shifts.circular_shift(before, s), after)), None)
            said = "$O(g(f))$" if found is None else f"$O(g(f))$ is $O(f)$, shifted by {found}"
        _picture(axes[1, 1], after[0, 0], said, vmin=low, vmax=high)
    return save(figure, path)


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
    return save(figure, path)


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
        samples = ghs2d(
            picture, output_size=count, kernel=GHS_PAPER, grid="inclusive", anchor="corner", pivot_rule="max"
        )
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
    return save(figure, path)


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
    return save(figure, path)


def _picture(
    ax: Any, values: Any, label: str, cmap: str = "gray", vmin: float | None = 0, vmax: float | None = 1
) -> None:
    picture = values.numpy() if isinstance(values, Tensor) else values
    ax.imshow(picture, cmap=cmap, vmin=vmin, vmax=vmax, interpolation="nearest", aspect="auto")
    ax.set_box_aspect(1)  # all panels alike, also that of a matrix which is not square
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_xlabel(label, fontsize=8)


def save(figure: Figure, path: Path) -> Path:
    """Write a figure to a file; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, bbox_inches="tight", pad_inches=0.08)
    return path


def erased(path: Path, series: Mapping[str, Mapping[str, Sequence[float | None]]], sizes: Sequence[int]) -> Path:
    """Figure 5: consistency (left) and accuracy (right) by the side of the erased square, one line per method.

    `series` holds for each method the percentages `consistency` and `accuracy` at the `sizes`, None where not run.
    """
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, what in zip(panels, ("consistency", "accuracy")):
        for k, (name, values) in enumerate(series.items()):
            points = [(x, y) for x, y in zip(sizes, values[what]) if y is not None]
            if points:
                style = {"color": f"C{k % 10}", "marker": "o", "markersize": 4, "linewidth": 1.6}
                axes.plot(*zip(*points), label=name, **style)
        axes.set(xlabel="side of the erased square, pixels", ylabel=f"{what}, %", xticks=list(sizes))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#e3e3e3", linewidth=0.6, zorder=0)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    return save(figure, path)


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
    return save(figure, path)


def aliasing(path: Path, curves: Mapping[str, Mapping[str, Any]]) -> Path:
    """Energy of a wave that survives downsampling, against its frequency: one line per method.

    `curves` holds results of `evaluation.aliasing.measure_aliasing` by the name of the method. Where a part of the
    energy became constant brightness, a dotted line leaves it out.
    """
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, where, title in zip(panels, ("axis", "diagonal"), ("waves along one axis", "waves along both axes")):
        for k, (name, curve) in enumerate(curves.items()):
            ours = name.startswith("ghs")
            style = {"color": INK if ours else f"C{k % 10}", "linewidth": 2.4 if name == "ghs" else 1.4}
            dashes = "-" if name == "ghs" or (k % 2 == 0 and not ours) else "--"
            energy, constant = curve[where]["energy"], curve[where]["constant"]
            axes.plot(curve["frequencies"], energy, linestyle=dashes, label=name, **style)
            if max(constant) > 0.05:
                rest = [e - c for e, c in zip(energy, constant)]
                axes.plot(curve["frequencies"], rest, linestyle=":", **style)
        limit = next(iter(curves.values()))["output"] / 2
        axes.axvline(limit, color=INK, linewidth=0.8, linestyle=(0, (1, 3)))
        axes.text(limit, 1.0, " limit of the output", transform=axes.get_xaxis_transform(), va="bottom", fontsize=8)
        axes.set_xlabel("cycles per map")
        axes.set_title(title, fontsize=10, pad=16)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#e3e3e3", linewidth=0.6, zorder=0)
    panels[0].set(ylabel="energy that survives", ylim=(0, None))  # once both have their lines
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    return save(figure, path)


def centred(shift: Sequence[float], size: Sequence[int]) -> tuple[float, ...]:
    """A circular shift as the shorter way: 31 of 32 is one back."""
    return tuple((v + n // 2) % n - n // 2 for v, n in zip(shift, size))


def recorded_shifts(title: str, shifts: Mapping[str, Any]) -> tuple[str, list[tuple[float, ...]], Tensor, Tensor]:
    """What `heatmap` draws of the circular shifts in a record."""
    kept, change = (torch.tensor([[v or 0.0 for v in row] for row in shifts[k]]) for k in ("map", "change_map"))
    where = [centred(shift, kept.shape) for shift in itertools.product(*map(range, kept.shape))]
    return title, where, kept.flatten(), change.flatten()


def heatmap(rows: Sequence[tuple[str, Sequence[Sequence[float]], Tensor, Tensor]], *, dark: bool = False) -> Figure:
    """Agreement (left) and largest change of the scores (right) for each shift, a ring at no shift. Not saved.

    One row for each (title, shifts as (row, column), agreement (S,), change (S,)): a map where the shifts fill a
    grid, dots where they do not.
    """
    ink, paper = ("#e6e8eb", "#16191d") if dark else (INK, "white")
    figure = Figure(figsize=(9, 4 * len(rows)), layout="constrained", facecolor=paper)
    grid = figure.subplots(len(rows), 2, squeeze=False)
    for pair, (title, where, kept, change) in zip(grid, rows):
        lowest, highest = float(kept.min()), float(change.nan_to_num(posinf=0.0).max())
        scales = ((lowest if lowest < 1 else 0.0, 1.0), (0.0, highest or 1.0))
        panels = (("answer kept, share of images", kept), ("largest change of the scores", change))
        for ax, (label, values), (low, high), colours in zip(pair, panels, scales, ("cividis", "magma")):
            y, x = ([float(v) for v in axis] for axis in zip(*where))
            ys, xs = sorted(set(y)), sorted(set(x))
            style: dict[str, Any] = {"cmap": colours, "vmin": low, "vmax": high}
            if len(where) == len(ys) * len(xs) > 1:
                cells = torch.full((len(ys), len(xs)), torch.nan)
                cells[[ys.index(v) for v in y], [xs.index(v) for v in x]] = values.float()
                half = [(axis[-1] - axis[0]) / max(1, len(axis) - 1) / 2 or 0.5 for axis in (xs, ys)]
                edges = (xs[0] - half[0], xs[-1] + half[0], ys[-1] + half[1], ys[0] - half[1])
                drawn = ax.imshow(cells.numpy(), extent=edges, interpolation="nearest", aspect="auto", **style)
            else:
                drawn = ax.scatter(x, y, c=values.numpy(), s=24, edgecolors="none", **style)
                ax.invert_yaxis()
            for width, edge in ((3.5, "black"), (1.5, "white")):
                ax.plot(0, 0, "o", ms=11, mfc="none", mec=edge, mew=width, clip_on=False, zorder=5)
            ax.set_box_aspect(1)
            ax.set_title(f"{title}: {label}", fontsize=9, color=ink)
            ax.set_xlabel("shift in columns", fontsize=8, color=ink)
            ax.set_ylabel("shift in rows", fontsize=8, color=ink)
            ax.set_facecolor(paper)
            bar = figure.colorbar(drawn, ax=ax, shrink=0.85)
            for axes in (ax, bar.ax):
                axes.tick_params(colors=ink, labelsize=8)
            for spine in (*ax.spines.values(), bar.outline):
                spine.set_edgecolor(ink)
                spine.set_linewidth(0.5)
    return figure
