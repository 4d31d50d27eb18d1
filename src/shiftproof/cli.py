"""The command line. Commands import what they need when they run: `shiftproof --help` imports no torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import shiftproof

# the extra that brings a module which the core does not need
_EXTRAS = {"matplotlib": "report", "PIL": "report", "rich": "report", "safetensors": "train", "skimage": "report"}
# modules that a command needs only where the user names them
_PACKAGES = ("timm", "onnx", "onnxscript")


def _cameraman(options: argparse.Namespace) -> int:
    from shiftproof.reports import cameraman

    return cameraman.run(options.image, options.size, tuple(options.shift), options.out, options.json)


def _bench(options: argparse.Namespace) -> int:
    from shiftproof.reports import costs

    return costs.run(options.out, options.json, options.quick, options.parts or list(costs.PARTS))


def _convert(options: argparse.Namespace) -> int:
    from shiftproof.models import files

    return files.run(
        options.source,
        options.weights,
        options.method,
        options.padding,
        options.size,
        options.loose,
        options.out,
        options.json,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shiftproof",
        description="Convolutional networks that give the same answer when their input moves.",
    )
    parser.add_argument("--version", action="version", version=f"shiftproof {shiftproof.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name, help=text, description=text, formatter_class=argparse.ArgumentDefaultsHelpFormatter
        )
        sub.set_defaults(run=run, command=name)
        sub.add_argument("--json", action="store_true", help="print the result as JSON instead of a table")
        return sub

    sub = command("cameraman", _cameraman, "Shift one image, downsample it with every method, print the difference.")
    sub.add_argument("--image", type=Path, metavar="FILE", help="an image of your own instead of the bundled one")
    sub.add_argument("--size", type=int, default=32, help="pixels on each side after area-averaging")
    sub.add_argument(
        "--shift", type=int, nargs=2, default=(1, 1), metavar=("ROWS", "COLUMNS"), help="the shift that is shown"
    )
    sub.add_argument("--out", type=Path, default=Path("cameraman"), metavar="DIR", help="where the figures go")

    sub = command("bench", _bench, "Time every method in one run: layers, training steps of networks, growing maps.")
    sub.add_argument("--out", type=Path, default=Path("bench"), metavar="DIR", help="where record and figure go")
    sub.add_argument("parts", nargs="*", metavar="PART", help="layers, networks or scaling; all of them by default")
    sub.add_argument("--quick", action="store_true", help="few repetitions: a look, not a measurement")

    sub = command("convert", _convert, "Make a network shift-proof: print what was replaced, write it to a file.")
    sub.add_argument("source", metavar="SOURCE", help="module:factory of the network, or timm:NAME")
    sub.add_argument("--weights", type=Path, metavar="FILE", help="a state_dict, as .safetensors or .pt")
    sub.add_argument("--method", default="ghs", help="the downsampling method, by name")
    sub.add_argument("--padding", default="circular", help="circular, reflect, replicate, zeros, or keep")
    sub.add_argument("--size", type=int, nargs="+", metavar="PIXELS", help="of the inputs: one number, or two")
    sub.add_argument("--loose", action="store_true", help="convert what can be converted and list the rest")
    sub.add_argument("-o", "--out", type=Path, metavar="FILE", help="model.pt2 or model.onnx")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _EXTRAS and name not in _PACKAGES:
            raise
        wanted = f"'shiftproof[{_EXTRAS[name]}]'" if name in _EXTRAS else name
        _complain(f"`shiftproof {options.command}` needs {error.name}: install it with `pip install {wanted}`.")
    except (ValueError, OSError) as error:
        _complain(str(error))
    return 2


def _complain(message: str) -> None:
    print(f"shiftproof: {message}", file=sys.stderr)
