"""The command line. Commands import what they need when they run: `shiftproof --help` imports no torch."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from shiftproof import checks, progress
from shiftproof.arguments import Handler, parser

# the extra that brings a module which the core does not need
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
# modules that a command needs only where the user names them
_PACKAGES = ("timm", "onnx", "onnxruntime", "onnxscript")


def _cameraman(options: argparse.Namespace) -> int:
    from shiftproof.reports import cameraman

    return cameraman.run(options.image, options.size, tuple(options.shift), options.out, options.json)


def _app(options: argparse.Namespace) -> int:
    from shiftproof.app import command

    return command.run(options.port, options.runs, options.data_dir, not options.no_browser, options.json)


def _demo(options: argparse.Namespace) -> int:
    from shiftproof.reports import demo

    return demo.run(options.out, options.json)


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


def _data(options: argparse.Namespace) -> int:
    from shiftproof.data import commands

    if options.action == "get":
        return commands.run_get(options.names, options.data_dir, options.json)
    if options.action == "import":
        return commands.run_import(options.folder, options.data_dir, options.json)
    return commands.run_list(options.data_dir, options.json)


def _train(options: argparse.Namespace) -> int:
    from shiftproof.training import command

    return command.run(options)


def _sweep(options: argparse.Namespace) -> int:
    from shiftproof.reports import plans, sweep
    from shiftproof.training.config import parse_pairs

    configs = plans.plan(
        options.name,
        options.preset,
        models=options.models or (),
        methods=options.methods or (),
        seeds=options.seeds or (),
        dataset=options.dataset,
        changes=parse_pairs(options.set),
    )
    return sweep.run(
        configs,
        settings=plans.settings(options.name, options.preset),
        runs=options.runs,
        out=options.records,
        data_dir=options.data_dir,
        jobs=options.jobs,
        engine=options.engine,
        address=options.address,
        as_json=options.json,
    )


def _evaluate(options: argparse.Namespace) -> int:
    from shiftproof.evaluation.suite import PARTS
    from shiftproof.reports import evaluate

    settings = evaluate.Settings(
        parts=tuple(options.parts or PARTS),
        on=options.on,
        limit=options.limit,
        shift_images=options.shift_images,
        seed=options.seed,
    )
    return evaluate.run(
        options.source,
        options.dataset,
        options.weights,
        options.folder,
        settings,
        options.data_dir,
        options.records,
        options.json,
    )


def _report(options: argparse.Namespace) -> int:
    from shiftproof.reports import report

    return report.run(options.places, options.preset, options.out, options.json)


def _reproduce(options: argparse.Namespace) -> int:
    from shiftproof.reports import reproduce

    return reproduce.run(
        options.names,
        options.preset,
        seeds=options.seeds or (),
        models=options.models or (),
        draw_only=options.draw_only,
        runs=options.runs,
        folder=options.records or options.out / "records",
        out=options.out,
        data_dir=options.data_dir,
        jobs=options.jobs,
        as_json=options.json,
    )


def _measure(options: argparse.Namespace) -> int:
    from shiftproof.reports import measure

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


def _records(options: argparse.Namespace) -> int:
    from shiftproof.reports import records

    return records.run(options.action, options.places, options.json)


def _completion(options: argparse.Namespace) -> int:
    import shtab

    whole = parser(HANDLERS)
    checks.choice("SHELL", options.shell, shtab.SUPPORTED_SHELLS)
    for sub in parsers(whole):
        for argument in sub._actions:
            if argument.type is Path:
                argument.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(whole, options.shell))
    return 0


def parsers(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser, and those of its commands and their actions."""
    yield top
    for argument in top._actions:
        if isinstance(argument, argparse._SubParsersAction):
            for sub in argument.choices.values():
                yield from parsers(sub)


HANDLERS: dict[str, Handler] = {
    "demo": _demo,
    "app": _app,
    "cameraman": _cameraman,
    "measure": _measure,
    "convert": _convert,
    "data": _data,
    "train": _train,
    "evaluate": _evaluate,
    "sweep": _sweep,
    "reproduce": _reproduce,
    "report": _report,
    "records": _records,
    "bench": _bench,
    "completion": _completion,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        options = parser(HANDLERS).parse_args(arguments)
        with progress.hushed(options.quiet):
            return int(options.run(options))
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _EXTRAS and name not in _PACKAGES:
            raise
        wanted = f"'shiftproof[{_EXTRAS[name]}]'" if name in _EXTRAS else name
        _complain(f"`shiftproof {options.command}` needs {error.name}: install it with `pip install {wanted}`.")
    except BrokenPipeError:  # whoever read this has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError) as error:
        _complain(str(error))
    except KeyboardInterrupt as stop:
        _complain(str(stop) or "stopped.")
        return 130
    return 2


def _complain(message: str) -> None:
    print(f"shiftproof: {message}", file=sys.stderr)
