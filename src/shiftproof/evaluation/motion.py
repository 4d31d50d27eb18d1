"""How a network's answers hold when the camera moves: one set of measures, on answers that are already there.

Letters: N pictures, K classes, T steps along a path, S shifts. Intervals are over pictures or streams, which are
independent. The steps of one stream are not: of a single one, the interval is too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shiftproof.data.perturbations import camera_view
from shiftproof.evaluation.accuracy import random_shifts
from shiftproof.evaluation.classifier import Classifier
from shiftproof.evaluation.statistics import Estimate, hits, mean

STEPS = 8  # of one pixel, along a path
PATHS = 2000  # pictures that are followed
_SMALLER = 8  # crops lose this part of the size: 224 of 256 pixels (Zhang 2019), 28 of 32


def crop_consistency(first: Tensor, second: Tensor) -> Estimate:
    """How often two crops of a picture get the same answer (Zhang 2019), from their scores (N, K)."""
    return hits(first.argmax(1) == second.argmax(1))


def flip_rate(classes: Tensor) -> Estimate:
    """How often the answer changes from one step to the next, from the answers along paths or videos (T, N)."""
    flips = (classes[1:] != classes[:-1]).double()
    return hits(flips > 0) if flips.shape[1] == 1 else mean(flips.mean(0))


def confidence_jitter(scores: Tensor) -> Estimate:
    """How far the probability of the answer moves in one step, from scores along paths or videos (T, N, K).

    Of the answer before the step; the mean of the absolute changes.
    """
    p = scores.softmax(-1)
    before = p[:-1].max(-1)
    change = (p[1:].gather(-1, before.indices[..., None])[..., 0] - before.values).abs()  # (T - 1, N)
    return mean(change if change.shape[1] == 1 else change.mean(0))


def worst_shift_accuracy(classes: Tensor, labels: Tensor) -> Estimate:
    """The share of pictures that are right under *every* shift, from the answers (S, N) and the labels (N,)."""
    return hits((classes == labels).all(0))


def segmentation_consistency(before: Tensor, after: Tensor, motion: Tensor, circular: bool = False) -> Estimate:
    """How much of two segmentations agrees where both show the scene: mASSC, the mean of `segmentation_shares`."""
    return mean(segmentation_shares(before, after, motion, circular))


def segmentation_shares(before: Tensor, after: Tensor, motion: Tensor, circular: bool = False) -> Tensor:
    """The share of the pixels of each picture that two windows show and give the same class. (N,)

    `before`, `after`: class maps (N, H, W) of a window and of the window moved by `motion` (N, 2), so that pixel i of
    `after` shows what pixel i + motion of `before` shows. With `circular` all pixels do, around the edges.
    """
    shares = []
    for a, b, (row, column) in zip(before, after, motion.tolist()):
        moved = a.roll((-row, -column), (0, 1))
        if not circular:
            moved, b = (_overlap(v, row, column) for v in (moved, b))
        if b.numel() == 0:
            raise ValueError(f"`motion` (={(row, column)}) must be smaller than the maps {tuple(before.shape[1:])}.")
        shares.append((moved == b).double().mean())
    return torch.stack(shares)


def _overlap(x: Tensor, row: int, column: int) -> Tensor:
    """The pixels that a window moved by (row, column) shares with the one before."""
    rows, columns = (slice(max(0, -m), n - max(0, m)) for m, n in zip((row, column), x.shape))
    return x[rows, columns]


def match_boxes(before: Tensor, after: Tensor, motion: Sequence[float] = (0, 0), least: float = 0.5) -> Tensor:
    """Which boxes (top, left, bottom, right) show the same thing in two windows, as indices. (n, 4), (m, 4) -> (k, 2)

    `motion` (row, column) of the window; the pairs with the largest intersection over union first, each box once, as
    long as it is at least `least`.
    """
    there = before - torch.tensor([*motion, *motion], dtype=before.dtype, device=before.device)
    overlap = box_overlap(there, after)
    pairs = []
    while overlap.numel() and float(overlap.max()) >= least:
        i, j = divmod(int(overlap.argmax()), overlap.shape[1])
        pairs.append((i, j))
        overlap[i], overlap[:, j] = -1, -1
    return torch.tensor(pairs, dtype=torch.int64).view(-1, 2)


def box_overlap(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of all pairs of boxes. (n, 4), (m, 4) -> (n, m)"""
    low, high = torch.maximum(a[:, None, :2], b[:, :2]), torch.minimum(a[:, None, 2:], b[:, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    areas = [(box[:, 2:] - box[:, :2]).prod(-1) for box in (a, b)]
    return both / (areas[0][:, None] + areas[1] - both)


def box_jitter(before: Tensor, after: Tensor, motion: Sequence[float] = (0, 0)) -> tuple[Tensor, Tensor]:
    """How boxes move against the scene: the distances of the centres of those that match, and which have a partner.

    Shape: (n, 4), (m, 4) -> (k,), (n + m,).
    """
    pairs = match_boxes(before, after, motion)
    centres = [(box[:, :2] + box[:, 2:]) / 2 for box in (before, after)]
    apart = centres[1][pairs[:, 1]] + torch.tensor(motion, dtype=before.dtype) - centres[0][pairs[:, 0]]
    paired = torch.zeros(len(before) + len(after), dtype=torch.bool)
    paired[pairs[:, 0]] = True
    paired[len(before) + pairs[:, 1]] = True
    return apart.square().sum(1).sqrt(), paired


def measure_motion(
    f: Classifier, images: Tensor, labels: Tensor, *, paths: int = PATHS, seed: int = 0
) -> dict[str, Any]:
    """A classifier under a camera that moves over the pictures (N, C, H, W): crops an eighth smaller, all of them real.

    * `crops`: two random crops of a picture get the same answer; `accuracy` of the first;
    * `flips`: the answer changes from one step to the next, on random walks of one pixel a step over `paths` pictures;
      `jitter`: how far its probability moves;
    * `size` of the crops, `steps` of a walk.

    Accuracy under every crop is in `measure_adversarial`, parts of a pixel in `measure_consistency`.
    """
    size = tuple(n - max(1, n // _SMALLER) for n in images.shape[2:])
    room = [(0, n - m + 1) for n, m in zip(images.shape[2:], size)]

    def scores_at(corner: Tensor, name: str) -> Tensor:
        seen = images[: len(corner)]
        return f.scores(seen, lambda x, where: camera_view(x, corner[where], size), f"motion: {name}")

    pair = [scores_at(random_shifts(len(images), room, seed + k), f"crop {k + 1} of 2") for k in (0, 1)]
    generator = torch.Generator().manual_seed(seed + 2)
    last = torch.tensor([high - 1 for _, high in room])
    corner = random_shifts(min(paths, len(images)), room, seed + 2)
    walk = [scores_at(corner, f"step 0 of {STEPS}")]
    for k in range(1, STEPS + 1):
        step = torch.randint(0, 2, corner.shape, generator=generator) * 2 - 1
        inside = (corner + step >= 0) & (corner + step <= last)
        corner = torch.where(inside, corner + step, corner - step).clamp(torch.zeros_like(last), last)
        walk.append(scores_at(corner, f"step {k} of {STEPS}"))
    scores = torch.stack(walk)
    return {
        "crops": crop_consistency(*pair).to_dict(),
        "accuracy": hits(pair[0].argmax(1) == labels).to_dict(),
        "flips": flip_rate(scores.argmax(-1)).to_dict(),
        "jitter": confidence_jitter(scores).to_dict(),
        "size": list(size),
        "steps": STEPS,
    }
