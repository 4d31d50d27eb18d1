"""`shiftproof demo`: the whole story on bundled data, without a download.

First what a shift does to one picture, layer by layer; then small networks on handwritten digits, trained on the spot.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from shiftproof.commands import cameraman
from shiftproof.commands.shared import wide_console

HELP = "What a shift does to a picture and to small networks, on bundled data; a page at the end."
EXAMPLES = ("", "--out somewhere")
PRESET = "laptop"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="where everything goes")


def run(options: argparse.Namespace) -> int:
    """Write figures, runs, records and the page; what is on record is not run again. Returns the exit code."""
    from shiftproof.experiments import catalogue, sweep
    from shiftproof.experiments.records import RecordIndex
    from shiftproof.reports import html_report, paper_tables, table_formats
    from shiftproof.safe_io.atomic import atomic_write

    out: Path = options.out
    record, figures = cameraman.perform(out)
    if not options.json:
        cameraman.show(record)
        print()
    configs, settings = catalogue.configs("digits", PRESET, seeds=[0]), catalogue.settings("digits", PRESET)
    folder, page = out / "records", out / "report.html"
    recorded = sweep.RecordedRuns(folder)
    failed = sweep.complete(configs, settings=settings, runs=out / "runs", recorded=recorded, data_dir=None)
    index = RecordIndex.read([folder] if folder.is_dir() else [])
    table = paper_tables.make("digits", index, PRESET)
    atomic_write(page, html_report.build_demo(index, PRESET, table, record, figures["figure4"]).encode())
    if options.json:
        print(json.dumps({"cameraman": record, "digits": table.to_dict(), "report": str(page)}, indent=2))
    else:
        wide_console(80).print(table_formats.to_terminal(table, columns=4))
        print(f"The page with all of it: {page}")
    return 1 if failed else 0
