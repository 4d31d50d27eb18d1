"""Scenes for a camera: photographs, spots, and windows in them."""

import numpy as np
import torch
from skimage import data
from torch import Tensor


def photograph(name: str) -> Tensor:
    """A picture of scikit-image, 8 bits, grey or in colour. (C, H, W)"""
    pixels = torch.from_numpy(np.array(getattr(data, name)()))
    return pixels[None] if pixels.dim() == 2 else pixels.movedim(-1, 0).contiguous()


def spots(*places: tuple[int, int], size: int = 100, marks: tuple[int, ...] = ()) -> Tensor:
    """Equal bright spots on black; a mark is a fainter pixel beside the spot of that number."""
    scene = torch.zeros(3, size, size, dtype=torch.uint8)
    for i, (row, column) in enumerate(places):
        scene[:, row - 1 : row + 2, column - 1 : column + 2] = 200
        if i in marks:
            scene[2, row + 16, column] = 9
    return scene


def window(scene: Tensor, at: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """What a camera sees there. (1, C, *size)"""
    return scene[None, :, at[0] : at[0] + size[0], at[1] : at[1] + size[1]]


def band_limited(scene: Tensor, limit: float) -> Tensor:
    """A periodic scene in float64 without frequencies above `limit`, as a share of the Nyquist frequency.

    Its pixels are in [1/4, 3/4], so that it stays in [0, 1] between them.
    """
    f = torch.fft.fft2(scene.double() / 255)
    rows, columns = (torch.fft.fftfreq(n).abs() * 2 for n in scene.shape[1:])
    kept = torch.fft.ifft2(f * ((rows[:, None] <= limit) & (columns <= limit))).real
    low, high = kept.aminmax()
    scaled: Tensor = 0.25 + (kept - low) / (high - low) / 2
    return scaled
