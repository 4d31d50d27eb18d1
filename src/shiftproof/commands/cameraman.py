"""`shiftproof cameraman`: what one shift does to one image, method by method."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

HELP = "Shift one image, downsample it with every method, print the difference."
EXAMPLES = ("", "--image photo.jpg --size 64 --shift 0 3")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--image", type=Path, metavar="FILE", help="an image of your own instead of the bundled one")
    parser.add_argument("--size", type=int, default=32, help="pixels on each side after area-averaging")
    parser.add_argument(
        "--shift", type=int, nargs=2, default=(1, 1), metavar=("ROWS", "COLUMNS"), help="the shift to draw and print"
    )
    parser.add_argument("--out", type=Path, default=Path("cameraman"), metavar="DIR", help="where the figures go")


def run(options: argparse.Namespace) -> int:
    """Measure, draw and print; returns the exit code."""
    record, figures = perform(options.out, options.image, options.size, tuple(options.shift))
    written = [*figures.values(), options.out / "cameraman.json"]
    if options.json:
        print(json.dumps(record | {"files": [str(path) for path in written]}, indent=2))
    else:
        show(record, written)
    return 0


def perform(
    out: Path, path: Path | None = None, size: int = 32, shift: tuple[int, int] = (1, 1)
) -> tuple[dict[str, Any], dict[str, Path]]:
    """Write `cameraman.json` and figures 2 to 4; returns the numbers and the figures by name."""
    from shiftproof.data.store import atomic_write
    from shiftproof.experiments import cameraman, illustrations
    from shiftproof.reports import method_figures
    from shiftproof.reports.paper_figures import FILES

    image, name = cameraman.load_image(path, size)
    record = cameraman.measure_differences(image, name, shift)
    moved, outputs = illustrations.outputs(
        image, shift, {"max pooling": "max", "LPF-3": "lpf", "APS-3": "aps", "GHS": "ghs"}
    )
    sigma = 0.75
    x, values = illustrations.function_curves(5, sigma)
    figures = {
        "figure2": method_figures.functions(out / FILES["figure2"], x, values, sigma),
        "figure3": method_figures.process(out / FILES["figure3"], shift, *illustrations.sampling_steps(image, shift)),
        "figure4": method_figures.comparison(out / FILES["figure4"], image, moved, shift, outputs),
    }
    atomic_write(out / "cameraman.json", (json.dumps(record, indent=2) + "\n").encode())
    return record, figures


def show(record: dict[str, Any], written: list[Path]) -> None:
    """Print the table, and where the files are."""
    from rich.console import Console
    from rich.table import Table

    size, shift = record["size"], tuple(record["shift"])
    table = Table(
        title=f"AD after a circular shift: {record['image']}, {size} x {size}, range 0..1",
        caption="AD: absolute difference between the outputs for the image and for the shifted image. Paper: section "
        "4.4, another photograph; it states neither the shift nor the kind of AD. All shifts: sum and mean averaged, "
        "max the largest. max + ..: after a dense 2 x 2 maximum. APS is equivariant: its output shifts along, and AD "
        "counts that.",
        caption_justify="left",
    )
    table.add_column("method", no_wrap=True)
    table.add_column("paper", justify="right")
    for head in (f"shift {shift[0]},{shift[1]}", f"all {size * size:,}"):
        for kind in ("sum", "mean", "max"):
            table.add_column(f"{head}\n{kind}" if kind == "sum" else f"\n{kind}", justify="right", no_wrap=True)
    for row in record["rows"]:
        numbers = [row[part][kind] for part in ("shift", "all") for kind in ("sum", "mean", "max")]
        cells = [f"{n:.3f}" if n else "0" for n in numbers]  # "0" is exactly zero
        paper = "" if row["paper_ad"] is None else f"{row['paper_ad']:.2f}"
        table.add_row(row["label"], paper, *cells, style="bold green" if row["all"]["exact"] else None)
    console = Console()
    console.print(table)
    for path in written:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
