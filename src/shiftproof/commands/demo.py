"""`shiftproof demo`: the whole story on what comes with the package, without a download."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "What a shift does to a picture and to small networks, on bundled data; a page at the end."
EXAMPLES = ("", "--out somewhere")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="where everything goes")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.reports import demo

    return demo.run(options.out, options.json)
