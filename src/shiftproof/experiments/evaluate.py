"""`shiftproof evaluate`: a trained network, or one of the user's own, measured on a data set and put on record."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof import checks, environment, progress
from shiftproof.data.batches import split
from shiftproof.data.sets import Dataset, load_dataset
from shiftproof.evaluation import suite
from shiftproof.experiments import records
from shiftproof.models.loading import load_model
from shiftproof.reports import summary
from shiftproof.training.checkpoint import tensor_digest
from shiftproof.training.config import Config
from shiftproof.training.process import Stopwatch
from shiftproof.training.runs import build_model, load_run, read_result


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to evaluate: which parts, on which images and how many of them, all shifts of how many.

    `on` is the test part of the data set, or `validation`: what the run held out of the training part, all of it.
    """

    on: str = "test"
    parts: tuple[str, ...] = suite.PARTS
    weights: str = "best"
    limit: int | None = None
    shift_images: int = 64
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return dataclasses.asdict(self) | {"parts": list(self.parts)}

    def __post_init__(self) -> None:
        checks.choice("on", self.on, ("test", "validation"))


@dataclass(frozen=True)
class Subject:
    """What is evaluated: a network with its data set, and where both come from."""

    model: nn.Module
    dataset: Dataset
    name: str
    method: str | None
    config: Config | None = None
    training: Mapping[str, Any] | None = None
    baseline: nn.Module | None = None
    foreign: bool = False  # whether the data set is another than the one it was trained on

    @property
    def title(self) -> str:
        """The name of its record."""
        words = [self.dataset.name, self.name]
        if self.config is not None:
            words += [self.method or "", self.config.preset, f"seed{self.config.run.seed}"]
        return re.sub(r"[^A-Za-z0-9._+-]+", "-", "-".join(words))


def from_run(
    folder: Path,
    weights: str = "best",
    dataset: str | None = None,
    data_dir: Path | None = None,
    path: Path | None = None,
    on: str = "test",
) -> Subject:
    """The network of a finished run, on its own data set or on another (pictures in `path`) with as many classes."""
    model, config, own = load_run(folder, weights, data_dir)
    foreign = path is not None or dataset not in (None, own.name)
    if on == "validation":
        held = split(own.train, config.data.validation, config.data.split_seed)[1]
        if foreign or not len(held.labels):
            raise ValueError(f"{folder}: has no validation images of its own to evaluate on.")
        own = dataclasses.replace(own, test=held, benchmark=None)
    if foreign:
        other = load_dataset(dataset or "folder", data_dir, path=path, size=config.data.size)
        if len(other.classes) != len(own.classes) or other.test.images.shape[1] != own.test.images.shape[1]:
            raise ValueError(
                f"{folder}: trained on {own.name} ({len(own.classes)} classes); {other.name} has {len(other.classes)}, "
                f"or other channels."
            )
        own = dataclasses.replace(other, mean=own.mean, std=own.std)
    result = read_result(folder)
    training = None if result is None else {k: v for k, v in result.items() if k != "config"}
    plain = dataclasses.replace(config.model, method="strided", options={})
    baseline = build_model(dataclasses.replace(config, model=plain), own).eval()
    return Subject(model, own, config.model.name, config.recipe, config, training, baseline, foreign)


def evaluate(subject: Subject, settings: Settings, report: progress.ProgressCallback | None = None) -> records.Record:
    """Measure a network and make the record of it."""
    watch = Stopwatch()
    model, dataset = subject.model, subject.dataset
    metrics = suite.evaluate(
        model,
        dataset,
        parts=settings.parts,
        limit=settings.limit,
        shift_images=settings.shift_images,
        seed=settings.seed,
        method=None if subject.config is None else subject.config.model.method,
        options=None if subject.config is None else subject.config.model.options,
        baseline=subject.baseline,
        report=report,
    )
    config = None if subject.config is None else subject.config.to_dict()
    images = dataset.test.images
    weights = tensor_digest(model.state_dict())
    how = settings.to_dict()
    if config is None:  # nothing but the weights tells one network of the user's from another
        how |= {"weights": weights}
    if subject.config is None or subject.foreign:
        how |= {"data": dataset.checksum}
    return records.make(
        key=records.identity(config, subject.name, dataset.name, how),
        name=subject.title,
        model={
            "source": "module" if config is None else "run",
            "name": subject.name,
            "method": subject.method,
            "parameters": sum(p.numel() for p in model.parameters()),
            "weights": settings.weights if config is not None else None,
            "sha256": weights,
        },
        seed=None if subject.config is None else subject.config.run.seed,
        config=config,
        training=subject.training,
        dataset={
            "name": dataset.name,
            "part": settings.on,
            "source": dataset.source,
            "checksum": dataset.checksum,
            "images": len(images) if settings.limit is None else min(settings.limit, len(images)),
            "size": list(images.shape[1:]),
        },
        settings=settings.to_dict(),
        seconds=watch(),
        metrics=metrics,
    )


def run(
    source: str,
    dataset: str | None,
    weights: str | None,
    folder: Path | None,
    settings: Settings,
    data_dir: Path | None,
    out: Path,
    as_json: bool,
) -> int:
    """`shiftproof evaluate RUN_OR_MODEL`: print what was measured, draw it, write the record."""
    environment.code()
    place = Path(source)
    if place.is_dir():
        which = weights or "best"
        if which not in ("best", "final"):
            raise ValueError(f"`--weights` (={which!r}) of a run must be best or final.")
        settings = dataclasses.replace(settings, weights=which)
        subject = from_run(place, which, dataset, data_dir, folder, settings.on)
    else:
        if ":" not in source:
            raise ValueError(f"{source}: neither the folder of a run nor `module:factory` nor `timm:NAME`.")
        if settings.on != "test":
            raise ValueError("`--on validation` is for runs, which know what they held out.")
        if dataset is None:
            raise ValueError("`--dataset` must say on what a network of your own is evaluated.")
        model = load_model(source, None if weights is None else Path(weights))
        data = load_dataset(dataset, data_dir, path=folder)
        subject = Subject(model, data, source.replace(":", "-"), None)
    with progress.reporting(subject.title) as report:
        record = evaluate(subject, settings, report)
    written = [records.write(record, out), *draw(record, out)]
    if as_json:
        print(json.dumps(record | {"files": [str(p) for p in written]}, indent=2))
    else:
        summary.show(record)
        for path in written:
            print(f"wrote {path}")
    return 0


def draw(record: records.Record, out: Path) -> list[Path]:
    """The pictures of a record: the heat map over all shifts, the aliasing curve."""
    from shiftproof.reports import figures

    written = []
    stem = f"{record['name']}-{record['key'][:8]}"
    shifts = records.lookup(record["metrics"], "consistency", "all_pairs")
    if shifts is not None:
        rows = [figures.recorded_shifts("circular shifts", shifts)]
        written.append(figures.save(figures.heatmap(rows), out / f"{stem}-shifts.png"))
    curve = records.lookup(record["metrics"], "aliasing")
    if curve is not None:
        written.append(figures.aliasing(out / f"{stem}-aliasing.png", {curve["method"]: curve}))
    return written
