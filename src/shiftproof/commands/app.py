"""`shiftproof app`: the page on which pictures are dragged, served on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from shiftproof.commands.shared import add_data_dir

HELP = "Drag pictures on a page and watch what layers and networks make of them."
EXAMPLES = ("", "--runs demo/runs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_data_dir(parser)
    parser.add_argument("--port", type=int, default=7860, help="of 127.0.0.1; the next free one if it is taken, 0: any")
    parser.add_argument(
        "--runs",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="finished runs, or folders of them, whose networks to show; default: runs and demo/runs",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address and leave the browser alone")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.app import command

    return command.run(options.port, options.runs, options.data_dir, not options.no_browser, options.json)
