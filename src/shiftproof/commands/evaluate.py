"""`shiftproof evaluate`: a trained network, or one of the user's own, measured on a data set."""

from __future__ import annotations

import argparse
from pathlib import Path

from shiftproof.commands.shared import add_data_dir

HELP = "Measure a network on a data set; write a record."
EXAMPLES = (
    "runs/cifar10-resnet20-ghs-laptop-seed0",
    "timm:resnet18 --dataset folder --folder pictures/ --parts accuracy consistency",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_data_dir(parser)
    parser.add_argument("source", metavar="RUN_OR_MODEL", help="the folder of a run, module:factory, or timm:NAME")
    parser.add_argument("--dataset", help="default: the one the run was trained on")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="the pictures of `--dataset folder`")
    parser.add_argument("--weights", help="best or final of a run; a file of weights for a network of your own")
    parser.add_argument("--on", default="test", help="test, or validation: what the run held out")
    parser.add_argument(
        "--parts",
        nargs="+",
        metavar="PART",
        help="accuracy, consistency, robustness (or robustness.noise ..), aliasing, efficiency",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="use N test images, drawn with --seed")
    parser.add_argument("--shift-images", type=int, default=64, metavar="N", help="try all shifts on N images")
    parser.add_argument("--seed", type=int, default=0, help="of random shifts, patches and noise")
    parser.add_argument(
        "--records", type=Path, default=Path("records"), metavar="DIR", help="where record and figures go"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.evaluation.suite import PARTS
    from shiftproof.experiments import evaluate

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
