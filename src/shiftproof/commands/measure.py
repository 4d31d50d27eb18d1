"""`shiftproof measure`: how a network's answers change when pictures are shifted."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shiftproof import checks, progress
from shiftproof.commands.shared import wide_console

if TYPE_CHECKING:
    from torch import Tensor

    from shiftproof.models.predictor import Predictor

HELP = "How your network's answers change when your pictures are shifted; writes a page."
EXAMPLES = (
    "model.pt2 photos/",
    "timm:resnet18 cat.jpg --pretrained",
    "model.onnx a.png --kinds cropped --fail-under 99",
)
SIZE = 224  # pixels on each side for a network that takes any size, unless all pictures have one smaller size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "source", metavar="MODEL", help="model.pt2, model.onnx, module:factory, timm:NAME or cifar:NAME"
    )
    parser.add_argument("images", nargs="+", type=Path, metavar="IMAGES", help="pictures, or folders of them")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="a state_dict for module:factory or timm:NAME")
    parser.add_argument("--pretrained", action="store_true", help="published weights, of timm and cifar")
    parser.add_argument("--size", type=int, metavar="PIXELS", help="on each side; default: as the model says")
    parser.add_argument(
        "--mean", nargs="+", metavar="VALUE", help="per channel, or imagenet; default: as the model says"
    )
    parser.add_argument(
        "--std", nargs="+", metavar="VALUE", help="per channel, or imagenet; default: as the model says"
    )
    parser.add_argument("--shifts", metavar="N", help="all, or how many to sample; default: all where that is feasible")
    parser.add_argument("--kinds", nargs="+", metavar="KIND", help="cropped, fractional, circular; default: all three")
    parser.add_argument(
        "--fail-under", type=float, metavar="PERCENT", help="exit with 1 if fewer picture-shift pairs keep their answer"
    )
    parser.add_argument("-o", "--out", type=Path, default=Path("measure.html"), metavar="FILE", help="the page")


def run(options: argparse.Namespace) -> int:
    """Measure, write the page, print the table or the JSON; returns the exit code."""
    import matplotlib  # noqa: F401  (an extra: if it is missing, fail before the long run)

    from shiftproof.evaluation.classifier import Classifier
    from shiftproof.invariance import KINDS
    from shiftproof.measurement.measure import measure
    from shiftproof.models.predictor import load_predictor
    from shiftproof.safe_io.atomic import atomic_write
    from shiftproof.safe_io.pictures import find_pictures

    console = wide_console(120)
    shifts = options.shifts
    if shifts not in (None, "all"):
        if not shifts.isdecimal():
            raise ValueError(f"`--shifts` (={shifts!r}) must be all or a number.")
        shifts = checks.integer("--shifts", int(shifts))
    # what a camera does comes first
    kinds = [checks.choice("--kinds", kind, KINDS) for kind in options.kinds or ("cropped", "fractional", "circular")]
    least = 0.0 if options.fail_under is None else options.fail_under / 100
    if not 0 <= least <= 1:
        raise ValueError(f"`--fail-under` (={options.fail_under:g}) must be a percentage, from 0 to 100.")
    predictor = load_predictor(options.source, options.weights, options.pretrained)
    files = find_pictures(options.images)
    images = _read_images(files, predictor, options.size)
    if options.mean is options.std is None and "mean" in predictor.inputs:
        mean, std = predictor.inputs["mean"], predictor.inputs["std"]
    else:
        mean, std = _normalisation(options.mean, options.std, images.shape[1])
    with progress.reporting() as report:
        result = measure(
            Classifier(predictor, mean, std),
            images,
            shifts=shifts,
            kinds=kinds,
            names=[str(file) for file in files],
            report=functools.partial(report, "measuring"),
        )
    unchanged = set(mean) == {0.0} and set(std) == {1.0}
    about = {
        "network": options.source,
        "weights": predictor.weights,
        **result.about,
        "normalisation": "none, pixels in [0, 1]" if unchanged else f"mean {_numbers(mean)}, std {_numbers(std)}",
    }
    result = dataclasses.replace(result, about=about)
    atomic_write(options.out, result.to_html().encode())
    if options.json:
        print(json.dumps(result.to_dict() | {"file": str(options.out)}, indent=2, allow_nan=False))
    else:
        console.print(result.table())
        print(f"wrote {options.out}")
    failures = result.failures(least)
    for sentence in failures:
        print(f"shiftproof: {sentence}", file=sys.stderr)
    return 1 if failures else 0


def _read_images(files: Sequence[Path], predictor: Predictor, side: int | None) -> Tensor:
    """The pictures as one batch in [0, 1], in the size and colours of the network. (B, C, H, W)"""
    import torch

    from shiftproof.safe_io.pictures import fit, read_picture

    size = None if side is None else (checks.integer("--size", side),) * 2
    if None not in (size, predictor.size) and size != predictor.size:
        fixed = " x ".join(map(str, predictor.size or ()))
        raise ValueError(f"`--size` (={side}): {predictor.source} takes images of {fixed} only. Leave `--size` out.")
    size = size or predictor.size or predictor.inputs.get("input_size", (0, None, None))[1:]
    size = None if size is None or None in size else size
    shapes: set[tuple[int, int]] = set()
    pictures = []
    for file in files:
        picture = read_picture(file, predictor.channels or 3)
        shape = (picture.shape[1], picture.shape[2])
        shapes.add(shape)
        pictures.append(fit(picture, size or (shape if max(shape) <= SIZE else (SIZE, SIZE))))
    if size is None:
        size = shapes.pop() if len(shapes) == 1 and max(map(max, shapes)) <= SIZE else (SIZE, SIZE)
    return torch.stack([fit(picture, size) for picture in pictures])


def _normalisation(
    mean: Sequence[str] | None, std: Sequence[str] | None, channels: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel. If one of them is `imagenet`, so is the other unless it is given."""
    from shiftproof.evaluation.classifier import IMAGENET

    imagenet = ["imagenet"] in (mean, std)
    parts = []
    for name, words, default in (("mean", mean, 0.0), ("std", std, 1.0)):
        if words == ["imagenet"] or (words is None and imagenet):
            values = IMAGENET[name]
        else:
            try:
                values = tuple(map(float, words)) if words else (default,)
            except ValueError:
                raise ValueError(f"`--{name}` (={checks.shown(words)}) must be numbers, or imagenet.") from None
        values = values * channels if len(values) == 1 else values
        if len(values) != channels or not all(math.isfinite(v) for v in values):
            raise ValueError(f"`--{name}` (={values}) must be one number, or one per channel ({channels}).")
        parts.append(values)
    return parts[0], tuple(checks.positive("--std", v) for v in parts[1])


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{v:g}" for v in values)
