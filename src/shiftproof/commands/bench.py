"""`shiftproof bench`: what layers and networks cost, as ratios measured in one run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from shiftproof import checks
from shiftproof.commands.shared import wide_console

HELP = "Time every method in one run: layers, training steps of networks, growing maps, the front."
EXAMPLES = ("", "layers --quick")
TITLES = {
    "layers": "Time of one downsampling layer at stride 2: milliseconds (ratio to max pooling)",
    "networks": "Time of a training step: milliseconds (ratio to strided; the same per FLOP of convolution)",
    "scaling": "Time of one forward pass at stride 2: milliseconds (MiB held at once)",
    "front": "Time to roll a picture to its pivot: milliseconds (share of a ResNet-18's inference)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--out", type=Path, default=Path("bench"), metavar="DIR", help="where record and figure go")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(TITLES)}; default: all of them")
    parser.add_argument("--quick", action="store_true", help="few repetitions, for a first look")


def run(options: argparse.Namespace) -> int:
    """Measure, print the tables, write one record per part and the scaling plot; returns the exit code."""
    from shiftproof.experiments import bench
    from shiftproof.safe_io.atomic import atomic_write

    parts = [checks.choice("PART", part, bench.PARTS) for part in options.parts] or list(bench.PARTS)
    console = None if options.json else wide_console(150)  # rich is an extra: if missing, fail before the long run
    if "scaling" in parts:
        from shiftproof.reports import figures  # as is matplotlib
    records = {}
    for part in parts:
        record = records[part] = bench.measure_part(part, options.quick)
        written = [options.out / f"{part}.json"]
        atomic_write(written[0], (json.dumps(record, indent=2) + "\n").encode())
        if part == "scaling":
            written.append(figures.scaling(options.out / "scaling.png", record["rows"]))
        if console is not None:
            console.print(_times_table(part, record["rows"]))
            if record["targets"]:
                console.print(_targets_table(record["targets"]))
            console.print(f"wrote {', '.join(map(str, written))}", highlight=False, soft_wrap=True)
    if options.json:
        print(json.dumps(records, indent=2))
    return 0


def _times_table(part: str, rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(title=TITLES[part], caption_justify="left")
    table.caption = "Median over rounds; in each round every candidate is timed once."
    if part == "layers":
        table.caption += " floor: the bare matrix products on an aligned map."
    heads = [k for k in ("network", "size", "layout", "pass") if k in rows[0]]
    names = list(dict.fromkeys(name for row in rows for name in row["times"]))
    for column in heads:
        table.add_column(column, no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        cells = [_cell(part, row, name) if name in row["times"] else "" for name in names]
        table.add_row(*("x".join(map(str, row[h])) if h == "size" else row[h] for h in heads), *cells)
    return table


def _cell(part: str, row: dict[str, Any], name: str) -> str:
    median = row["times"][name]["median"]
    milliseconds = f"{median * 1e3:.2f}"
    if part == "scaling":
        return f"{milliseconds}\n({row['bytes'][name] / 2**20:.2f})"
    baseline = {"layers": "max", "front": "ResNet-18"}.get(part, "strided")
    ratio = median / row["times"][baseline]["median"]
    if part == "front":
        return f"{milliseconds}\n({ratio:.1%})"
    if part == "layers":
        return f"{milliseconds}\n({ratio:.2f})"
    return f"{milliseconds}\n({ratio:.2f}; {ratio * row['flops']['strided'] / row['flops'][name]:.2f})"


def _targets_table(targets: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table("target", title="Targets")
    table.add_column("measured", justify="right")
    table.add_column("allowed", justify="right")
    for row in targets:
        style = "green" if row["ratio"] <= row["allowed"] else "red"
        table.add_row(row["target"], f"{row['ratio']:.2g}", f"{row['allowed']:.2g}", style=style)
    return table
