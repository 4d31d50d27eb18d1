"""`shiftproof measure`: how far a network's answer moves when pictures do."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "How far a network's answer moves when your pictures do; writes a page."
EXAMPLES = ("model.pt2 photos/", "timm:resnet18 cat.jpg --mean imagenet --size 64", "model.onnx a.png --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("source", metavar="MODEL", help="model.pt2, model.onnx, module:factory or timm:NAME")
    parser.add_argument("images", nargs="+", type=Path, metavar="IMAGES", help="pictures, or folders of them")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="a state_dict for module:factory or timm:NAME")
    parser.add_argument("--size", type=int, metavar="PIXELS", help="on each side, where the model does not fix it")
    parser.add_argument("--mean", nargs="+", metavar="VALUE", help="per channel, or imagenet; default: none")
    parser.add_argument("--std", nargs="+", metavar="VALUE", help="per channel, or imagenet; default: none")
    parser.add_argument(
        "--shifts", metavar="N", help="all, or the number of a sample; default: all where that is feasible"
    )
    parser.add_argument("--kinds", nargs="+", metavar="KIND", help="circular, cropped, fractional; default: all three")
    parser.add_argument("-o", "--out", type=Path, default=Path("measure.html"), metavar="FILE", help="the page")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.measurement import measure

    return measure.run(
        options.source,
        options.images,
        options.weights,
        options.size,
        options.mean,
        options.std,
        options.shifts,
        options.kinds,
        options.out,
        options.json,
    )
