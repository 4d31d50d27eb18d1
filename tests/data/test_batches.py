"""Batches and augmentation: the laws that make a run repeatable and any number of processes equal."""

import pytest
import torch
from torch import Tensor

from shiftproof.data.batches import augment, batches, derive_seed, generator, in_order, normalise, split, steps
from shiftproof.data.sets import Images


def images(count: int = 23, size: tuple[int, int] = (5, 7), channels: int = 3) -> Images:
    pixels = torch.randint(0, 256, (count, channels, *size), dtype=torch.uint8)
    pixels[:, 0, 0, 0] = torch.arange(count)  # tells which image it is
    return Images(pixels, torch.arange(count) % 10)


def augmented_by_loops(x: Tensor, seed: int, flip: bool, shift: int, crop: int) -> Tensor:
    """Image by image, pixel by pixel, from the same draws."""
    g = torch.Generator().manual_seed(seed)
    batch, _, height, width = x.shape
    mirrored = torch.rand(batch, generator=g) < 0.5
    draws = []
    for size in (height, width):
        low, high = (0, size) if shift < 0 else (-shift, shift + 1)
        turned = torch.randint(low, high, (batch,), generator=g)
        draws.append((turned, torch.randint(-crop, crop + 1, (batch,), generator=g)))
    out = torch.zeros_like(x)
    for b in range(batch):
        picture = x[b].flip(-1) if flip and mirrored[b] else x[b]
        picture = picture.roll((int(draws[0][0][b]), int(draws[1][0][b])), (1, 2))
        for i in range(height):
            for j in range(width):
                r, c = i - int(draws[0][1][b]), j - int(draws[1][1][b])
                if 0 <= r < height and 0 <= c < width:
                    out[b, :, i, j] = picture[:, r, c]
    return out


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("shift", [0, 2, -1])
@pytest.mark.parametrize("crop", [0, 3])
def test_augmentation_is_its_definition(flip: bool, shift: int, crop: int) -> None:
    """One gather does what flip, roll and a cropped move do image by image."""
    x = images().images
    out = augment(x, torch.Generator().manual_seed(3), flip=flip, shift=shift, crop=crop)
    assert torch.equal(out, augmented_by_loops(x, 3, flip, shift, crop))
    assert torch.equal(out, x) == (not flip and not shift and not crop)


def test_every_shift_is_drawn_alike() -> None:
    """-1 draws every circular shift of an axis, about equally often."""
    x = torch.zeros(20000, 1, 1, 5, dtype=torch.uint8)
    x[..., 0] = 1
    place = augment(x, generator(0), shift=-1).argmax(-1).flatten()
    counts = torch.bincount(place, minlength=5)
    assert (counts - 4000).abs().max() < 3 * (20000 * 0.2 * 0.8) ** 0.5


def test_an_epoch_shows_every_image_once() -> None:
    data = images()
    seen = torch.cat([b.images[:, 0, 0, 0] for b in batches(data, 5, seed=1, epoch=2)])
    assert sorted(seen.tolist()) == list(range(23))
    assert len(list(batches(data, 5, seed=1, epoch=2))) == steps(23, 5) == 5
    assert [b.total for b in batches(data, 5, seed=1, epoch=2)] == [5, 5, 5, 5, 3]


def test_order_and_augmentation_depend_on_seed_and_epoch() -> None:
    def draw(seed: int, epoch: int) -> list[int]:
        kind = lambda x, g: augment(x, g, shift=-1)  # noqa: E731
        return torch.cat(
            [b.images.flatten() for b in batches(images_, 5, seed=seed, epoch=epoch, augmentation=kind)]
        ).tolist()

    images_ = images()
    assert draw(0, 0) == draw(0, 0)
    assert draw(0, 0) != draw(0, 1)
    assert draw(0, 0) != draw(1, 0)
    assert derive_seed(1, 2) != derive_seed(2, 1)


def test_an_epoch_can_be_taken_up_anywhere() -> None:
    """The batches from step k on are the last ones of the whole epoch, augmentation included."""
    data = images()
    whole = list(batches(data, 4, seed=0, epoch=0, augmentation=lambda x, g: augment(x, g, flip=True, crop=1)))
    for first in range(len(whole) + 1):
        rest = list(
            batches(data, 4, seed=0, epoch=0, first=first, augmentation=lambda x, g: augment(x, g, flip=True, crop=1))
        )
        assert [b.step for b in rest] == list(range(first, len(whole)))
        assert all(torch.equal(a.images, b.images) for a, b in zip(whole[first:], rest))


@pytest.mark.parametrize("world", [2, 3, 7])
def test_processes_share_each_batch(world: int) -> None:
    """Put together, the parts of all processes are the batch of one; who has none holds a stand-in without weight."""
    data = images()
    parts = [list(batches(data, 5, seed=0, epoch=0, rank=r, world=world)) for r in range(world)]
    for one, *shared in zip(batches(data, 5, seed=0, epoch=0), *parts):
        together = torch.cat([b.images[b.weights > 0] for b in shared])
        assert torch.equal(together, one.images)
        assert torch.equal(torch.cat([b.labels[b.weights > 0] for b in shared]), one.labels)
        assert all(len(b.images) >= 1 and b.total == one.total for b in shared)
    listed = [x for r in range(world) for x, _ in in_order(data, 4, rank=r, world=world)]
    assert torch.equal(torch.cat(listed), data.images)


def test_normalise() -> None:
    x = images().images
    out = normalise(x, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7), torch.channels_last)
    expected = (x.double() / 255 - torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1)) / torch.tensor([0.5, 0.6, 0.7]).view(
        3, 1, 1
    )
    assert torch.allclose(out.double(), expected, atol=1e-6)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(out.contiguous(), normalise(x, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)))


def test_split_holds_out_a_share() -> None:
    """The two parts are disjoint, together they are everything; a limit keeps the beginning of the same order."""
    data = images(100)
    train, held = split(data, 0.1, seed=0)
    ids = [part.images[:, 0, 0, 0].tolist() for part in (train, held)]
    assert (len(ids[0]), len(ids[1])) == (90, 10)
    assert sorted(ids[0] + ids[1]) == list(range(100))
    small, few = split(data, 0.1, seed=0, limit=45)
    assert small.images[:, 0, 0, 0].tolist() == ids[0][:45]
    assert few.images[:, 0, 0, 0].tolist() == ids[1][:5]
    assert split(data, 0.1, seed=1)[1].images[:, 0, 0, 0].tolist() != ids[1]
    assert len(split(data, 0.0, seed=0)[1].labels) == 0
    with pytest.raises(ValueError, match="leaves none of 1 images"):
        split(images(1), 0.9, seed=0)
