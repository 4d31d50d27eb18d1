"""`shiftproof evaluate`: a trained network, or one of the user's own, measured on a data set."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from shiftproof import progress
from shiftproof.commands.shared import add_data_dir, naming_arguments

HELP = "Measure a network on a data set; write a record."
EXAMPLES = (
    "runs/cifar10-resnet20-ghs-laptop-seed0",
    "timm:resnet18 --pretrained --folder pictures/ --parts accuracy consistency",
    "cifar:resnet20 --pretrained --dataset cifar10",
)

# what functions call the options of the command
_OPTIONS = {"name": "--dataset", "path": "--folder", "shift_images": "--shift-images"} | {
    name: f"--{name}" for name in ("on", "parts", "limit", "seed")
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_data_dir(parser)
    parser.add_argument(
        "source", metavar="RUN_OR_MODEL", help="the folder of a run, module:factory, timm:NAME or cifar:NAME"
    )
    parser.add_argument("--dataset", help="default: the one the run was trained on")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="the pictures of `--dataset folder`")
    parser.add_argument("--weights", help="best or final of a run; a file of weights for a network of your own")
    parser.add_argument("--pretrained", action="store_true", help="published weights, for networks of timm and cifar")
    parser.add_argument("--on", default="test", help="test, or validation: what the run held out")
    parser.add_argument(
        "--parts",
        nargs="+",
        metavar="PART",
        help="accuracy, consistency, robustness (or robustness.noise ..), aliasing, efficiency; or adversarial, motion",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="use N test images, drawn with --seed")
    parser.add_argument("--shift-images", type=int, default=64, metavar="N", help="try all shifts on N images")
    parser.add_argument("--seed", type=int, default=0, help="of random shifts, patches and noise")
    parser.add_argument(
        "--records", type=Path, default=Path("records"), metavar="DIR", help="where record and figures go"
    )


def run(options: argparse.Namespace) -> int:
    """Measure, print, draw and write the record; returns the exit code."""
    from shiftproof import environment
    from shiftproof.data.sets import load_dataset
    from shiftproof.experiments import evaluate, records
    from shiftproof.models.loading import describe_weights, full_source, input_settings, load_model
    from shiftproof.reports import figures, summary

    environment.code()  # the commit as it is now, even if files change meanwhile
    source: str = options.source
    is_run = Path(source).is_dir()
    which = (options.weights if is_run else None) or "best"
    if which not in ("best", "final"):
        raise ValueError(f"`--weights` (={which!r}) of a run must be best or final.")
    with naming_arguments(_OPTIONS):
        settings = records.Settings(
            on=options.on,
            parts=tuple(options.parts or records.Settings.parts),
            weights=which,
            limit=options.limit,
            shift_images=options.shift_images,
            seed=options.seed,
        )
        if is_run:
            subject = evaluate.from_run(Path(source), settings, options.data_dir, options.dataset, options.folder)
        else:
            _check_own(options)
            model = load_model(source, options.weights, pretrained=options.pretrained)
            known = input_settings(model)
            size = known["input_size"][1] if "input_size" in known and options.folder is not None else None
            dataset = load_dataset(options.dataset or "folder", options.data_dir, path=options.folder, size=size)
            if "mean" in known and len(known["mean"]) == len(dataset.mean):
                dataset = replace(dataset, mean=known["mean"], std=known["std"])
            which = describe_weights(source, options.weights, options.pretrained)
            subject = evaluate.Subject(model, dataset, full_source(source).replace(":", "-"), weights=which)
        with progress.reporting(subject.title) as report:
            record = evaluate.evaluate(subject, settings, report)
    written = [records.write(record, options.records), *figures.draw_record(record, options.records)]
    if options.json:
        print(json.dumps(record | {"files": [str(p) for p in written]}, indent=2))
    else:
        summary.show(record)
        for path in written:
            print(f"wrote {path}")
    return 0


def _check_own(options: argparse.Namespace) -> None:
    """What a network of the user's own needs."""
    from shiftproof.models.loading import check_there

    check_there(options.source)
    if ":" not in options.source and options.dataset is None and options.folder is None:
        raise ValueError(f"{options.source}: neither the folder of a run nor `module:factory` nor `timm:NAME`.")
    if options.on != "test":
        raise ValueError("`--on validation` is for runs, which know the images they held out.")
    if options.dataset is None and options.folder is None:
        raise ValueError("`--dataset` must name the data set on which a network of your own is evaluated.")
