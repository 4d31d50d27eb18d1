"""What one shift does to one image: the cameraman experiment (paper, section 4.4), the arrays of figures 1, 3 and 4."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.experiments.paper import CAMERAMAN_AD
from shiftproof.ghs import grids
from shiftproof.ghs.basis import functions as basis
from shiftproof.ghs.pivots import select_pivot
from shiftproof.ghs.sampling import ghs2d, max_centered_moments
from shiftproof.invariance import shift_error
from shiftproof.layers import create_downsample
from shiftproof.layers.ghs import PAPER
from shiftproof.maps import shifts
from shiftproof.safe_io.pictures import fit, read_picture

Outputs = tuple[str, Tensor, Tensor]  # label, output for the image, output for the shifted image; both (N, N)
# label, registered method, its options, the paper's name for it
ROWS: list[tuple[str, str, dict[str, Any], str | None]] = [
    ("max pooling", "max", {}, "max"),
    ("LPF-3", "lpf", {}, "lpf"),
    ("max + LPF-3", "lpf", {"dense_max": 2}, None),
    ("APS-3", "aps", {}, "aps"),
    ("max + APS-3", "aps", {"dense_max": 2}, None),
    ("GHS (paper)", "ghs-paper", {}, "ghs"),
    ("GHS", "ghs", {}, None),
]


def load_image(path: Path | None = None, size: int = 32) -> tuple[Tensor, str]:
    """A grey image of `size` x `size` pixels in [0, 1] and its name. (1, 1, size, size)

    The image is cropped to its central square and area-averaged. Without a `path` it is scikit-image's `camera()`,
    which is not the photograph of the classic test image.
    """
    size = checks.integer("--size", size, minimum=2)
    if path is None:
        from skimage import data

        camera: Any = data.camera  # untyped
        picture, name = torch.from_numpy(camera())[None].double() / 255, "scikit-image camera()"
    else:
        picture, name = read_picture(path, channels=1), path.name
    side = min(picture.shape[1:])
    if side < size:
        raise ValueError(f"`--size` (={size}) must be at most the image's shorter side (={side}).")
    return fit(picture, (size, size)).float()[None], name


def measure_differences(image: Tensor, name: str, shift: tuple[int, int]) -> dict[str, Any]:
    """The absolute difference (AD) of each method after `shift`, and over all circular shifts, ready for JSON."""
    rows = []
    for label, method, options, in_paper in ROWS:
        layer = create_downsample(method, channels=1, **options)
        row: dict[str, Any] = {"label": label, "method": method, "options": options}
        row["paper_ad"] = None if in_paper is None else CAMERAMAN_AD[in_paper]
        pixels = math.prod(layer(image).shape[2:])
        for part, tried in (("shift", [shift]), ("all", "all")):
            error = shift_error(layer, image, tried)
            row[part] = {"sum": error.mean * pixels, "mean": error.mean, "max": error.max, "exact": error.exact}
        rows.append(row)
    return {"image": name, "size": image.shape[-1], "shift": list(shift), "range": [0, 1], "rows": rows}


def outputs(image: Tensor, shift: tuple[int, int], methods: Mapping[str, str]) -> tuple[Tensor, list[Outputs]]:
    """Figures 1 and 4: the image (1, 1, M, M) shifted, and the outputs of the methods, given by label."""
    moved = shifts.circular_shift(image, shift)
    found = []
    for label, method in methods.items():
        layer = create_downsample(method, channels=1)
        found.append((label, layer(image)[0, 0], layer(moved)[0, 0]))
    return moved, found


class Steps(NamedTuple):
    """GHS step by step on one image: the pivot, the aligned image, its moments, the samples."""

    image: Tensor
    pivot: tuple[int, int]
    aligned: Tensor
    moments: Tensor
    samples: Tensor


def sampling_steps(image: Tensor, shift: tuple[int, int]) -> tuple[Tensor, list[Steps]]:
    """Figure 3: the functions Q (orders, M), and the steps for an image (1, 1, M, M) and for its shifted copy."""
    size = image.shape[-1]
    count = (size + 1) // 2
    found = []
    for picture in (image, shifts.circular_shift(image, shift)):
        row, column = select_pivot(picture)[0].tolist()
        aligned = shifts.circular_shift(picture, [-row, -column])
        moments = max_centered_moments(picture, orders=count)[0, 0]
        samples = ghs2d(picture, output_size=count, **PAPER)
        found.append(Steps(picture[0, 0], (row, column), aligned[0, 0], moments, samples[0, 0]))
    return torch.as_tensor(basis(count, grids.pixels(size), grids.scale_rule(count))), found
