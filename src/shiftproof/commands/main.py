"""The entry point: the parser of all commands, and their errors as messages. `shiftproof --help` imports no torch."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from types import ModuleType

import shiftproof
from shiftproof import progress
from shiftproof.commands.parser import Parser
from shiftproof.commands.shared import add_output, naming_arguments

# modules of this package; each has HELP, EXAMPLES, `add_arguments(parser)` and `run(options)`
COMMANDS = (
    "demo",
    "app",
    "cameraman",
    "measure",
    "convert",
    "data",
    "train",
    "finetune",
    "evaluate",
    "sweep",
    "reproduce",
    "report",
    "records",
    "bench",
    "completion",
)
# what an argument that reaches the user is called on the command line
_ARGUMENTS = {"jobs": "--jobs", "preset": "--preset", "model.name": "--models", "data.name": "--dataset"}
# optional modules, and the extra that installs each
_EXTRAS = {
    "e2cnn": "e2",
    "gradio": "app",
    "jsonschema": "train",
    "matplotlib": "report",
    "PIL": "report",
    "ray": "ray",
    "rich": "report",
    "safetensors": "train",
    "shtab": "completion",
    "skimage": "report",
    "sklearn": "train",
    "tensorboard": "train",
}
# modules without an extra: commands need them only for certain arguments
_PACKAGES = ("timm", "torchvision", "onnx", "onnxruntime", "onnxscript")

START = """\
first steps:
  shiftproof demo                                   a tour on bundled data; writes one page
  shiftproof app                                    drag pictures, watch layers and networks
  shiftproof measure model.pt2 photos/              how much your network's output changes when pictures move
  shiftproof convert timm:resnet18 -o model.pt2     make a network shift-invariant
  shiftproof reproduce all                          every table and figure of the paper

exit codes: 0 success, 1 some parts failed, 2 error (the message says why), 130 stopped by Ctrl-C"""


class _Formatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Shows the default of each argument, except for flags, and keeps the line breaks of the examples."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if not action.default or (action.help and "default" in action.help):
            return action.help
        return super()._get_help_string(action)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; `options.run` is the chosen command's `run`."""
    top = Parser(
        prog="shiftproof",
        description="Convolutional networks that give the same answer when their input moves.",
        epilog=START,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=16),
    )
    top.add_argument("--version", action="version", version=f"shiftproof {shiftproof.__version__}")
    group = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        command: ModuleType = import_module(f"shiftproof.commands.{name}")
        examples = "\n".join(f"  shiftproof {name} {line}".rstrip() for line in command.EXAMPLES)
        sub = group.add_parser(
            name,
            help=command.HELP,
            description=command.HELP,
            epilog=f"examples:\n{examples}",
            formatter_class=_Formatter,
        )
        command.add_arguments(sub)
        add_output(sub)
        sub.set_defaults(run=command.run, command=name)
    return top


def parsers(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and all its subparsers."""
    yield top
    for argument in top._actions:
        if isinstance(argument, argparse._SubParsersAction):
            for sub in argument.choices.values():
                yield from parsers(sub)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        options = parser().parse_args(arguments)
        with progress.hushed(options.quiet), naming_arguments(_ARGUMENTS):
            return int(options.run(options))
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _EXTRAS and name not in _PACKAGES:
            raise
        package = f"'shiftproof[{_EXTRAS[name]}]'" if name in _EXTRAS else name
        _complain(f"`shiftproof {options.command}` needs {error.name}: install it with `pip install {package}`.")
    except BrokenPipeError:  # the reader of a pipe has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except FileNotFoundError as error:
        _complain(options.parser.explain_missing(error.filename, options) if error.filename else str(error))
    except (ValueError, OSError) as error:
        _complain(str(error))
    except KeyboardInterrupt as stop:
        _complain(str(stop) or "stopped.")
        return 130
    return 2


def _complain(message: str) -> None:
    print(f"shiftproof: {message}", file=sys.stderr)
