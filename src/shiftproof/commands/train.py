"""`shiftproof train`: train a network into the folder of its run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from shiftproof.commands.shared import add_data_dir, add_settings, naming_options, parse_pairs

if TYPE_CHECKING:
    from shiftproof.training.config import Config

HELP = "Train a network; a run that was killed continues with --resume."
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
    parser.add_argument("--resume", action="store_true", help="continue the run in --out")


def _settings() -> str:
    """Every setting of a run, its default and its meaning, as the help shows them."""
    from shiftproof.training.config import Config, flatten, keys

    defaults = dict(flatten(Config().to_dict()))
    return "\n".join(f"  {key:24} {field.metadata['help']} ({defaults[key]})" for key, field in keys())


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    with naming_options(options.config):
        config, out = _describe(options)
        return perform(config, out, options)


def perform(config: Config | None, out: Path, options: argparse.Namespace) -> int:
    """Train, and say what came of it; only the first of several processes does. Returns the exit code."""
    from shiftproof.training.distributed import LostError
    from shiftproof.training.loop import train

    try:
        result = train(config, out, resume=options.resume, data_dir=options.data_dir, quiet=options.quiet)
    except LostError as error:
        print(f"shiftproof: {error}", file=sys.stderr, flush=True)
        os._exit(2)  # the connections that are left may wait half an hour for the dead process
    if os.environ.get("RANK", "0") != "0":
        return 0
    if options.json:
        print(json.dumps(result, indent=2))
        return 0
    best, minutes = result["best"], result["seconds"] / 60
    found = f", validation accuracy {best['validation_accuracy']:.2%}" if "validation_accuracy" in best else ""
    print(f"{out}: finished after {minutes:.1f} minutes; best epoch {best['epoch']}{found}")
    print(f"next: shiftproof evaluate {out}")
    return 0


def run_folder(config: Config) -> Path:
    """Where a run goes if the user does not say."""
    parts = (config.data.name, config.model.name.replace(":", "-"), config.recipe, config.preset)
    return Path("runs") / "-".join([*parts, f"seed{config.run.seed}"])


def _describe(options: argparse.Namespace) -> tuple[Config | None, Path]:
    """The run that the user described and its folder; no configuration to resume the run in `--out` as it was begun."""
    from shiftproof.training.config import configure

    changes = parse_pairs(options.set)
    if options.folder is not None:
        changes["data.path"] = str(options.folder)
    said = (options.model, options.method, options.dataset, options.seed, options.config, *changes)
    if options.resume and options.out is not None and not any(v is not None for v in said):
        return None, options.out
    config = configure(
        options.preset,
        model=options.model,
        method=options.method,
        dataset=options.dataset,
        seed=options.seed,
        file=options.config,
        changes=changes,
    )
    return config, options.out or run_folder(config)
