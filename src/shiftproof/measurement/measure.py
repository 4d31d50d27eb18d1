"""`shiftproof measure`: how a network of anybody's answers when pictures of anybody's move."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from shiftproof import checks, progress
from shiftproof.evaluation.classifier import Classifier, evaluating
from shiftproof.invariance import KINDS, Consistency, ShiftError, Shifts, survey
from shiftproof.measurement.result import ImageResult, KindResult, Measurement
from shiftproof.models.predictor import Predictor, load_predictor
from shiftproof.safe_io.atomic import atomic_write
from shiftproof.safe_io.pictures import find_pictures, fit, read_picture

PIXELS = 2**26  # of shifted images, up to which every shift is tried unless told otherwise
SAMPLE = 256  # shifts tried beyond that
SIZE = 224  # of pictures for networks that take any, unless all are alike and no larger
IMAGENET: dict[str, tuple[float, ...]] = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
Report = Callable[[float, int], object]  # (done, total)


def measure(
    model: Callable[[Tensor], Tensor],
    images: Tensor,
    *,
    shifts: Shifts | None = None,
    kinds: Sequence[str] = KINDS,
    batch_size: int = 64,
    seed: int = 0,
    labels: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    report: Report | None = None,
) -> Measurement:
    """How a classifier, images (B, C, H, W) to scores (B, classes), answers when each image is shifted.

    `shifts` are those of `shift_error`; by default all of them where that is feasible, else a random sample drawn
    with `seed`. `labels` name the classes and `names` the images; `report` is told how much is done, and of how much.
    The network is measured in evaluation mode and gets its own mode back.

    >>> print(measure(lambda x: x.amax((2, 3)), torch.rand(2, 3, 8, 8)).headline())
    This network gives the same output for every circular shift, bit for bit.
    """
    checks.maps("images", images, 2)
    if not len(images):
        raise ValueError("`images` must hold at least one image.")
    wanted = list(dict.fromkeys(checks.choice("kinds", kind, KINDS) for kind in kinds))
    if not wanted:
        raise ValueError(f"`kinds` must name at least one of {', '.join(KINDS)}.")
    names = [f"image {i}" for i in range(len(images))] if names is None else list(names)
    if len(names) != len(images):
        raise ValueError(f"`names` ({len(names)}) must have one entry per image ({len(images)}).")
    if shifts is None:
        shifts = "all" if len(images) * math.prod(images.shape[2:]) ** 2 <= PIXELS else SAMPLE
    recorder = _Recorder(model, labels)
    total = len(wanted) * len(images)
    results: dict[str, KindResult] = {}
    with _evaluating(model):
        for kind in wanted:
            parts = []
            for i, name in enumerate(names):
                start = len(results) * len(images) + i

                def heard(done: int, count: int, start: int = start) -> None:
                    if report is not None:
                        report(start + done / count, total)

                recorder.answers.clear()
                error, agreement = survey(
                    recorder, images[i : i + 1], shifts, kind, batch_size=batch_size, seed=seed, progress=heard
                )
                before, after = recorder.answers[0][0], torch.cat(recorder.answers[1:])[: len(error.shifts)]
                parts.append(_Part(error, agreement, after == before, _worst(name, error, before, after)))
            results[kind] = _together(kind, parts)
    about = {"images": f"{len(images)} of {images.shape[2]} x {images.shape[3]} pixels, {images.shape[1]} channels"}
    return Measurement(results, about, None if labels is None else list(labels), images)


class _Recorder:
    """A classifier that keeps its answers, call by call."""

    def __init__(self, model: Callable[[Tensor], Tensor], labels: Sequence[str] | None) -> None:
        self.model, self.labels = model, labels
        self.answers: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        out = self.model(x)
        if isinstance(out, Tensor) and out.dim() == 2:
            if self.labels is not None and len(self.labels) != out.shape[1]:
                raise ValueError(f"`labels` ({len(self.labels)}) must have one entry per class ({out.shape[1]}).")
            self.answers.append(out.argmax(1).cpu())
        return out


@contextlib.contextmanager
def _evaluating(model: object) -> Iterator[None]:
    """A network in evaluation mode; exported programs, whose `eval` is replaced by a refusal, have but one mode."""
    if not isinstance(model, nn.Module) or "eval" in vars(model):
        yield
        return
    with evaluating(model):
        yield


class _Part(NamedTuple):
    """What was measured on one image; `kept` says for each shift whether the answer stayed."""

    error: ShiftError
    agreement: Consistency
    kept: Tensor
    image: ImageResult


def _worst(name: str, error: ShiftError, before: Tensor, after: Tensor) -> ImageResult:
    changed = after != before
    worst = int(torch.where(changed | ~changed.any(), error.changes, -1.0).argmax())
    return ImageResult(
        name=name,
        kept=1 - float(changed.double().mean()),
        shift=error.shifts[worst],
        change=float(error.changes[worst]),
        before=int(before),
        after=int(after[worst]),
    )


def _together(kind: str, parts: Sequence[_Part]) -> KindResult:
    """The measures of single images as those of all: the largest changes, the mean shares."""
    shifts = parts[0].error.shifts
    changes = torch.stack([p.error.changes for p in parts]).amax(0)
    return KindResult(
        kind=kind,
        pairs=sum(p.agreement.pairs for p in parts) / len(parts),
        reference=sum(p.agreement.reference for p in parts) / len(parts),
        max=float(changes.max()),
        mean=sum(p.error.mean for p in parts) / len(parts),
        worst=shifts[int(changes.argmax())],
        exact=all(p.error.exact for p in parts),
        shifts=shifts,
        changes=changes,
        kept=torch.stack([p.kept for p in parts]).double().mean(0),
        change_map=torch.stack([p.error.map for p in parts]).amax(0),
        kept_map=torch.stack([p.agreement.map for p in parts]).mean(0),
        images=[p.image for p in parts],
    )


def run(
    source: str,
    images: Sequence[Path],
    weights: Path | None = None,
    size: int | None = None,
    mean: Sequence[str] | None = None,
    std: Sequence[str] | None = None,
    shifts: str | None = None,
    kinds: Sequence[str] | None = None,
    out: Path = Path("measure.html"),
    as_json: bool = False,
) -> int:
    """`shiftproof measure`: print the table or the JSON, write the page."""
    import matplotlib  # noqa: F401  (missing? say so before the long run, not after)
    from rich.console import Console

    tried = _shifts(shifts)
    predictor = load_predictor(source, weights)
    files = find_pictures(images)
    batch = _pictures(files, predictor, size)
    centre, spread = _normalisation(mean, std, batch.shape[1])
    with progress.reporting() as report:
        result = measure(
            Classifier(predictor, centre, spread),
            batch,
            shifts=tried,
            kinds=kinds or KINDS,
            names=[str(file) for file in files],
            report=functools.partial(report, "measuring"),
        )
    plain = set(centre) == {0.0} and set(spread) == {1.0}
    about = {
        "network": source if weights is None else f"{source} with {weights}",
        **result.about,
        "normalisation": "none, pixels in [0, 1]" if plain else f"mean {_numbers(centre)}, std {_numbers(spread)}",
    }
    result = dataclasses.replace(result, about=about)
    atomic_write(out, result.to_html().encode())
    if as_json:
        print(json.dumps(result.to_dict() | {"file": str(out)}, indent=2, allow_nan=False))
        return 0
    console = Console()
    Console(width=max(console.width, 120) if not console.is_terminal else None).print(result.table())
    print(f"wrote {out}")
    return 0


def _shifts(text: str | None) -> Shifts | None:
    if text is None or text == "all":
        return text
    if not text.isdecimal():
        raise ValueError(f"`shifts` (={text!r}) must be 'all' or a number.")
    return checks.integer("shifts", int(text))


def _pictures(files: Sequence[Path], predictor: Predictor, size: int | None) -> Tensor:
    """The pictures as one batch in [0, 1], in the size and colours of the network. (B, C, H, W)"""
    side = None if size is None else (checks.integer("size", size),) * 2
    if None not in (side, predictor.size) and side != predictor.size:
        raise ValueError(f"`size` (={size}) must be that of {predictor.source}, which takes {predictor.size} only.")
    side = side or predictor.size
    shapes: set[tuple[int, int]] = set()
    pictures = []
    for file in files:
        picture = read_picture(file, predictor.channels or 3)
        shape = (picture.shape[1], picture.shape[2])
        shapes.add(shape)
        pictures.append(fit(picture, side or (shape if max(shape) <= SIZE else (SIZE, SIZE))))
    if side is None:
        side = shapes.pop() if len(shapes) == 1 and max(map(max, shapes)) <= SIZE else (SIZE, SIZE)
    return torch.stack([fit(picture, side) for picture in pictures])


def _normalisation(
    mean: Sequence[str] | None, std: Sequence[str] | None, channels: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation for each channel: numbers, or `imagenet`, which holds for the one that is not given too."""
    known = ["imagenet"] in (mean and list(mean), std and list(std))
    parts = []
    for name, words, default in (("mean", mean, 0.0), ("std", std, 1.0)):
        if list(words or []) == ["imagenet"] or (words is None and known):
            values = IMAGENET[name]
        else:
            try:
                values = tuple(map(float, words)) if words else (default,)
            except ValueError:
                raise ValueError(f"`{name}` (={checks.shown(words)}) must be numbers, or imagenet.") from None
        values = values * channels if len(values) == 1 else values
        if len(values) != channels or not all(math.isfinite(v) for v in values):
            raise ValueError(f"`{name}` (={values}) must be one number, or one per channel ({channels}).")
        parts.append(values)
    return parts[0], parts[1]


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{v:g}" for v in values)
