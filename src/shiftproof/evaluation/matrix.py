"""Properties of Gaussian-Hermite Sampling that follow from its matrix R alone, without any data."""

from __future__ import annotations

from typing import Any

import numpy as np

from shiftproof.ghs.kernel import GHS, Kernel
from shiftproof.ghs.matrix import sampling_matrix


def measure_matrix(kernel: Kernel = GHS, size: int = 32, count: int = 16, grid: str = "anchored") -> dict[str, Any]:
    r"""Properties of R, which takes `size` pixels of an axis to `count` samples.

    * `constant`: the smallest and the largest sample of a constant map of ones;
    * `response`: the gain of a wave of k cycles per map, \|R w_k\| relative to an ideal sampler, for k = 0 .. size/2;
      `kept` is the smallest below the output's Nyquist limit, `leaked` the largest above;
    * `commutation`: how far a shift by the stride is from a shift of the output by one sample,
      \|S_1 R - R S_stride\| / \|R\|, which is what a jump of the pivot costs (None if the stride is not whole).

    >>> from shiftproof.ghs.kernel import GHS_PAPER
    >>> round(measure_matrix(GHS_PAPER, grid="inclusive")["commutation"], 2)
    0.24
    """
    matrix = sampling_matrix(size, count, kernel, grid)
    total = matrix.sum(1)
    k = np.arange(size // 2 + 1)
    waves = np.exp(2j * np.pi * np.outer(np.arange(size), k) / size)
    response = np.linalg.norm(matrix @ waves, axis=0) / np.sqrt(count)
    stride, rest = divmod(size, count)
    moved = np.roll(matrix, 1, 0) - np.roll(matrix, -stride, 1)
    return {
        "size": size,
        "output": count,
        "constant": [float(total.min()), float(total.max())],
        "response": response.tolist(),
        "kept": float(response[2 * k < count].min()),
        "leaked": float(response[2 * k > count].max()) if 2 * k[-1] > count else 0.0,
        "commutation": None if rest else float(np.linalg.norm(moved) / np.linalg.norm(matrix)),
    }
