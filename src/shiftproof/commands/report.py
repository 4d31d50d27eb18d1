"""`shiftproof report`: all tables, figures and heat maps of some records on one page."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from shiftproof.commands.shared import add_places

HELP = "One page with all tables, figures and heat maps of some records."
EXAMPLES = ("results/records", "records/*.json -o page.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_places(parser, "results/records")
    parser.add_argument("--preset", help="the runs to show; default: the preset most records have")
    parser.add_argument("-o", "--out", type=Path, default=Path("report.html"), metavar="FILE", help="the page")


def run(options: argparse.Namespace) -> int:
    """Write the page of the records in files and folders; returns the exit code."""
    from shiftproof.experiments.records import RecordIndex
    from shiftproof.reports import html_report
    from shiftproof.safe_io.atomic import atomic_write

    index = RecordIndex.read(options.places)
    if not index.records:
        raise ValueError(f"{', '.join(map(str, options.places))}: no records there.")
    presets = Counter(r["config"]["preset"] for r in index.records.values() if r["config"] is not None)
    preset = options.preset or (presets.most_common(1)[0][0] if presets else "laptop")
    atomic_write(options.out, html_report.build(index, preset).encode())
    summary = {"file": str(options.out), "records": len(index.records), "preset": preset}
    print(json.dumps(summary) if options.json else f"wrote {options.out}")
    return 0
