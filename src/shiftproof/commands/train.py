"""`shiftproof train`: settings from the command line, a run into its folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from shiftproof.commands.shared import add_data_dir, add_settings

HELP = "Train a network; a run that was killed goes on with --resume."
EXAMPLES = (
    "--model resnet20 --method ghs --dataset cifar10",
    "--dataset folder --folder pictures/ --set optim.epochs=20",
    "--resume --out runs/cifar10-resnet20-ghs-laptop-seed0",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_data_dir(parser)
    add_settings(parser)
    parser.epilog = (
        f"{parser.epilog}\n\nsettings for --set and --config (in brackets: unless a preset says otherwise):\n"
        + _settings()
    )
    parser.add_argument("--model", help="resnet8, resnet18, resnet20, resnet50, resnet56, or e2")
    parser.add_argument("--method", help="the downsampling method, by name; da: strided, trained with circular shifts")
    parser.add_argument("--dataset", help="cifar10, cifar100, mnist, mnist-rot, digits or folder")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="the pictures of `--dataset folder`")
    parser.add_argument("--seed", type=int, help="of weights, order and augmentation")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings as TOML, on top of the preset")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder of the run; default: runs/NAME")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out")


def _settings() -> str:
    """Every setting of a run, its default and its meaning, as the help shows them."""
    from shiftproof.training.config import Config, flatten, keys

    defaults = dict(flatten(Config().to_dict()))
    return "\n".join(f"  {key:24} {field.metadata['help']} ({defaults[key]})" for key, field in keys())


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.training import command

    return command.run(options)
