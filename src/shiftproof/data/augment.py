"""Augmentation of whole batches of 8-bit images: each image gets its own flip, roll and crop, in one gather."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftproof import checks


def augment(images: Tensor, generator: torch.Generator, *, flip: bool = False, shift: int = 0, crop: int = 0) -> Tensor:
    """Mirror, then roll, then crop each image of a batch (B, C, H, W) by its own draw.

    `flip` mirrors left and right with probability 1/2. `shift` rolls by a uniform whole number of pixels on each axis,
    up to `shift` each way, or by any amount for -1. `crop` moves by up to `crop` pixels each way; what enters is 0.

    * values are moved, never changed; the draws depend only on the generator and the number of images.

    >>> x = torch.arange(4, dtype=torch.uint8).view(1, 1, 1, 4)
    >>> sorted(augment(x, torch.Generator().manual_seed(0), shift=-1).flatten().tolist())
    [0, 1, 2, 3]
    """
    checks.integer("shift", shift, minimum=-1)
    checks.integer("crop", crop, minimum=0)
    batch, channels, *sizes = images.shape
    mirrored = torch.rand(batch, generator=generator) < 0.5
    sources = []  # per axis: (B, size) the index each output pixel is taken from, or -1
    for axis, size in enumerate(sizes):
        rolled = torch.randint(0, size, (batch,), generator=generator) if shift < 0 else _draw(batch, shift, generator)
        moved = _draw(batch, crop, generator)
        place = torch.arange(size) - moved[:, None]
        outside = (place < 0) | (place >= size)
        place = (place - rolled[:, None]) % size
        if flip and axis == len(sizes) - 1:
            place = torch.where(mirrored[:, None], size - 1 - place, place)
        sources.append(place.masked_fill(outside, -1))
    rows, columns = sources
    index = rows[:, :, None] * sizes[1] + columns[:, None, :]  # (B, H, W)
    outside = (rows[:, :, None] < 0) | (columns[:, None, :] < 0)
    index = index.masked_fill(outside, 0).view(batch, 1, -1).expand(-1, channels, -1)
    out = images.flatten(2).gather(2, index).view(images.shape)
    return out.masked_fill(outside[:, None], 0) if crop else out


def _draw(count: int, reach: int, generator: torch.Generator) -> Tensor:
    """Uniform whole numbers from -reach to reach."""
    return torch.randint(-reach, reach + 1, (count,), generator=generator)
