"""The cameraman experiment (paper, section 4.4): what one shift does to one image, method by method."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.experiments.paper import CAMERAMAN_AD
from shiftproof.invariance import shift_error
from shiftproof.layers import Downsample, create_downsample
from shiftproof.reports import figures
from shiftproof.safe_io.atomic import atomic_write
from shiftproof.safe_io.pictures import fit, read_picture

# label, registered method, its options, the paper's name for it
ROWS: list[tuple[str, str, dict[str, Any], str | None]] = [
    ("max pooling", "max", {}, "max"),
    ("LPF-3", "lpf", {}, "lpf"),
    ("max + LPF-3", "lpf", {"dense_max": 2}, None),
    ("APS-3", "aps", {}, "aps"),
    ("max + APS-3", "aps", {"dense_max": 2}, None),
    ("GHS (paper)", "ghs-paper", {}, "ghs"),
    ("GHS", "ghs", {}, None),
]


def load_image(path: Path | None, size: int) -> tuple[Tensor, str]:
    """A grey image of `size` x `size` pixels in [0, 1] and its name. (1, 1, size, size)

    The image is cut to its central square and area-averaged. Without a `path` it is scikit-image's `camera()`, which
    is not the photograph of the classic test image.
    """
    size = checks.integer("size", size, minimum=2)
    if path is None:
        from skimage import data

        camera: Any = data.camera  # untyped
        grey, name = torch.from_numpy(np.asarray(camera(), dtype=np.float64) / 255)[None], "scikit-image camera()"
    else:
        grey, name = read_picture(path, channels=1), path.name
    side = min(grey.shape[1:])
    if side < size:
        raise ValueError(f"`size` (={size}) must be at most the image's shorter side (={side}).")
    return fit(grey, (size, size)).float()[None], name


def measure(image: Tensor, shift: tuple[int, int]) -> list[dict[str, Any]]:
    """One row per method: the absolute difference (AD) after `shift` and over all circular shifts."""
    rows = []
    for label, method, options, in_paper in ROWS:
        layer = create_downsample(method, channels=1, **options)
        row: dict[str, Any] = {"label": label, "method": method, "options": options}
        row["paper_ad"] = None if in_paper is None else CAMERAMAN_AD[in_paper]
        for name, shifts in (("shift", [shift]), ("all", "all")):
            error = shift_error(layer, image, shifts)
            pixels = math.prod(layer(image).shape[2:])
            row[name] = {"sum": error.mean * pixels, "mean": error.mean, "max": error.max, "exact": error.exact}
        rows.append(row)
    return rows


def draw(
    out: Path, path: Path | None = None, size: int = 32, shift: tuple[int, int] = (1, 1)
) -> tuple[dict[str, Any], dict[str, Path]]:
    """The numbers, written to `cameraman.json`, and figures 2 to 4 by name."""
    image, name = load_image(path, size)
    rows = measure(image, shift)
    panels = [(label, _layer(label)) for label in ("max pooling", "LPF-3", "APS-3", "GHS")]
    pictures = {
        "figure2": figures.functions(out / "figure2_functions.png"),
        "figure3": figures.process(out / "figure3_process.png", image, shift),
        "figure4": figures.comparison(out / "figure4_comparison.png", image, shift, panels),
    }
    record = {"image": name, "size": size, "shift": list(shift), "range": [0, 1], "rows": rows}
    atomic_write(out / "cameraman.json", (json.dumps(record, indent=2) + "\n").encode())
    return record, pictures


def run(path: Path | None, size: int, shift: tuple[int, int], out: Path, as_json: bool) -> int:
    """`shiftproof cameraman`: print the table, write figures 2 to 4 and the numbers."""
    record, pictures = draw(out, path, size, shift)
    written = [*pictures.values(), out / "cameraman.json"]
    if as_json:
        print(json.dumps(record | {"files": [str(p) for p in written]}, indent=2))
    else:
        show(record, written)
    return 0


def _layer(label: str) -> Downsample:
    method, options = next((m, o) for name, m, o, _ in ROWS if name == label)
    return create_downsample(method, channels=1, **options)


def show(record: dict[str, Any], written: list[Path]) -> None:
    """Print the table, and where the files are."""
    from rich.console import Console
    from rich.table import Table

    size, shift = record["size"], tuple(record["shift"])
    table = Table(
        title=f"AD after a circular shift: {record['image']}, {size} x {size}, range 0..1",
        caption="AD: absolute difference between the outputs for the image and the shifted image. Paper: section 4.4, "
        "another photograph; shift and kind of AD are not stated. All shifts: sum and mean averaged, max the largest. "
        "max + ..: after a dense 2 x 2 maximum. APS is equivariant: its output moves along, and AD counts that.",
        caption_justify="left",
    )
    table.add_column("method", no_wrap=True)
    table.add_column("paper", justify="right")
    for head in (f"shift {shift[0]},{shift[1]}", f"all {size * size:,}"):
        for kind in ("sum", "mean", "max"):
            table.add_column(f"{head}\n{kind}" if kind == "sum" else f"\n{kind}", justify="right", no_wrap=True)
    for row in record["rows"]:
        exact = row["all"]["exact"]
        numbers = [row[part][kind] for part in ("shift", "all") for kind in ("sum", "mean", "max")]
        cells = [f"{n:.3f}" if n else "0" for n in numbers]  # "0" is zero, not almost
        paper = "" if row["paper_ad"] is None else f"{row['paper_ad']:.2f}"
        table.add_row(row["label"], paper, *cells, style="bold green" if exact else None)
    console = Console()
    console.print(table)
    for p in written:
        console.print(f"wrote {p}", highlight=False, soft_wrap=True)
