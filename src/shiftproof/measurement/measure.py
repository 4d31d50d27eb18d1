"""`measure`: how a network answers when its pictures are shifted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.evaluation.classifier import evaluating
from shiftproof.invariance import KINDS, Consistency, ShiftError, Shifts, survey
from shiftproof.measurement.kind_result import ImageResult, KindResult
from shiftproof.measurement.result import Measurement

EXHAUSTIVE_PIXELS = 2**26  # every shift is tried while the shifted images have at most this many pixels
SAMPLE = 256  # shifts tried beyond that


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
    report: Callable[[float, int], object] | None = None,
) -> Measurement:
    """How a classifier, images (B, C, H, W) to scores (B, classes), answers when each image is shifted.

    `shifts` are those of `shift_error`; by default all of them where that is feasible, else a random sample drawn
    with `seed`. `labels` name the classes and `names` the images. `report(done, total)` is called as images are done.
    The network is measured in evaluation mode; afterwards it has the mode it had before.

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
        shifts = "all" if len(images) * math.prod(images.shape[2:]) ** 2 <= EXHAUSTIVE_PIXELS else SAMPLE
    answers: list[Tensor] = []

    def record(x: Tensor) -> Tensor:
        out = model(x)
        if isinstance(out, Tensor) and out.dim() == 2:
            if labels is not None and len(labels) != out.shape[1]:
                raise ValueError(f"`labels` ({len(labels)}) must have one entry per class ({out.shape[1]}).")
            answers.append(out.argmax(1).cpu())
        return out

    total = len(wanted) * len(images)
    results: dict[str, KindResult] = {}
    with evaluating(model):
        for kind in wanted:
            parts = []
            for i, name in enumerate(names):
                start = len(results) * len(images) + i

                def on_progress(done: int, count: int, start: int = start) -> None:
                    if report is not None:
                        report(start + done / count, total)

                answers.clear()
                error, agreement = survey(
                    record, images[i : i + 1], shifts, kind, batch_size=batch_size, seed=seed, progress=on_progress
                )
                before, after = answers[0][0], torch.cat(answers[1:])[: len(error.shifts)]
                parts.append((error, agreement, after == before, _image_result(name, error, before, after)))
            results[kind] = _combined(kind, parts)
    about = {"images": f"{len(images)} of {images.shape[2]} x {images.shape[3]} pixels, {images.shape[1]} channels"}
    return Measurement(results, about, None if labels is None else list(labels), images)


def _image_result(name: str, error: ShiftError, before: Tensor, after: Tensor) -> ImageResult:
    """One image at its worst shift, given the answers before and after each shift."""
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


def _combined(kind: str, parts: Sequence[tuple[ShiftError, Consistency, Tensor, ImageResult]]) -> KindResult:
    """The results of single images as one: the largest changes, the mean shares.

    The third entry of each says for every shift whether the image kept its answer.
    """
    errors, agreements, kept, images = zip(*parts)
    shifts = errors[0].shifts
    changes = torch.stack([error.changes for error in errors]).amax(0)
    return KindResult(
        kind=kind,
        pairs=sum(agreement.pairs for agreement in agreements) / len(parts),
        reference=sum(agreement.reference for agreement in agreements) / len(parts),
        max=float(changes.max()),
        mean=sum(error.mean for error in errors) / len(parts),
        worst=shifts[int(changes.argmax())],
        exact=all(error.exact for error in errors),
        shifts=shifts,
        changes=changes,
        kept=torch.stack(kept).double().mean(0),
        change_map=torch.stack([error.map for error in errors]).amax(0),
        kept_map=torch.stack([agreement.map for agreement in agreements]).mean(0),
        images=list(images),
    )
