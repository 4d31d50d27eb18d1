"""Figures of results: erased squares, cost, aliasing, heat maps over shifts. All are drawn from records and arrays."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from shiftproof.experiments.records import Record, lookup

INK = "#1b1f24"
COLOURS = ("#1b1f24", "#0b6e99", "#d1495b", "#edae49", "#5b8c5a")
DPI = 300


def save(figure: Figure, path: Path) -> Path:
    """Write a figure to a file; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, bbox_inches="tight", pad_inches=0.08)
    return path


def _panels(height: float = 3.8, **options: Any) -> tuple[Figure, Any]:
    """Two panels side by side without a frame at the top and on the right, on a faint grid."""
    figure = Figure(figsize=(9.6, height), layout="constrained")
    panels = figure.subplots(1, 2, **options)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#e3e3e3", linewidth=0.6, zorder=0)
    return figure, panels


def _save_with_legend(figure: Figure, axes: Axes, path: Path) -> Path:
    """Name the lines of a panel on the right of the figure, and write it."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    return save(figure, path)


def erasure(path: Path, series: Mapping[str, Mapping[str, Sequence[float | None]]], sizes: Sequence[int]) -> Path:
    """Figure 5: consistency (left) and accuracy (right) by the side of the erased square, one line per method.

    `series` holds the percentages `consistency` and `accuracy` of each method at the `sizes`, None if not run.
    """
    figure, panels = _panels()
    for axes, what in zip(panels, ("consistency", "accuracy")):
        for k, (name, values) in enumerate(series.items()):
            points = [(x, y) for x, y in zip(sizes, values[what]) if y is not None]
            if points:
                style = {"color": f"C{k % 10}", "marker": "o", "markersize": 4, "linewidth": 1.6}
                axes.plot(*zip(*points), label=name, **style)
        axes.set(xlabel="side of the erased square, pixels", ylabel=f"{what}, %", xticks=list(sizes))
    return _save_with_legend(figure, panels[0], path)


def scaling(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Time and memory of every method against the size of the map, both axes logarithmic."""
    figure, (left, right) = _panels(4.2)
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
        if all(row["bytes"][name] > 2**10 for row in rows):  # plain subsampling is a view and allocates nothing
            right.plot(sizes, [row["bytes"][name] / 2**20 for row in rows], label=name, **style)
    batch, channels = rows[0]["size"][:2]
    left.set(title="forward pass", ylabel="milliseconds")
    right.set(title="tensors held at once, result included", ylabel="MiB")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel=f"pixels on each side, {batch} maps of {channels} channels")
        axes.set_xticks(sizes, [str(n) for n in sizes])
        axes.minorticks_off()
    return _save_with_legend(figure, left, path)


def aliasing(path: Path, curves: Mapping[str, Mapping[str, Any]]) -> Path:
    """Energy of a wave that survives downsampling, against its frequency: one line per method.

    `curves` holds the results of `measure_aliasing`, by method. Where part of the energy turned into constant
    brightness, a dotted line shows the energy without it.
    """
    figure, panels = _panels(sharey=True)
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
    panels[0].set(ylabel="energy that survives", ylim=(0, None))  # once both have their lines
    return _save_with_legend(figure, panels[0], path)


def centered(shift: Sequence[float], size: Sequence[int]) -> tuple[float, ...]:
    """A circular shift, taken the shorter way round: 31 of 32 is -1."""
    return tuple((v + n // 2) % n - n // 2 for v, n in zip(shift, size))


def recorded_shifts(title: str, shifts: Mapping[str, Any]) -> tuple[str, list[tuple[float, ...]], Tensor, Tensor]:
    """The row of `heatmap` for the circular shifts in a record."""
    kept, change = (torch.tensor([[v or 0.0 for v in row] for row in shifts[k]]) for k in ("map", "change_map"))
    where = [centered(shift, kept.shape) for shift in itertools.product(*map(range, kept.shape))]
    return title, where, kept.flatten(), change.flatten()


def heatmap(rows: Sequence[tuple[str, Sequence[Sequence[float]], Tensor, Tensor]], *, dark: bool = False) -> Figure:
    """Agreement (left) and largest change of the scores (right) for each shift, a ring at no shift. Not saved.

    `rows` holds (title, shifts as (row, column), agreement (S,), change (S,)). Shifts that fill a grid are drawn as a
    map, others as dots.
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


def draw_record(record: Record, folder: Path) -> list[Path]:
    """Draw what a record has numbers for; returns the files, which carry the name of the record's own."""
    written = []
    stem = f"{record['name']}-{record['key'][:8]}"
    found = lookup(record["metrics"], "consistency", "all_pairs")
    if found is not None:
        rows = [recorded_shifts("circular shifts", found)]
        written.append(save(heatmap(rows), folder / f"{stem}-shifts.png"))
    curve = lookup(record["metrics"], "aliasing")
    if curve is not None:
        written.append(aliasing(folder / f"{stem}-aliasing.png", {curve["method"]: curve}))
    return written
