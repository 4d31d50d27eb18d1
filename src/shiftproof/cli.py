"""The command line. Commands import what they need when they run: `shiftproof --help` imports no torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import shiftproof

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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shiftproof",
        description="Convolutional networks that give the same answer when their input moves.",
    )
    parser.add_argument("--version", action="version", version=f"shiftproof {shiftproof.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(
        name: str, run: Callable[[argparse.Namespace], int], text: str, *parents: argparse.ArgumentParser
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=text,
            description=text,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
            parents=list(parents),
        )
        sub.set_defaults(run=run, command=name)
        sub.add_argument("--json", action="store_true", help="print the result as JSON instead of a table")
        return sub

    def action(
        actions: argparse._SubParsersAction[argparse.ArgumentParser],
        name: str,
        text: str,
        *parents: argparse.ArgumentParser,
    ) -> argparse.ArgumentParser:
        inner = actions.add_parser(name, help=text, description=text, parents=list(parents))
        inner.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print the result as JSON")
        return inner

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

    data_dir = argparse.ArgumentParser(add_help=False)
    data_dir.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="where data sets lie: $SHIFTPROOF_DATA, or the platform's cache"
    )
    sub = command("data", _data, "Get, import and list data sets.")
    actions = sub.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    inner = action(actions, "get", "fetch data sets, check them, put them in place", data_dir)
    inner.add_argument("names", nargs="+", metavar="NAME", help="cifar10, cifar100, mnist or mnist-rot")
    inner = action(actions, "import", "take files that are already here, in any official layout", data_dir)
    inner.add_argument("folder", type=Path, metavar="DIR", help="a folder that has them, packed or unpacked")
    action(actions, "list", "show what is there", data_dir)

    settings = argparse.ArgumentParser(add_help=False)
    settings.add_argument("--preset", default="laptop", help="paper, laptop (the default) or smoke")
    settings.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override any setting")
    sub = command("train", _train, "Train a network; a run that was killed goes on with --resume.", data_dir, settings)
    sub.epilog = (
        "Settings for --set and --config (in brackets: what they are unless a preset says otherwise):\n" + _settings()
    )
    sub.formatter_class = argparse.RawDescriptionHelpFormatter
    sub.add_argument("--model", help="resnet18, resnet20, resnet50, resnet56, or e2")
    sub.add_argument("--method", help="the downsampling method, by name; da: strided, trained with circular shifts")
    sub.add_argument("--dataset", help="cifar10, cifar100, mnist, mnist-rot, digits or folder")
    sub.add_argument("--folder", type=Path, metavar="DIR", help="the pictures of `--dataset folder`")
    sub.add_argument("--seed", type=int, help="of weights, order and augmentation")
    sub.add_argument("--config", type=Path, metavar="FILE", help="settings as TOML, on top of the preset")
    sub.add_argument("--out", type=Path, metavar="DIR", help="the folder of the run; default: runs/NAME")
    sub.add_argument("--resume", action="store_true", help="go on with the run in --out")
    sub.add_argument("--quiet", action="store_true", help="no progress")

    sub = command("sweep", _sweep, "Run the experiments of a table that have no record yet.", data_dir, settings)
    sub.add_argument("name", metavar="NAME", help="table1 .. table5, figure5, shifts or ablation")
    sub.add_argument("--models", nargs="+", metavar="MODEL", help="instead of those of the table")
    sub.add_argument("--methods", nargs="+", metavar="METHOD", help="instead of those of the table")
    sub.add_argument(
        "--seeds", nargs="+", type=int, metavar="SEED", help="default: 10 for paper, 2 for laptop, 1 for smoke"
    )
    sub.add_argument("--dataset", help="instead of that of the table")
    sub.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="where the runs go")
    sub.add_argument("--records", type=Path, default=Path("records"), metavar="DIR", help="where the records go")
    sub.add_argument("--jobs", type=int, default=1, help="runs at a time")
    sub.add_argument(
        "--engine",
        default="local",
        help="local, or ray (--runs and data on shared storage)",
    )
    sub.add_argument("--address", help="of the Ray cluster; without it, Ray is started here")

    sub = command(
        "reproduce", _reproduce, "Tables and figures of the paper, from records; run what is missing.", data_dir
    )
    known = "table1 .. table6, figure1 .. figure5, cameraman, shifts, ablation; default: all"
    sub.add_argument("names", nargs="*", metavar="NAME", help=known)
    sub.add_argument("--preset", default="laptop", help="paper, laptop or smoke")
    sub.add_argument(
        "--seeds", nargs="+", type=int, metavar="SEED", help="default: 10 for paper, 2 for laptop, 1 for smoke"
    )
    sub.add_argument("--models", nargs="+", metavar="MODEL", help="train these networks instead of the preset's")
    sub.add_argument("--draw-only", action="store_true", help="run nothing, draw what there is")
    sub.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="where the runs go")
    sub.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="where tables and figures go")
    sub.add_argument("--records", type=Path, metavar="DIR", help="where the records are; default: OUT/records")
    sub.add_argument("--jobs", type=int, default=1, help="runs at a time")

    sub = command("report", _report, "One page with all tables, figures and heat maps of some records.")
    sub.add_argument("places", nargs="*", type=Path, default=[Path("results/records")], metavar="FILE", help="records")
    sub.add_argument("--preset", help="the runs to show; default: the preset most records have")
    sub.add_argument("-o", "--out", type=Path, default=Path("report.html"), metavar="FILE", help="the page")

    sub = command("evaluate", _evaluate, "Measure a network on a data set; write a record.", data_dir)
    sub.add_argument("source", metavar="RUN_OR_MODEL", help="the folder of a run, module:factory, or timm:NAME")
    sub.add_argument("--dataset", help="default: the one the run was trained on")
    sub.add_argument("--folder", type=Path, metavar="DIR", help="the pictures of `--dataset folder`")
    sub.add_argument("--weights", help="best or final of a run; a file of weights for a network of your own")
    sub.add_argument("--on", default="test", help="test, or validation: what the run held out")
    sub.add_argument(
        "--parts", nargs="+", metavar="PART", help="accuracy, consistency, robustness, aliasing, efficiency"
    )
    sub.add_argument("--limit", type=int, metavar="N", help="use N test images, drawn with --seed")
    sub.add_argument("--shift-images", type=int, default=64, metavar="N", help="try all shifts on N images")
    sub.add_argument("--seed", type=int, default=0, help="of random shifts, patches and noise")
    sub.add_argument("--records", type=Path, default=Path("records"), metavar="DIR", help="where record and figures go")

    sub = command("measure", _measure, "How far a network's answer moves when your pictures do; writes a page.")
    sub.add_argument("source", metavar="MODEL", help="model.pt2, model.onnx, module:factory or timm:NAME")
    sub.add_argument("images", nargs="+", type=Path, metavar="IMAGES", help="pictures, or folders of them")
    sub.add_argument("--weights", type=Path, metavar="FILE", help="a state_dict for module:factory or timm:NAME")
    sub.add_argument("--size", type=int, metavar="PIXELS", help="on each side, where the model does not fix it")
    sub.add_argument("--mean", nargs="+", metavar="VALUE", help="per channel, or imagenet; default: none")
    sub.add_argument("--std", nargs="+", metavar="VALUE", help="per channel, or imagenet; default: none")
    sub.add_argument(
        "--shifts", metavar="N", help="all, or the number of a sample; default: all where that is feasible"
    )
    sub.add_argument("--kinds", nargs="+", metavar="KIND", help="circular, cropped, fractional; default: all three")
    sub.add_argument("-o", "--out", type=Path, default=Path("measure.html"), metavar="FILE", help="the page")

    sub = command("app", _app, "Drag pictures on a page and watch what layers and networks make of them.", data_dir)
    sub.epilog = "example: shiftproof app --runs demo/runs"
    sub.add_argument("--port", type=int, default=7860, help="of 127.0.0.1; the next free one if it is taken, 0: any")
    sub.add_argument(
        "--runs",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="finished runs, or folders of them, whose networks to show; default: runs and demo/runs",
    )
    sub.add_argument("--no-browser", action="store_true", help="print the address and leave the browser alone")

    sub = command("records", _records, "List, show or check records.")
    actions = sub.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    for name, text in (("list", "a table"), ("show", "whole records, as JSON"), ("check", "what is wrong with them")):
        inner = action(actions, name, text)
        inner.add_argument("places", nargs="*", type=Path, default=[Path("records")], metavar="FILE",
                           help="files or folders of records")  # fmt: skip
    return parser


def _settings() -> str:
    """Every setting of a run, its default and its meaning, as the help shows them."""
    from shiftproof.training.config import Config, flatten, keys

    defaults = dict(flatten(Config().to_dict()))
    return "\n".join(f"  {key:24} {field.metadata['help']} ({defaults[key]})" for key, field in keys())


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
    except KeyboardInterrupt as stop:
        _complain(str(stop) or "stopped.")
        return 130
    return 2


def _complain(message: str) -> None:
    print(f"shiftproof: {message}", file=sys.stderr)
