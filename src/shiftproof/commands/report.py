"""`shiftproof report`: one page with everything that some records say."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "One page with all tables, figures and heat maps of some records."
EXAMPLES = ("results/records", "records/*.json -o page.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "places",
        nargs="*",
        type=Path,
        default=[Path("results/records")],
        metavar="FILE",
        help="records, or folders of them; default: results/records",
    )
    parser.add_argument("--preset", help="the runs to show; default: the preset most records have")
    parser.add_argument("-o", "--out", type=Path, default=Path("report.html"), metavar="FILE", help="the page")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.reports import page

    return page.run(options.places, options.preset, options.out, options.json)
