"""`shiftproof finetune`: convert a trained network and train it for a few more epochs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftproof.commands.shared import add_data_dir, naming_options, parse_pairs
from shiftproof.commands.train import perform, run_folder

if TYPE_CHECKING:
    from shiftproof.training.config import Config

HELP = "Make a trained network shift-proof and win its accuracy back by a short training."
EXAMPLES = (
    "cifar:resnet20 --pretrained --dataset cifar10",
    "timm:resnet18 --pretrained --folder pictures/ --placement before",
    "mynet:make --weights w.safetensors --folder pictures/ --epochs 5",
    "--resume --out runs/cifar10-cifar-resnet20-ghs-finetune-seed0",
)
# the options that are settings by themselves
_SETTINGS = {
    "model.padding": "padding",
    "model.placement": "placement",
    "model.antialias": "antialias",
    "model.subpixel": "subpixel",
    "model.calibrate": "calibrate",
    "optim.epochs": "epochs",
    "data.size": "size",
}
# how this command spells the settings that errors name
_OPTIONS = {key: f"--{name}" for key, name in _SETTINGS.items()} | {
    "model.name": "MODEL",
    "model.weights": "--weights",
    "model.pretrained": "--pretrained",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_data_dir(parser)
    parser.add_argument(
        "source", metavar="MODEL", nargs="?", help="module:factory of the network, timm:NAME or cifar:NAME"
    )
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", help="a state_dict or checkpoint: .safetensors, .pt, .th"
    )
    parser.add_argument("--pretrained", action="store_true", help="published weights, of timm and cifar")
    parser.add_argument("--dataset", help="cifar10, cifar100, mnist, mnist-rot, digits or folder")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="your own pictures: DIR/train/CLASS/* or DIR/CLASS/*"
    )
    parser.add_argument("--size", type=int, metavar="PIXELS", help="of the pictures; default: as the network says")
    parser.add_argument("--method", help="the downsampling method, by name; default: ghs")
    parser.add_argument(
        "--padding", help="circular, reflect, replicate or zeros; keep leaves it as it is; default: circular"
    )
    parser.add_argument("--placement", help="of the method: after the operations with a stride, or before them")
    parser.add_argument("--antialias", action="store_true", default=None, help="placed before, filter the maps too")
    parser.add_argument("--subpixel", action="store_true", default=None, help="take out parts of a pixel first")
    parser.add_argument("--calibrate", type=int, metavar="N", help="first fit batch norms on N pictures")
    parser.add_argument("--epochs", type=int, help="default: 2")
    parser.add_argument("--seed", type=int, help="of order, augmentation and a new last layer")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings as TOML")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any setting of `shiftproof train`"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder of the run; default: runs/NAME")
    parser.add_argument("--resume", action="store_true", help="continue the run in --out")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    with naming_options(options.config, _OPTIONS):
        if options.source is None:
            if not options.resume or options.out is None:
                raise ValueError("`MODEL` must name the network, or `--resume --out DIR` a run to continue.")
            return perform(None, options.out, options)
        config = _describe(options)
        return perform(config, options.out or run_folder(config), options)


def _describe(options: argparse.Namespace) -> Config:
    """The run that the user described."""
    from shiftproof.training.finetuning import configure_finetuning

    given: dict[str, Any] = {key: getattr(options, name) for key, name in _SETTINGS.items()}
    return configure_finetuning(
        options.source,
        dataset=options.dataset,
        folder=options.folder,
        method=options.method,
        weights=options.weights,
        pretrained=options.pretrained,
        seed=options.seed,
        file=options.config,
        changes={key: value for key, value in given.items() if value is not None} | parse_pairs(options.set),
    )
