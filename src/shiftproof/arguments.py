"""What can be said on the command line: every command with its arguments, help and examples. Imports no torch."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import shiftproof

Handler = Callable[[argparse.Namespace], int]

START = """\
to begin with:
  shiftproof demo                                   the whole story on bundled data, a page at the end
  shiftproof app                                    drag pictures, watch layers and networks
  shiftproof measure model.pt2 photos/              how far your network's answer moves when pictures do
  shiftproof convert timm:resnet18 -o model.pt2     make a network shift-proof
  shiftproof reproduce all                          every table and figure of the paper

exit codes: 0 done, 1 some of it failed, 2 it could not be done (the message says why), 130 stopped by Ctrl-C"""


class _Formatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Defaults behind every argument, examples as they are written; what is off by default needs no word."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if not action.default or (action.help and "default" in action.help):
            return action.help
        return super()._get_help_string(action)


def parser(handlers: Mapping[str, Handler]) -> argparse.ArgumentParser:
    """The parser; each command has its handler in `run`."""
    top = argparse.ArgumentParser(
        prog="shiftproof",
        description="Convolutional networks that give the same answer when their input moves.",
        epilog=START,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=16),
    )
    top.add_argument("--version", action="version", version=f"shiftproof {shiftproof.__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(
        name: str, text: str, *parents: argparse.ArgumentParser, examples: Sequence[str] = ()
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog="examples:\n" + "\n".join(f"  shiftproof {name} {line}".rstrip() for line in examples),
            formatter_class=_Formatter,
            parents=list(parents),
        )
        sub.set_defaults(run=handlers[name], command=name)
        sub.add_argument("--json", action="store_true", help="print the result as JSON instead of a table")
        sub.add_argument("--quiet", action="store_true", help="no progress, only the result and errors")
        return sub

    def action(
        actions: argparse._SubParsersAction[argparse.ArgumentParser],
        name: str,
        text: str,
        *parents: argparse.ArgumentParser,
    ) -> argparse.ArgumentParser:
        inner = actions.add_parser(name, help=text, description=text, parents=list(parents))
        for flag, meaning in (("--json", "print the result as JSON"), ("--quiet", "no progress")):
            inner.add_argument(flag, action="store_true", default=argparse.SUPPRESS, help=meaning)
        return inner

    data_dir = argparse.ArgumentParser(add_help=False)
    data_dir.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="where data sets lie: $SHIFTPROOF_DATA, or the platform's cache"
    )
    settings = argparse.ArgumentParser(add_help=False)
    settings.add_argument("--preset", default="laptop", help="paper, laptop or smoke")
    settings.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override any setting")

    sub = command(
        "demo",
        "What a shift does to a picture and to small networks, on bundled data; a page at the end.",
        examples=["", "--out somewhere"],
    )
    sub.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="where everything goes")

    sub = command(
        "app",
        "Drag pictures on a page and watch what layers and networks make of them.",
        data_dir,
        examples=["", "--runs demo/runs"],
    )
    sub.add_argument("--port", type=int, default=7860, help="of 127.0.0.1; the next free one if it is taken, 0: any")
    sub.add_argument(
        "--runs", type=Path, nargs="+", metavar="DIR",
        help="finished runs, or folders of them, whose networks to show; default: runs and demo/runs",
    )  # fmt: skip
    sub.add_argument("--no-browser", action="store_true", help="print the address and leave the browser alone")

    sub = command(
        "cameraman",
        "Shift one image, downsample it with every method, print the difference.",
        examples=["", "--image photo.jpg --size 64 --shift 0 3"],
    )
    sub.add_argument("--image", type=Path, metavar="FILE", help="an image of your own instead of the bundled one")
    sub.add_argument("--size", type=int, default=32, help="pixels on each side after area-averaging")
    sub.add_argument(
        "--shift", type=int, nargs=2, default=(1, 1), metavar=("ROWS", "COLUMNS"), help="the shift that is shown"
    )
    sub.add_argument("--out", type=Path, default=Path("cameraman"), metavar="DIR", help="where the figures go")

    sub = command(
        "measure",
        "How far a network's answer moves when your pictures do; writes a page.",
        examples=["model.pt2 photos/", "timm:resnet18 cat.jpg --mean imagenet --size 64", "model.onnx a.png --json"],
    )
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

    sub = command(
        "convert",
        "Make a network shift-proof: print what was replaced, write it to a file.",
        examples=["timm:resnet18 -o model.pt2", "mynet:make --weights w.safetensors --size 64 -o model.onnx"],
    )
    sub.add_argument("source", metavar="SOURCE", help="module:factory of the network, or timm:NAME")
    sub.add_argument("--weights", type=Path, metavar="FILE", help="a state_dict, as .safetensors or .pt")
    sub.add_argument("--method", default="ghs", help="the downsampling method, by name")
    sub.add_argument("--padding", default="circular", help="circular, reflect, replicate, zeros, or keep")
    sub.add_argument("--size", type=int, nargs="+", metavar="PIXELS", help="of the inputs: one number, or two")
    sub.add_argument("--loose", action="store_true", help="convert what can be converted and list the rest")
    sub.add_argument("-o", "--out", type=Path, metavar="FILE", help="model.pt2 or model.onnx")

    sub = command(
        "data", "Get, import and list data sets.", examples=["get cifar10 mnist", "import ~/downloads", "list"]
    )
    actions = sub.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    inner = action(actions, "get", "fetch data sets, check them, put them in place", data_dir)
    inner.add_argument("names", nargs="+", metavar="NAME", help="cifar10, cifar100, mnist or mnist-rot")
    inner = action(actions, "import", "take files that are already here, in any official layout", data_dir)
    inner.add_argument("folder", type=Path, metavar="DIR", help="a folder that has them, packed or unpacked")
    action(actions, "list", "show what is there", data_dir)

    sub = command(
        "train",
        "Train a network; a run that was killed goes on with --resume.",
        data_dir,
        settings,
        examples=[
            "--model resnet20 --method ghs --dataset cifar10",
            "--dataset folder --folder pictures/ --set optim.epochs=20",
            "--resume --out runs/cifar10-resnet20-ghs-laptop-seed0",
        ],
    )
    sub.epilog = (
        f"{sub.epilog}\n\nsettings for --set and --config (in brackets: unless a preset says otherwise):\n"
        + _settings()
    )
    sub.add_argument("--model", help="resnet8, resnet18, resnet20, resnet50, resnet56, or e2")
    sub.add_argument("--method", help="the downsampling method, by name; da: strided, trained with circular shifts")
    sub.add_argument("--dataset", help="cifar10, cifar100, mnist, mnist-rot, digits or folder")
    sub.add_argument("--folder", type=Path, metavar="DIR", help="the pictures of `--dataset folder`")
    sub.add_argument("--seed", type=int, help="of weights, order and augmentation")
    sub.add_argument("--config", type=Path, metavar="FILE", help="settings as TOML, on top of the preset")
    sub.add_argument("--out", type=Path, metavar="DIR", help="the folder of the run; default: runs/NAME")
    sub.add_argument("--resume", action="store_true", help="go on with the run in --out")

    sub = command(
        "evaluate",
        "Measure a network on a data set; write a record.",
        data_dir,
        examples=[
            "runs/cifar10-resnet20-ghs-laptop-seed0",
            "timm:resnet18 --dataset folder --folder pictures/ --parts accuracy consistency",
        ],
    )
    sub.add_argument("source", metavar="RUN_OR_MODEL", help="the folder of a run, module:factory, or timm:NAME")
    sub.add_argument("--dataset", help="default: the one the run was trained on")
    sub.add_argument("--folder", type=Path, metavar="DIR", help="the pictures of `--dataset folder`")
    sub.add_argument("--weights", help="best or final of a run; a file of weights for a network of your own")
    sub.add_argument("--on", default="test", help="test, or validation: what the run held out")
    sub.add_argument(
        "--parts",
        nargs="+",
        metavar="PART",
        help="accuracy, consistency, robustness (or robustness.noise ..), aliasing, efficiency",
    )
    sub.add_argument("--limit", type=int, metavar="N", help="use N test images, drawn with --seed")
    sub.add_argument("--shift-images", type=int, default=64, metavar="N", help="try all shifts on N images")
    sub.add_argument("--seed", type=int, default=0, help="of random shifts, patches and noise")
    sub.add_argument("--records", type=Path, default=Path("records"), metavar="DIR", help="where record and figures go")

    sub = command(
        "sweep",
        "Run the experiments of a table that have no record yet.",
        data_dir,
        settings,
        examples=["table1 --seeds 0 1", "digits --methods lpf ghs mine", "table4 --jobs 4", "ablation --engine ray"],
    )
    sub.add_argument("name", metavar="NAME", help="table1 .. table5, figure5, shifts, ablation or digits")
    sub.add_argument("--models", nargs="+", metavar="MODEL", help="instead of those of the table")
    sub.add_argument("--methods", nargs="+", metavar="METHOD", help="instead of those of the table")
    sub.add_argument(
        "--seeds", nargs="+", type=int, metavar="SEED", help="default: 10 for paper, 2 for laptop, 1 for smoke"
    )
    sub.add_argument("--dataset", help="instead of that of the table")
    sub.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="where the runs go")
    sub.add_argument("--records", type=Path, default=Path("records"), metavar="DIR", help="where the records go")
    sub.add_argument("--jobs", type=int, default=1, help="runs at a time")
    sub.add_argument("--engine", default="local", help="local, or ray (--runs and data on shared storage)")
    sub.add_argument("--address", help="of the Ray cluster; without it, Ray is started here")

    sub = command(
        "reproduce",
        "Tables and figures of the paper, from records; run what is missing.",
        data_dir,
        examples=["all", "table2 figure5 --seeds 0", "all --draw-only"],
    )
    known = "table1 .. table6, figure1 .. figure5, cameraman, shifts, ablation, digits; default: all"
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

    sub = command(
        "report",
        "One page with all tables, figures and heat maps of some records.",
        examples=["results/records", "records/*.json -o page.html"],
    )
    sub.add_argument(
        "places", nargs="*", type=Path, default=[Path("results/records")], metavar="FILE",
        help="records, or folders of them; default: results/records",
    )  # fmt: skip
    sub.add_argument("--preset", help="the runs to show; default: the preset most records have")
    sub.add_argument("-o", "--out", type=Path, default=Path("report.html"), metavar="FILE", help="the page")

    sub = command(
        "records",
        "List, show or check records.",
        examples=["list", "show records/cifar10-resnet20-ghs-laptop-seed0-*.json", "check results/records"],
    )
    actions = sub.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    for name, text in (("list", "a table"), ("show", "what was measured"), ("check", "what is wrong with them")):
        inner = action(actions, name, text)
        inner.add_argument(
            "places", nargs="*", type=Path, default=[Path("records")], metavar="FILE",
            help="files or folders of records; default: records",
        )  # fmt: skip

    sub = command(
        "bench",
        "Time every method in one run: layers, training steps of networks, growing maps.",
        examples=["", "layers --quick"],
    )
    sub.add_argument("--out", type=Path, default=Path("bench"), metavar="DIR", help="where record and figure go")
    sub.add_argument("parts", nargs="*", metavar="PART", help="layers, networks or scaling; default: all of them")
    sub.add_argument("--quick", action="store_true", help="few repetitions: a look, not a measurement")

    sub = command(
        "completion",
        "Print a script that completes these commands in a shell.",
        examples=["bash > ~/.local/share/bash-completion/completions/shiftproof", "zsh > ~/.zfunc/_shiftproof"],
    )
    sub.add_argument("shell", metavar="SHELL", help="bash, zsh, fish or tcsh")
    return top


def _settings() -> str:
    """Every setting of a run, its default and its meaning, as the help shows them."""
    from shiftproof.training.config import Config, flatten, keys

    defaults = dict(flatten(Config().to_dict()))
    return "\n".join(f"  {key:24} {field.metadata['help']} ({defaults[key]})" for key, field in keys())
