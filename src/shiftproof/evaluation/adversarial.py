"""Accuracy when somebody chooses the worst shift of each image: the grids of Michaeli et al. (2023)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from shiftproof.evaluation.classifier import Classifier, pixels
from shiftproof.evaluation.consistency import summarise
from shiftproof.evaluation.motion import worst_shift_accuracy
from shiftproof.evaluation.statistics import hits
from shiftproof.invariance import survey

# Pixels along each axis. Circular shifts by 4 and more repeat those below 4 in a network that is invariant, or whose
# strides multiply to 4, such as `resnet20`.
GRIDS = {
    "integer": [float(k) for k in range(4)],
    "half": [k / 2 for k in range(8)],
    "fractional": [k / 8 for k in range(8)],
}
_CROP = 16  # crops lose this part of the size on every side


def measure_adversarial(f: Classifier, images: Tensor, labels: Tensor) -> dict[str, Any]:
    """What a classifier makes of images (N, C, H, W) under every shift of a grid.

    * `integer`: circular shifts by 0, 1, 2 and 3 pixels on each axis, which only move pixels;
    * `half`, `fractional`: circular shifts by multiples of 1/2 below 4 pixels and of 1/8 below 1, by the shift theorem;
    * `crop`: all crops that are an eighth smaller than the image, like a camera that moves: pixels leave on one side
      and others enter. On 32 pixels: 25 crops of 28 x 28.

    Each has, beside the numbers of `summarise`:

    * `offsets`: the shifts on each axis; `size` of the crops;
    * `unshifted`: the accuracy without a shift, for `crop` in the middle;
    * `accuracy`: the adversarial accuracy, the share of images that are right under *every* shift of the grid.
    """
    x = pixels(images)
    reach = [max(1, n // _CROP) for n in x.shape[2:]]
    rows, columns = (slice(r, -r) for r in reach)

    def under(name: str, offsets: list[list[float]], kind: str, g: Callable[[Tensor], Tensor] = f) -> dict[str, Any]:
        shifts = list(itertools.product(*offsets))
        told = partial(f.report, f"adversarial: {name}")
        error, agreement = survey(g, x, shifts, kind, batch_size=f.batch_size, progress=told)
        classes = agreement.classes
        return summarise(error, agreement) | {
            "offsets": offsets,
            "worst_shift": list(shifts[int(error.changes.argmax())]),  # not modulo the size
            "unshifted": hits(classes[shifts.index((0.0, 0.0))] == labels).to_dict(),
            "accuracy": worst_shift_accuracy(classes, labels).to_dict(),
        }

    kinds = {"integer": "circular", "half": "fractional", "fractional": "fractional"}
    found = {name: under(name, [GRIDS[name]] * 2, kind) for name, kind in kinds.items()}
    # a crop of a rolled image: what the roll brought across the border is outside of it
    moves = [[float(k) for k in range(-r, r + 1)] for r in reach]
    crop = under("crop", moves, "circular", lambda v: f(v[..., rows, columns]))
    return found | {"crop": crop | {"size": list(x[..., rows, columns].shape[2:])}}
