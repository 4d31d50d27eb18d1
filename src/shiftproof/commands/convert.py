"""`shiftproof convert`: rebuild a network, print the report, write it to a file."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "Make a network shift-proof: print what was replaced, write it to a file."
EXAMPLES = ("timm:resnet18 -o model.pt2", "mynet:make --weights w.safetensors --size 64 -o model.onnx")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("source", metavar="SOURCE", help="module:factory of the network, or timm:NAME")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="a state_dict, as .safetensors or .pt")
    parser.add_argument("--method", default="ghs", help="the downsampling method, by name")
    parser.add_argument("--padding", default="circular", help="circular, reflect, replicate, zeros, or keep")
    parser.add_argument("--size", type=int, nargs="+", metavar="PIXELS", help="of the inputs: one number, or two")
    parser.add_argument("--loose", action="store_true", help="convert what can be converted and list the rest")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="model.pt2 or model.onnx")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.models import loading

    return loading.run(
        options.source,
        options.weights,
        options.method,
        options.padding,
        options.size,
        options.loose,
        options.out,
        options.json,
    )
