"""The measures of `motion` as metrics of torchmetrics (extra `metrics`), for the loop that evaluates a network.

`compute` gives `value`, `low`, `high` (the 95 % interval) and `n`. Only this module imports torchmetrics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from shiftproof.evaluation import motion
from shiftproof.evaluation.statistics import Estimate, hits, mean
from shiftproof.maps.shifts import fractional_shift


class _Collected(Metric):  # type: ignore[misc]
    """A metric that keeps one number for each picture, stream or box, in every process, and estimates at the end."""

    full_state_update = False
    observed: list[Tensor]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("observed", default=[], dist_reduce_fx="cat")

    def compute(self) -> dict[str, Tensor]:
        """The estimate."""
        values = dim_zero_cat(self.observed)
        return _tensors(hits(values) if values.dtype == torch.bool else mean(values))


def _tensors(estimate: Estimate) -> dict[str, Tensor]:
    return {name: torch.tensor(value) for name, value in estimate.to_dict().items()}


class CropConsistency(_Collected):
    """How often two crops of a picture get the same answer: `update(scores of one crop, scores of the other)`."""

    higher_is_better = True

    def update(self, first: Tensor, second: Tensor) -> None:
        """Scores (N, K) of N pictures."""
        self.observed.append(first.argmax(1) == second.argmax(1))


class FractionalConsistency(_Collected):
    """How often the answer stays when pictures move by parts of a pixel: `update(model, pictures)`.

    `shift`: (row, column) in pixels, circular, by the shift theorem.
    """

    higher_is_better = True

    def __init__(self, shift: Sequence[float] = (0.5, 0.5), **options: Any) -> None:
        super().__init__(**options)
        self.shift = tuple(shift)

    def update(self, model: Callable[[Tensor], Tensor], pictures: Tensor) -> None:
        """A model from pictures (N, C, H, W) to scores (N, K)."""
        with torch.no_grad():
            before, after = model(pictures), model(fractional_shift(pictures, self.shift))
        self.observed.append(before.argmax(1) == after.argmax(1))


class FlipRate(_Collected):
    """How often the answer changes from one frame to the next: `update(scores)` with the next frames of a stream.

    `reset_stream()` before another one.
    """

    higher_is_better = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._last: Tensor | None = None

    def update(self, scores: Tensor) -> None:
        """Scores (T, K) of T frames in order."""
        classes = scores.argmax(1)
        before = classes[:0] if self._last is None else self._last
        joined = torch.cat([before, classes])
        self._last = classes[-1:]
        self.observed.append(joined[1:] != joined[:-1])

    def reset_stream(self) -> None:
        """Let the next frame begin another stream."""
        self._last = None

    def reset(self) -> None:
        """Forget all streams."""
        super().reset()
        self._last = None


class WorstShiftAccuracy(_Collected):
    """The share of pictures that are right under every shift: `update(scores, labels)`."""

    higher_is_better = True

    def update(self, scores: Tensor, labels: Tensor) -> None:
        """Scores (S, N, K) of N pictures under S shifts, and labels (N,)."""
        self.observed.append((scores.argmax(-1) == labels).all(0))


class SegmentationShiftConsistency(_Collected):
    """How much of two segmentations agrees where both show the scene (mASSC): `update(before, after, motion)`.

    With `circular`, pixels that leave on one side come back on the other.
    """

    higher_is_better = True

    def __init__(self, circular: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.circular = circular

    def update(self, before: Tensor, after: Tensor, moved: Tensor) -> None:
        """Class maps (N, H, W) of windows, and of the windows moved by `moved` (N, 2)."""
        self.observed.append(motion.segmentation_shares(before, after, moved, self.circular))


class BoxJitter(Metric):  # type: ignore[misc]
    """How far boxes move against the scene, in pixels: `update(boxes, boxes of the window moved by a motion)`.

    `compute` has the mean distance of the centres, and in `paired` the share of boxes that have a partner.
    """

    full_state_update = False
    higher_is_better = False
    apart: list[Tensor]
    paired: list[Tensor]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("apart", default=[], dist_reduce_fx="cat")
        self.add_state("paired", default=[], dist_reduce_fx="cat")

    def update(self, before: Tensor, after: Tensor, moved: Sequence[float] = (0, 0)) -> None:
        """Boxes (n, 4) and (m, 4): top, left, bottom, right."""
        apart, paired = motion.box_jitter(before, after, moved)
        self.apart.append(apart)
        self.paired.append(paired)

    def compute(self) -> dict[str, Tensor]:
        """The estimate, and the share of boxes with a partner."""
        paired = dim_zero_cat(self.paired).float().mean()
        return _tensors(mean(dim_zero_cat(self.apart))) | {"paired": paired}
