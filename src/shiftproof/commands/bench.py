"""`shiftproof bench`: what layers and networks cost, as ratios measured in one run."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "Time every method in one run: layers, training steps of networks, growing maps."
EXAMPLES = ("", "layers --quick")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--out", type=Path, default=Path("bench"), metavar="DIR", help="where record and figure go")
    parser.add_argument("parts", nargs="*", metavar="PART", help="layers, networks or scaling; default: all of them")
    parser.add_argument("--quick", action="store_true", help="few repetitions: a look, not a measurement")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.experiments import bench

    return bench.run(options.out, options.json, options.quick, options.parts or list(bench.PARTS))
