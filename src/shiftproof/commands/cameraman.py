"""`shiftproof cameraman`: what one shift does to one image, method by method."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from shiftproof.commands.shared import wide_console

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
        show(record)
        for path in written:
            print(f"wrote {path}")
    return 0


def show(record: dict[str, Any]) -> None:
    """Print the table of differences."""
    from shiftproof.reports import paper_tables, table_formats

    wide_console(100).print(table_formats.to_terminal(paper_tables.cameraman(record)))


def perform(
    out: Path, path: Path | None = None, size: int = 32, shift: tuple[int, int] = (1, 1)
) -> tuple[dict[str, Any], dict[str, Path]]:
    """Write `cameraman.json` and figures 2 to 4; returns the numbers and the figures by name."""
    import torch

    from shiftproof.experiments import cameraman
    from shiftproof.ghs.functions import gauss_hermite
    from shiftproof.reports import method_figures
    from shiftproof.reports.paper_figures import FILES
    from shiftproof.safe_io.atomic import atomic_write

    image, name = cameraman.load_image(path, size)
    record = cameraman.measure_differences(image, name, shift)
    moved, outputs = cameraman.outputs(
        image, shift, {"max pooling": "max", "LPF-3": "lpf", "APS-3": "aps", "GHS": "ghs"}
    )
    sigma, x = 0.75, torch.linspace(-4.2, 4.2, 801, dtype=torch.float64)
    figures = {
        "figure2": method_figures.functions(out / FILES["figure2"], x, gauss_hermite(5, x, sigma), sigma),
        "figure3": method_figures.process(out / FILES["figure3"], shift, *cameraman.sampling_steps(image, shift)),
        "figure4": method_figures.comparison(out / FILES["figure4"], image, moved, shift, outputs),
    }
    atomic_write(out / "cameraman.json", (json.dumps(record, indent=2) + "\n").encode())
    return record, figures
