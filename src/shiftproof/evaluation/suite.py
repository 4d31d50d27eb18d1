"""The complete evaluation of a trained network: every measure on one data set, as plain numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from shiftproof import checks
from shiftproof.evaluation.accuracy import accuracy, measure_accuracy
from shiftproof.evaluation.adversarial import measure_adversarial
from shiftproof.evaluation.aliasing import measure_aliasing
from shiftproof.evaluation.classifier import Classifier, ProgressCallback, evaluating, pixels
from shiftproof.evaluation.consistency import AGREEMENT_IMAGES, measure_consistency
from shiftproof.evaluation.efficiency import measure_efficiency
from shiftproof.evaluation.motion import measure_motion
from shiftproof.evaluation.robustness import DAMAGES, measure_robustness
from shiftproof.evaluation.statistics import pack
from shiftproof.evaluation.ties import measure_ties

if TYPE_CHECKING:
    from shiftproof.data.sets import Dataset, Images

PARTS = ("accuracy", "consistency", "robustness", "aliasing", "efficiency")
SINGLE_DAMAGES = tuple(f"robustness.{name}" for name in DAMAGES)
ON_REQUEST = ("adversarial", "motion")  # parts that take too long to be measured unless they are asked for
_TIMED = 64  # images in the batch whose time is taken


def evaluate(
    model: nn.Module,
    dataset: Dataset,
    *,
    parts: Sequence[str] = PARTS,
    limit: int | None = None,
    batch_size: int = 250,
    shift_images: int = 64,
    seed: int = 0,
    method: str | None = None,
    options: Mapping[str, Any] | None = None,
    baseline: nn.Module | None = None,
    report: ProgressCallback | None = None,
) -> dict[str, Any]:
    """Measure a network on the test part of a data set: a nested dictionary, by part, that JSON can hold.

    If the data set also has the test part of a benchmark, the accuracy includes it. With the accuracy come the
    `predictions`, the classes that the unchanged images were given; `statistics.unpack` reads them.

    `parts`: which of `PARTS` to measure, or of `ON_REQUEST`; each is described by its function, `measure_accuracy` and
    so on. A single damage of robustness can be chosen: `"robustness.noise"`.
    `limit`: measure that many images, drawn with `seed`, instead of all.
    `shift_images`: how many of them are put through all shifts.
    `method`, `options`: the downsampling method whose aliasing is measured; without one that part is left out.
    `baseline`: the strided network, on the same device, that the time is compared with.
    `report(name, done, total)` is called with the progress of each measure.

    Every estimate is a dictionary of `value`, `low`, `high` (its 95 % interval) and `n`; numbers that do not exist or
    are not finite are None. The network is measured in evaluation mode; afterwards its modules have the modes they
    had before.
    """
    for part in parts:
        checks.choice("parts", part, (*PARTS, *ON_REQUEST, *SINGLE_DAMAGES))
    damages = [name for name in DAMAGES if {"robustness", f"robustness.{name}"} & set(parts)]
    if not len(dataset.test.labels):
        raise ValueError(f"data set {dataset.name!r} has no test images.")
    images, labels = _drawn(dataset.test, limit, seed)
    shift_images = min(checks.integer("shift_images", shift_images), images.shape[0])

    f = Classifier(model, dataset.mean, dataset.std, batch_size, report)
    found: dict[str, Any] = {}
    with evaluating(model):
        clean = None
        if "accuracy" in parts or damages:
            clean = f.scores(images, name="accuracy: clean")
        if "accuracy" in parts and clean is not None:
            found["accuracy"] = measure_accuracy(f, images, labels, clean=clean, seed=seed)
            if dataset.benchmark is not None:
                x, y = _drawn(dataset.benchmark, limit, seed)
                answers = f.scores(x, name="accuracy: benchmark")
                found["accuracy"]["benchmark"] = accuracy(answers, y).to_dict()
            found["predictions"] = {"clean": pack(clean.argmax(1))}
        if "consistency" in parts:
            found["consistency"] = measure_consistency(f, images, shift_images=shift_images, seed=seed)
            found["consistency"]["ties"] = measure_ties(f, model, images[:AGREEMENT_IMAGES])
        if "adversarial" in parts:
            found["adversarial"] = measure_adversarial(f, images, labels)
        if "motion" in parts:
            found["motion"] = measure_motion(f, images, labels, seed=seed)
        if damages:
            found["robustness"] = measure_robustness(f, images, labels, damages=damages, clean=clean, seed=seed)
        if "aliasing" in parts and method is not None:
            f.report("aliasing", 0, 1)
            found["aliasing"] = measure_aliasing(method, options, seed=seed)
            f.report("aliasing", 1, 1)
        if "efficiency" in parts:
            f.report("efficiency", 0, 1)
            x = f.normalised(pixels(images[:_TIMED]))
            found["efficiency"] = measure_efficiency(model, x, baseline)
            f.report("efficiency", 1, 1)
    return {name: plain(value) for name, value in found.items()}


def _drawn(part: Images, limit: int | None, seed: int) -> tuple[Tensor, Tensor]:
    """Images and labels: at most `limit`, drawn with `seed`, in their order."""
    total = len(part.labels)
    if limit is None or checks.integer("limit", limit) >= total:
        return part.images, part.labels
    chosen = torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:limit].sort().values
    return part.images[chosen], part.labels[chosen]


def plain(value: Any, infinity: str | None = None) -> Any:
    """`value` as JSON can hold it: lists for tensors and tuples, None for NaN, `infinity` for what is infinite."""
    if isinstance(value, dict):
        return {key: plain(part, infinity) for key, part in value.items()}
    if isinstance(value, Tensor):
        return plain(value.tolist(), infinity)
    if isinstance(value, list | tuple):
        return [plain(part, infinity) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else infinity
    return value
