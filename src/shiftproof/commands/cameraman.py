"""`shiftproof cameraman`: what one shift does to one image, method by method."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "Shift one image, downsample it with every method, print the difference."
EXAMPLES = ("", "--image photo.jpg --size 64 --shift 0 3")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--image", type=Path, metavar="FILE", help="an image of your own instead of the bundled one")
    parser.add_argument("--size", type=int, default=32, help="pixels on each side after area-averaging")
    parser.add_argument(
        "--shift", type=int, nargs=2, default=(1, 1), metavar=("ROWS", "COLUMNS"), help="the shift that is shown"
    )
    parser.add_argument("--out", type=Path, default=Path("cameraman"), metavar="DIR", help="where the figures go")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.experiments import cameraman

    return cameraman.run(options.image, options.size, tuple(options.shift), options.out, options.json)
