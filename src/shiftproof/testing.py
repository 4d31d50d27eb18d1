"""An assertion for the tests of a network: its answers hold when its pictures are shifted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from shiftproof.measurement.measure import measure
from shiftproof.measurement.result import Measurement


def assert_steady(
    model: Callable[[Tensor], Tensor],
    images: Tensor,
    at_least: float = 0.99,
    *,
    kinds: Sequence[str] = ("cropped", "fractional"),
    **options: Any,
) -> Measurement:
    """Raise `AssertionError` unless a share `at_least` of picture-shift pairs keep their answer, for each kind.

    `model`, `images`, `kinds` and the other options are those of `measure`, whose result it returns. The error names
    the picture that keeps its answer least often.

    >>> import torch
    >>> print(assert_steady(lambda x: x.amax((2, 3)), torch.rand(2, 3, 8, 8), kinds=["circular"]).headline())
    This network gives the same output for every circular shift, bit for bit.
    """
    if not 0 < at_least <= 1:
        raise ValueError(f"`at_least` (={at_least}) must be a share, above 0 and at most 1.")
    result = measure(model, images, kinds=kinds, **options)
    failures = result.failures(at_least)
    if failures:
        raise AssertionError("\n".join(failures))
    return result
