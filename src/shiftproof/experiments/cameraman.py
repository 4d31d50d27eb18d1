"""The cameraman experiment (paper, section 4.4): what one shift does to one image, method by method."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.experiments.paper import CAMERAMAN_AD
from shiftproof.invariance import shift_error
from shiftproof.layers import create_downsample
from shiftproof.safe_io.pictures import fit, read_picture

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
        for part, shifts in (("shift", [shift]), ("all", "all")):
            error = shift_error(layer, image, shifts)
            row[part] = {"sum": error.mean * pixels, "mean": error.mean, "max": error.max, "exact": error.exact}
        rows.append(row)
    return {"image": name, "size": image.shape[-1], "shift": list(shift), "range": [0, 1], "rows": rows}
