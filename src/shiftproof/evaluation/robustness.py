"""Accuracy and agreement of a classifier on damaged images: erased patches, flips, rotations, noise."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from shiftproof.data.perturbations import erase, erasure_places, gaussian_noise, half_turn, rotate, vertical_flip
from shiftproof.evaluation.accuracy import accuracy
from shiftproof.evaluation.classifier import Change, Classifier
from shiftproof.evaluation.consistency import aps_protocol
from shiftproof.evaluation.statistics import hits, mean

PATCHES = (0, 4, 6, 8)
SIGMAS = (0.02, 0.05, 0.1, 0.2)
ERASURE_BATCH = 256
DAMAGES = ("erasure", "vertical_flip", "half_turn", "rotation", "noise")


def relative_change(clean: Tensor, found: Tensor) -> Tensor:
    """The norm of the change of the scores, relative to the norm of the scores, per image. (N, classes) -> (N,)"""
    change, length = ((v * v).sum(1).sqrt() for v in ((found - clean).double(), clean.double()))
    return change / length.clamp_min(torch.finfo(length.dtype).tiny)


def measure_robustness(
    f: Classifier,
    images: Tensor,
    labels: Tensor,
    *,
    damages: Collection[str] = DAMAGES,
    clean: Tensor | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Accuracy, and agreement with the answer to the undamaged image, on damaged images (N, C, H, W).

    * `erasure`: a square of 0, 4, 6 or 8 pixels filled with the mean; `per_batch` at one place for 256
      images, as in the reference code, `per_image` at random places. Patches larger than the image are left out;
    * `vertical_flip`; `half_turn`, which the reference code calls a vertical flip;
    * `consistency` of `per_batch`, `vertical_flip` and `half_turn`: the damaged image shifted twice, see
      `aps_protocol`;
    * `rotation`: every image by its own random angle of up to 360 degrees, with black corners;
    * `noise` of standard deviation 0.02, 0.05, 0.1 and 0.2, where pixels lie in [0, 1]; with the mean relative change
      of the scores. The noise depends on the batch size of `f`, everything else only on `seed`.

    `damages` selects among them.
    """
    count, channels, size = images.shape[0], images.shape[1], images.shape[2:]
    before = f.scores(images, name="robustness: clean") if clean is None else clean

    def damaged(name: str, change: Change | None, shifted: bool = False, noise: bool = False) -> dict[str, Any]:
        found = before if change is None else f.scores(images, change, f"robustness: {name}")
        out = {"accuracy": accuracy(found, labels), "agreement": hits(found.argmax(1) == before.argmax(1), keep=True)}
        if shifted:
            out["consistency"] = aps_protocol(f, images, change, seed=seed, name=f"robustness: {name}")
        if noise:
            out["relative_change"] = mean(relative_change(before, found), seed)
        return {what: estimate.to_dict() for what, estimate in out.items()}

    def erased(patch: int, batch: int | None) -> dict[str, Any]:
        places = erasure_places(count, size, patch, torch.Generator().manual_seed(seed), batch)

        def change(x: Tensor, where: slice) -> Tensor:
            return erase(x, patch, places[where], f.mean)

        return damaged(f"{patch} x {patch} erased", change if patch else None, shifted=batch is not None)

    def noisy(sigma: float) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(seed)
        return damaged(f"noise {sigma}", lambda x, where: gaussian_noise(x, sigma, generator), noise=True)

    degrees = torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 360
    black = (0.0,) * channels
    patches = [patch for patch in PATCHES if patch <= min(size)]
    ways = (("per_batch", ERASURE_BATCH), ("per_image", None))
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "erasure": lambda: {name: {str(patch): erased(patch, batch) for patch in patches} for name, batch in ways},
        "vertical_flip": lambda: damaged("vertical flip", lambda x, where: vertical_flip(x), shifted=True),
        "half_turn": lambda: damaged("180 degrees", lambda x, where: half_turn(x), shifted=True),
        "rotation": lambda: damaged("rotation", lambda x, where: rotate(x, degrees[where], black)),
        "noise": lambda: {str(sigma): noisy(sigma) for sigma in SIGMAS},
    }
    return {name: measure() for name, measure in measures.items() if name in damages}
