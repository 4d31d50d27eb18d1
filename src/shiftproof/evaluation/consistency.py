"""How often a classifier keeps its answer when its input moves, and how far its scores move.

The measure itself is `invariance.survey`; here it answers the questions one asks of a trained network.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from shiftproof.data.perturbations import move_camera
from shiftproof.evaluation.accuracy import FRACTIONS, random_shifts
from shiftproof.evaluation.classifier import Change, Classifier, pixels
from shiftproof.evaluation.statistics import Estimate, hits, proportion
from shiftproof.invariance import Consistency, ShiftError, Shifts, survey
from shiftproof.maps.shifts import circular_shift, fractional_shift

APS_BATCH = 256
ALL_UP_TO = 4096  # shifts: larger images get a sample
SAMPLE = 1024
AGREEMENT_IMAGES = 2000
Move = Callable[[Tensor, Tensor, slice], Tensor]  # (images, their shifts, their places in the data set) -> moved images


def aps_protocol(
    f: Classifier,
    images: Tensor,
    change: Change | None = None,
    *,
    batch: int = APS_BATCH,
    seed: int = 0,
    name: str = "consistency: APS protocol",
) -> Estimate:
    """Consistency as the reference code of APS reports it, on the images unchanged or with a `change` applied first.

    For every `batch` consecutive images, two circular shifts are drawn from {-3 .. 2} on each axis; the share of images
    that get the same class under both, averaged over batches. Images of a smaller last batch weigh more. The
    interval assumes independent images.
    """
    count = images.shape[0]
    generator = torch.Generator().manual_seed(seed)
    batches = -(-count // batch)
    drawn = torch.randint(-3, 3, (2, batches, 2), generator=generator).repeat_interleave(batch, 1)[:, :count]

    def moved(x: Tensor, shifts: Tensor, where: slice) -> Tensor:
        return circular_shift(x if change is None else change(x, where), shifts)

    first, second = (answers(f, images, drawn[k], moved, f"{name}, shift {k + 1} of 2") for k in (0, 1))
    means = torch.stack([part.mean() for part in torch.split((first == second).double(), batch)])
    return proportion(float(means.mean()), count)


def answers(f: Classifier, images: Tensor, shifts: Tensor, move: Move, name: str) -> Tensor:
    """The class of each image under its own shift, (N, 2). -> (N,)"""
    return f.scores(images, lambda x, where: move(x, shifts[where], where), name).argmax(1)


def measure_agreement(f: Classifier, images: Tensor, *, most: int = AGREEMENT_IMAGES, seed: int = 0) -> dict[str, Any]:
    """How often a classifier gives two answers alike, on `most` of the images (N, C, H, W), drawn with `seed`.

    * `circular`: under two random circular shifts of the image, each drawn from all H x W;
    * `cropped`, by border (`black`, `reflect`): under two random moves of a camera, up to an eighth of the size;
    * `fractional`, by part of a pixel (1/2, 1/4, 1/8): for the unshifted image, and for one shifted by it along the
      rows, the columns or both.

    Every image counts once, and its answer is kept in the estimate. Many images with one pair of shifts each tell more
    than few images with many shifts.
    """
    count, size = min(most, images.shape[0]), images.shape[2:]
    order = torch.randperm(images.shape[0], generator=torch.Generator().manual_seed(seed))[:count]
    some = images[order.sort().values]

    def under(name: str, shifts: Tensor, move: Move) -> Tensor:
        return answers(f, some, shifts, move, f"consistency: {name}")

    def two(name: str, ranges: list[tuple[int, int]], move: Move) -> dict[str, Any]:
        both = random_shifts(2 * count, ranges, seed).view(2, count, 2)
        first, second = (under(f"{name}, {k} of 2", shifts, move) for k, shifts in enumerate(both, start=1))
        return hits(first == second, keep=True).to_dict()

    def camera(border: str, fill: tuple[float, ...]) -> Move:
        return lambda x, shifts, _: move_camera(x, shifts, border, fill)

    reach = [(-max(1, n // 8), max(1, n // 8) + 1) for n in size]
    cameras = {"black": camera("fill", (0.0,) * images.shape[1]), "reflect": camera("reflect", f.mean)}
    ways = torch.tensor([[1, 0], [0, 1], [1, 1]])[random_shifts(count, [(0, 3)], seed)[:, 0]]
    before = f.scores(some, name="consistency: unshifted").argmax(1)
    parts = {
        name: under(f"{name} pixel", part * ways, lambda x, shifts, _: fractional_shift(x, shifts))
        for name, part in FRACTIONS.items()
    }
    return {
        "images": count,
        "circular": two("circular shifts", [(0, n) for n in size], lambda x, shifts, _: circular_shift(x, shifts)),
        "cropped": {name: two(f"moves of the camera, {name}", reach, move) for name, move in cameras.items()},
        "fractional": {name: hits(found == before, keep=True).to_dict() for name, found in parts.items()},
    }


def measure_consistency(
    f: Classifier, images: Tensor, *, shift_images: int = 64, shifts: Shifts | None = None, seed: int = 0
) -> dict[str, Any]:
    """Consistency of a classifier on images (N, C, H, W).

    * `aps_protocol`: as the reference code reports it, on all images;
    * `agreement`: `measure_agreement`, on up to 2,000 of them;
    * `all_pairs` (circular shifts), `cropped` (black and reflected border), `fractional` (1/2, 1/4, 1/8 pixel along
      the rows, the columns and both): `measure_shifts` on `shift_images` of them, drawn with `seed`.

    Circular `shifts` are all H x W, or a sample of 1,024 where the image has more than 4,096 pixels.
    """
    count = images.shape[0]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:shift_images]
    some = pixels(images[order.sort().values])
    possible = math.prod(images.shape[2:])
    if shifts is None:
        shifts = "all" if possible <= ALL_UP_TO else SAMPLE
    under = partial(measure_shifts, f, some, seed=seed)
    fractions = {name: under([(a, 0.0), (0.0, a), (a, a)], "fractional") for name, a in FRACTIONS.items()}
    return {
        "aps_protocol": aps_protocol(f, images, seed=seed).to_dict() | {"batch": APS_BATCH},
        "agreement": measure_agreement(f, images, seed=seed),
        "all_pairs": under(shifts, "circular") | {"possible_shifts": possible},
        "cropped": {"black": under("all", "cropped"), "reflect": under("all", "cropped", border="reflect")},
        "fractional": fractions,
    }


def measure_shifts(
    f: Classifier, x: Tensor, shifts: Shifts, kind: str, *, border: str = "zeros", seed: int = 0
) -> dict[str, Any]:
    """The results of `survey` as plain numbers: those of `summarise`, and

    * `least_agreement`: the smallest share of images that keep their class under one shift, and that shift;
    * `map`, `change_map`: that share and the largest change, per shift (rows, columns); not for fractional shifts.
    """
    title = f"consistency: {kind} shifts" + (f", {border}" if kind == "cropped" else "")
    error, agreement = survey(
        f, x, shifts, kind, border=border, batch_size=f.batch_size, seed=seed, progress=partial(f.report, title)
    )
    found = summarise(error, agreement)
    if kind == "fractional":
        return found
    lowest = int(agreement.map.nan_to_num(nan=2.0).argmin())
    row, column = divmod(lowest, agreement.map.shape[1])
    start = [0, 0] if kind == "circular" else [-(n // 2) for n in agreement.map.shape]
    found["least_agreement"] = {
        "value": float(agreement.map[row, column]),
        "shift": [row + start[0], column + start[1]],
    }
    return found | {"map": agreement.map.tolist(), "change_map": error.map.tolist()}


def summarise(error: ShiftError, agreement: Consistency) -> dict[str, Any]:
    """What a survey found, in plain numbers.

    * `images`, `shifts`: how many were tried;
    * `pairs`: the probability that two random shifts of an image get the same class; `reference`: that a shift keeps
      the class of the unshifted image; both averaged over images, with the interval of as many yes-or-no
      observations, which is wide enough for shares in between;
    * `largest_change`, `mean_change` of a score; `worst_shift` of the largest one; `exact`: all bits are equal.
    """
    images = len(agreement.per_image)
    return {
        "images": images,
        "shifts": len(error.shifts),
        "pairs": proportion(agreement.pairs, images).to_dict(),
        "reference": proportion(agreement.reference, images).to_dict(),
        "largest_change": error.max,
        "mean_change": error.mean,
        "worst_shift": list(error.worst),
        "exact": error.exact,
    }
