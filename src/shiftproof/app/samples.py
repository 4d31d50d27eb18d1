"""Pictures that are there without any download: those inside scikit-image."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

# the name here, and that of the function of skimage.data; all of them are files of its wheel
SAMPLES = {
    "camera": "camera",
    "astronaut": "astronaut",
    "cat": "chelsea",
    "coffee": "coffee",
    "rocket": "rocket",
    "coins": "coins",
    "text": "text",
}


@functools.cache
def sample(name: str) -> Tensor:
    """A bundled picture in [0, 1], in colour. (3, H, W)"""
    from skimage import data

    read: Any = getattr(data, SAMPLES[name])  # untyped
    pixels = torch.from_numpy(np.array(read())).float() / 255
    return pixels.expand(3, -1, -1).clone() if pixels.dim() == 2 else pixels.movedim(-1, 0)


def in_colours(picture: Tensor, channels: int) -> Tensor:
    """A picture (3, H, W) for a network that takes colour, or its grey for one that does not. (channels, H, W)"""
    if channels == picture.shape[0]:
        return picture
    # luma of ITU-R 601, as Pillow takes it
    weights = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
    return (picture * weights).sum(0, keepdim=True)
