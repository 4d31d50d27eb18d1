"""A trained network, or one of the user's own, measured on a data set: the record of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from shiftproof import progress
from shiftproof.data.batches import split
from shiftproof.data.sets import Dataset, load_dataset
from shiftproof.evaluation import suite
from shiftproof.experiments import records
from shiftproof.experiments.records import Settings
from shiftproof.training.checkpoint import tensor_digest
from shiftproof.training.config import Config
from shiftproof.training.process import Stopwatch
from shiftproof.training.runs import build_model, load_run, read_result


@dataclass(frozen=True)
class Subject:
    """What is evaluated: a network with its data set, and where both come from."""

    model: nn.Module
    dataset: Dataset
    name: str
    config: Config | None = None  # with its options in full
    training: Mapping[str, Any] | None = None
    baseline: nn.Module | None = None
    foreign: bool = False  # whether the data set is not the one it was trained on
    weights: str | None = None  # of a network without a run: which ones

    @property
    def title(self) -> str:
        """The name of its record."""
        return records.make_name(self.dataset.name, self.name, self.config)


def from_run(
    folder: Path, settings: Settings, data_dir: Path | None = None, dataset: str | None = None, path: Path | None = None
) -> Subject:
    """The network of a finished run, on its own data set or on another (pictures in `path`) with as many classes."""
    model, config, own = load_run(folder, settings.weights, data_dir)
    foreign = path is not None or dataset not in (None, own.name)
    if settings.on == "validation":
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
    plain = dataclasses.replace(config.model, method="strided", options={}, subpixel=False, weights=None)
    if plain.converted:
        plain = dataclasses.replace(plain, padding="keep", placement="after", antialias=False)  # the source
    form = torch.channels_last if config.run.channels_last else torch.contiguous_format  # that of the network
    baseline = build_model(dataclasses.replace(config, model=plain), own).to(memory_format=form).eval()  # type: ignore[call-overload]
    return Subject(model, own, config.model.name, config, training, baseline, foreign)


def evaluate(subject: Subject, settings: Settings, report: progress.ProgressCallback | None = None) -> records.Record:
    """Measure a network and make the record of it."""
    watch = Stopwatch()
    model, dataset, config = subject.model, subject.dataset, subject.config
    metrics = suite.evaluate(
        model,
        dataset,
        parts=settings.parts,
        limit=settings.limit,
        shift_images=settings.shift_images,
        seed=settings.seed,
        method=None if config is None else config.model.method,
        options=None if config is None else config.model.options,
        baseline=subject.baseline,
        report=report,
    )
    images = dataset.test.images
    fields = {
        "name": subject.title,
        "model": {
            "source": "module" if config is None else "run",
            "name": subject.name,
            "method": None if config is None else config.recipe,
            "parameters": sum(p.numel() for p in model.parameters()),
            "weights": subject.weights if config is None else settings.weights,
            "sha256": tensor_digest(model.state_dict()),
        },
        "seed": None if config is None else config.run.seed,
        "config": None if config is None else config.to_dict(),
        "training": subject.training,
        "dataset": {
            "name": dataset.name,
            "part": settings.on,
            "source": dataset.source,
            "checksum": dataset.checksum,
            "images": len(images) if settings.limit is None else min(settings.limit, len(images)),
            "size": list(images.shape[1:]),
        },
        "settings": settings.to_dict(),
        "seconds": watch(),
        "metrics": metrics,
    }
    return records.make(key=records.key_of(fields, subject.foreign), **fields)
