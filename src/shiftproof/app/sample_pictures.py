"""Sample pictures that need no download: scikit-image includes them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

SAMPLES = ("camera", "astronaut", "cat", "coffee", "rocket", "coins", "text")  # functions of skimage.data


@functools.cache
def sample(name: str) -> Tensor:
    """A sample picture in [0, 1], in colour. (3, H, W)"""
    from skimage import data

    if name not in SAMPLES:
        raise ValueError(f"{name!r} must be one of {', '.join(SAMPLES)}.")
    read: Any = getattr(data, name)  # untyped
    pixels = torch.from_numpy(np.array(read())).float() / 255
    return pixels.expand(3, -1, -1).clone() if pixels.dim() == 2 else pixels.movedim(-1, 0)


def match_channels(picture: Tensor, channels: int) -> Tensor:
    """A picture (3, H, W) as it is, or in grey for a network with one channel. (channels, H, W)"""
    if channels == picture.shape[0]:
        return picture
    # luma of ITU-R 601, as in Pillow
    weights = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
    return (picture * weights).sum(0, keepdim=True)
