"""How far an output moves when its input is shifted, and how often a classifier keeps its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.invariance.trials import Shift, Shifts, on_grid, outputs, plan_shifts

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class ShiftError:
    """How far the output of a function moves when its input is shifted.

    `max` and `mean` are the largest and the mean absolute change of the output over all images and shifts, `worst`
    the shift of the largest change, `exact` whether every output is equal bit for bit. `changes` holds the largest
    change for each of the `shifts`, `map` the same on the grid of all shifts (H x W for circular ones; NaN where a
    shift was not tried).
    """

    max: float
    mean: float
    worst: Shift
    exact: bool
    shifts: list[Shift]
    changes: Tensor
    map: Tensor

    def __str__(self) -> str:
        state = "bit for bit equal" if self.exact else f"largest at shift {self.worst}"
        return f"shift error over {len(self.shifts)} shifts: max {self.max:.3g}, mean {self.mean:.3g}, {state}"


@dataclass(frozen=True)
class Consistency:
    """How often a classifier keeps its answer when its input is shifted.

    `pairs` is the probability that two random shifts of an image get the same class, averaged over images;
    `reference` the share of shifts that keep the class of the unshifted image; `per_image` the former for each
    image; `map` the latter for each shift (NaN where a shift was not tried). `classes` holds the answers, shift by
    shift (shifts x images).
    """

    pairs: float
    reference: float
    per_image: Tensor
    map: Tensor
    classes: Tensor

    def __str__(self) -> str:
        return f"consistency: {self.pairs:.2%} of pairs of shifts agree, {self.reference:.2%} with the unshifted image"


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same dtype, shape and bytes: -0.0 differs from 0.0, NaN equals the same NaN.

    >>> same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    False
    """
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.is_complex():
        return same_bits(torch.view_as_real(a), torch.view_as_real(b))
    if a.is_floating_point():
        bits = _INTEGERS[a.element_size()]
        a, b = a.contiguous().view(bits), b.contiguous().view(bits)
    return torch.equal(a, b)


def shift_error(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    shifts: Shifts = "all",
    kind: str = "circular",
    *,
    border: str = "zeros",
    batch_size: int | None = None,
    seed: int = 0,
) -> ShiftError:
    """The change of f(x) when the images `x` (B, C, H, W) are shifted (Eqs. 14 and 15).

    `f` takes a batch of images. It is measured as it is used: every call has the batch, the memory layout and the class
    of `x`, because rounding may depend on each. The reference is evaluated on a copy of `x`.

    `shifts`: `"all"`, the number of a random sample drawn with `seed`, or a list of (row, column).
    `kind`: `"circular"` (all: H x W), `"cropped"` with a `border` (all: up to an eighth of the size each way),
    `"fractional"` (all: multiples of 1/8 pixel up to one pixel).
    `batch_size`: the most images in one call; several shifts share a call then, which is faster.

    Outputs that are equal, infinite or NaN on both sides count as no change; NaN on one side counts as infinite.

    >>> shift_error(lambda x: x.amax((2, 3)), torch.rand(2, 3, 8, 8)).max
    0.0
    """
    grid, tried = plan_shifts(x, shifts, kind, seed)
    changes = _Changes(grid, tried)
    for _, which, reference, moved in outputs(f, x, tried, kind, border, batch_size):
        changes.add(which, reference, moved)
    return changes.result()


def consistency(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    shifts: Shifts = "all",
    kind: str = "circular",
    *,
    border: str = "zeros",
    batch_size: int | None = None,
    seed: int = 0,
) -> Consistency:
    """How often the classifier `f`, images (B, C, H, W) to scores (B, classes), keeps its answer under shifts.

    The arguments are those of `shift_error`.

    >>> consistency(lambda x: x.amax((2, 3)), torch.rand(2, 3, 8, 8)).pairs
    1.0
    """
    return survey(f, x, shifts, kind, border=border, batch_size=batch_size, seed=seed)[1]


def survey(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    shifts: Shifts = "all",
    kind: str = "circular",
    *,
    border: str = "zeros",
    batch_size: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[ShiftError, Consistency]:
    """`shift_error` and `consistency` of a classifier from one pass over the shifted images.

    `progress` is told how many shifted images are done, and of how many.

    >>> error, agreement = survey(lambda x: x.amax((2, 3)), torch.rand(2, 3, 8, 8))
    >>> error.exact, agreement.pairs
    (True, 1.0)
    """
    grid, tried = plan_shifts(x, shifts, kind, seed)
    changes, answers = _Changes(grid, tried), _Answers(grid, tried, x.shape[0])
    done = 0
    for images, which, reference, moved in outputs(f, x, tried, kind, border, batch_size):
        changes.add(which, reference, moved)
        answers.add(images, which, reference, moved)
        done += moved.shape[0]
        if progress is not None:
            progress(done, len(tried) * x.shape[0])
    return changes.result(), answers.result()


class _Changes:
    """Collects what `ShiftError` reports, block by block of `outputs`."""

    def __init__(self, grid: list[list[float]], tried: list[Shift]) -> None:
        self.grid, self.tried = grid, tried
        self.largest = torch.zeros(len(tried), dtype=torch.float64)
        self.total, self.count, self.exact = 0.0, 0, True

    def add(self, which: list[int], reference: Tensor, moved: Tensor) -> None:
        self.exact = self.exact and same_bits(reference, moved)
        change = difference(reference, moved).view(len(which), -1)  # (shifts, images * outputs)
        self.largest[which] = torch.maximum(self.largest[which], change.amax(1))
        self.total += float(change.sum())
        self.count += change.numel()

    def result(self) -> ShiftError:
        worst = int(self.largest.argmax())
        return ShiftError(
            max=float(self.largest[worst]),
            mean=self.total / self.count,
            worst=self.tried[worst],
            exact=self.exact,
            shifts=self.tried,
            changes=self.largest,
            map=on_grid(self.grid, self.tried, self.largest),
        )


class _Answers:
    """Collects what `Consistency` reports, block by block of `outputs`."""

    def __init__(self, grid: list[list[float]], tried: list[Shift], count: int) -> None:
        self.grid, self.tried = grid, tried
        self.shifted = torch.zeros(len(tried), count, dtype=torch.int64)
        self.unshifted = torch.zeros(count, dtype=torch.int64)

    def add(self, images: slice, which: list[int], reference: Tensor, moved: Tensor) -> None:
        if moved.dim() != 2:
            raise ValueError(f"`f` must return scores (B, classes), not a tensor of shape {tuple(moved.shape)}.")
        self.shifted[which, images] = moved.argmax(1).view(len(which), -1).cpu()
        self.unshifted[images] = reference.argmax(1).view(len(which), -1)[0].cpu()

    def result(self) -> Consistency:
        counts = torch.nn.functional.one_hot(self.shifted).sum(0).double()  # (B, classes)
        per_image = (counts / len(self.tried)).square().sum(1)
        kept = (self.shifted == self.unshifted).double()  # (S, B)
        return Consistency(
            pairs=float(per_image.mean()),
            reference=float(kept.mean()),
            per_image=per_image,
            map=on_grid(self.grid, self.tried, kept.mean(1)),
            classes=self.shifted,
        )


def difference(a: Tensor, b: Tensor) -> Tensor:
    """|a - b| in float64; equal entries and NaN on both sides give 0, NaN on one side gives infinity."""
    a, b = a.double(), b.double()
    change = (a - b).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
    return change.masked_fill((a == b) | (a.isnan() & b.isnan()), 0.0).cpu()
