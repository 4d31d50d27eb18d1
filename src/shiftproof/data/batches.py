"""Batches from images in memory.

Order and augmentation are functions of (seed, epoch, step) alone: a run can resume at any step, and all processes that
share a batch see the same one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.data.sets import Images

Augmentation = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Batch:
    """The part of one step's images that belongs to one process.

    `weights` are 1, or 0 for the placeholder image of a process that has none; `total` is the number of images of the
    step over all processes.
    """

    step: int
    images: Tensor
    labels: Tensor
    weights: Tensor
    total: int


def derive_seed(*key: int) -> int:
    """A seed from several numbers: close keys give unrelated seeds.

    >>> derive_seed(0, 1) == derive_seed(0, 1), derive_seed(0, 1) == derive_seed(1, 0)
    (True, False)
    """
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))


def generator(*key: int) -> torch.Generator:
    """A random generator of its own for each key."""
    return torch.Generator().manual_seed(derive_seed(*key))


def steps(images: int, batch_size: int) -> int:
    """The number of batches of one epoch; the last one may be smaller."""
    return math.ceil(images / checks.integer("batch_size", batch_size))


def batches(
    data: Images,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    first: int = 0,
    augmentation: Augmentation | None = None,
    rank: int = 0,
    world: int = 1,
) -> Iterator[Batch]:
    """The batches of an epoch from step `first` on, in an order drawn for that epoch.

    Each process of a `world` takes its consecutive part of every batch; parts differ by at most one image. The
    augmentation is drawn for the whole batch, so it does not depend on the number of processes.
    """
    count = len(data.labels)
    order = torch.randperm(count, generator=generator(seed, epoch, 0))
    for step in range(first, steps(count, batch_size)):
        chosen = order[step * batch_size : (step + 1) * batch_size]
        images = data.images[chosen]
        if augmentation is not None:
            images = augmentation(images, generator(seed, epoch, 1, step))
        labels = data.labels[chosen]
        mine = images.tensor_split(world)[rank], labels.tensor_split(world)[rank]
        weights = torch.ones(len(mine[1]))
        if not len(weights):
            mine, weights = (images[:1], labels[:1]), torch.zeros(1)
        yield Batch(step, *mine, weights, len(chosen))


def in_order(data: Images, batch_size: int, *, rank: int = 0, world: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
    """The share of all images that belongs to one process, in order, without augmentation."""
    images, labels = (part.tensor_split(world)[rank] for part in (data.images, data.labels))
    if len(labels):
        yield from zip(torch.split(images, batch_size), torch.split(labels, batch_size))


def normalise(
    images: Tensor, mean: Sequence[float], std: Sequence[float], form: torch.memory_format = torch.contiguous_format
) -> Tensor:
    """8-bit images (B, C, H, W) as floats: (pixels / 255 - mean) / std, channel by channel, in a memory format."""
    x = images.to(torch.float32, memory_format=form)
    level, spread = (torch.tensor(v, dtype=torch.float32, device=x.device).view(1, -1, 1, 1) for v in (mean, std))
    return x.div_(255).sub_(level).div_(spread)


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


def split(data: Images, validation: float, seed: int, limit: int | None = None) -> tuple[Images, Images]:
    """Training and validation images: a share of `validation` is held out at random.

    With a `limit`, that many images are kept for training and a proportional number for validation.
    """
    count = len(data.labels)
    held = round(count * validation)
    order = torch.randperm(count, generator=generator(seed))
    test, train = order[:held], order[held:]
    if not len(train):
        raise ValueError(f"`validation` (={validation}) leaves none of {count} images for training.")
    if limit is not None and limit < len(train):
        test = test[: max(1, round(limit * validation / (1 - validation)))] if held else test
        train = train[:limit]
    return tuple(Images(data.images[i], data.labels[i]) for i in (train, test))  # type: ignore[return-value]
