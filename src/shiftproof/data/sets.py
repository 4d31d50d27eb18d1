"""Data sets by name: images and labels in memory, verified, with what a record needs to name them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof import checks
from shiftproof.data import folders, formats, rotated, store
from shiftproof.data.sources import SOURCES

# from the recipe that the paper follows
CIFAR10_MEAN = (0.49141738, 0.48219556, 0.44662726)
CIFAR10_STD = (0.24703224, 0.24348514, 0.26158786)

DIGITS = tuple("0123456789")
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CIFAR100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
"""
CIFAR100 = tuple(_CIFAR100.split())


@dataclass(frozen=True)
class Images:
    """One part of a data set: uint8 images (N, C, H, W) and int64 labels (N,)."""

    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Dataset:
    """A data set: mean and std per channel are those of pixels in [0, 1]; the checksum covers every image and label.

    `benchmark` is a second test part, where a set has one: that of the official MNIST-rot, 50,000 images.
    """

    name: str
    train: Images
    test: Images
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    source: str
    checksum: str
    benchmark: Images | None = None


# what the reader of a set returns: the parts (train, test, perhaps benchmark), the classes, where they come from
_Loaded = tuple[list[Images], tuple[str, ...], str]
_OFFICIAL = "official files"


def datasets() -> list[str]:
    """The names that `load_dataset` knows."""
    return [*_READERS, "folder"]


def load_dataset(name: str, root: Path | None = None, *, path: Path | None = None, size: int | None = None) -> Dataset:
    """A data set from the store under `root`, every file checked by md5; `digits` comes with scikit-learn.

    `folder` reads your own images from `path`: `path/train/CLASS/*` and `path/test/CLASS/*`, or `path/CLASS/*`, of
    which a fifth of each class becomes the test part. `size` resizes these; images of the other sets are padded with
    zeros to `size` x `size`, centred.
    """
    checks.choice("name", name, datasets())
    if size is not None:
        checks.integer("size", size)
    if name == "folder":
        if path is None:
            raise ValueError("`path` must name the folder of images when `name` is 'folder'.")
        parts, classes, source = _read_folder(Path(path), size)
    elif path is not None:
        raise ValueError(f"`path` (={str(path)!r}) is for `name` 'folder' only: {name!r} is read from the store.")
    else:
        parts, classes, source = _READERS[name](store.data_root(root))
        parts = parts if size is None else [_pad(part, size) for part in parts]
    train, test, *benchmark = parts
    mean, std = (CIFAR10_MEAN, CIFAR10_STD) if name == "cifar10" else _statistics(train.images)
    return Dataset(name, train, test, classes, mean, std, source, _checksum(parts), *benchmark)


def _read_cifar(name: str, classes: tuple[str, ...], root: Path) -> _Loaded:
    files = (store.read_verified(name, file, root) for file in SOURCES[name].files)
    *batches, test = (_images(*formats.cifar(*file, len(classes))) for file in files)
    train = Images(torch.cat([b.images for b in batches]), torch.cat([b.labels for b in batches]))
    return [train, test], classes, _OFFICIAL


def _read_mnist(root: Path) -> _Loaded:
    files = [store.read_verified("mnist", file, root) for file in SOURCES["mnist"].files]
    parts = []
    for images, labels in (files[:2], files[2:]):
        digits = formats.checked_labels(formats.idx(*labels, ndim=1), 10, labels[1])
        parts.append(_images(formats.idx(*images, ndim=3)[:, None], digits))
    return parts, DIGITS, _OFFICIAL


def _read_rotated(root: Path) -> _Loaded:
    """The official files if one of them is there, cut 10,000 / 2,000 as in the paper; else MNIST, rotated."""
    source = SOURCES["mnist-rot"]
    if all(store.file_state(root, source, file) == "missing" for file in source.files):
        try:
            parts, _, _ = _read_mnist(root)
        except ValueError as error:
            raise ValueError(
                f"mnist-rot: no official files here, and none of MNIST to rebuild it from. {error}"
            ) from error
        counts = (rotated.TRAIN, rotated.TEST)
        chosen = [Images(*rotated.rebuild(p.images, p.labels, n, rotated.SEED)) for p, n in zip(parts, counts)]
        return chosen, DIGITS, f"rebuilt from MNIST (seed {rotated.SEED})"
    parts = []
    for file in source.files:
        path = store.location(root, source, file)
        if not path.is_file():
            raise ValueError(f"{path}: missing. Run `shiftproof data get mnist-rot`, or remove the other .amat file.")
        with path.open(encoding="latin1") as lines:
            parts.append(_images(*formats.amat(lines, path, file.rows)))
    whole, benchmark = parts
    cut = len(whole.labels) * rotated.TRAIN // (rotated.TRAIN + rotated.TEST)
    return [*_cut(whole, cut), benchmark], DIGITS, _OFFICIAL


def _read_digits(root: Path) -> _Loaded:
    from sklearn.datasets import load_digits

    bundled = load_digits()
    images = np.rint(bundled.images * (255 / 16)).astype(np.uint8)[:, None]  # 0..16 -> 0..255
    whole = _images(images, bundled.target.astype(np.int64))
    return [*_split(whole)], DIGITS, "scikit-learn"


_READERS: dict[str, Callable[[Path], _Loaded]] = {
    "cifar10": partial(_read_cifar, "cifar10", CIFAR10),
    "cifar100": partial(_read_cifar, "cifar100", CIFAR100),
    "mnist": _read_mnist,
    "mnist-rot": _read_rotated,
    "digits": _read_digits,
}


def _read_folder(folder: Path, size: int | None) -> _Loaded:
    parts = [folder / "train", folder / "test"]
    if all(part.is_dir() for part in parts):
        files = [folders.class_files(part) for part in parts]
        if odd := sorted(files[0].keys() ^ files[1].keys()):
            raise ValueError(f"{folder}: train and test must have the same classes; {odd[0]!r} is in one of them only.")
    elif any(part.is_dir() and any(p.is_dir() for p in part.iterdir()) for part in parts):
        raise ValueError(f"{folder}: has one of the folders train and test, and must have both or none.")
    else:
        files = [folders.class_files(folder)]
    classes = tuple(files[0])
    paths = [path for part in files for group in part.values() for path in group]
    labels = np.array([i for part in files for i, group in enumerate(part.values()) for _ in group], np.int64)
    whole = Images(folders.read_images(paths, size), torch.from_numpy(labels))
    if len(files) == 2:
        return [*_cut(whole, sum(map(len, files[0].values())))], classes, f"folder {folder}"
    for name, group in files[0].items():
        if len(group) < 2:
            raise ValueError(f"{folder / name}: has one image and needs at least 2, to train and to test.")
    return [*_split(whole)], classes, f"folder {folder}"


def _images(images: formats.Bytes, labels: formats.Labels) -> Images:
    return Images(torch.from_numpy(images), torch.from_numpy(labels))


def _cut(whole: Images, count: int) -> tuple[Images, Images]:
    """The first `count` images, and the others."""
    return Images(whole.images[:count], whole.labels[:count]), Images(whole.images[count:], whole.labels[count:])


def _split(whole: Images) -> tuple[Images, Images]:
    """A fifth of each class, the same in every run, becomes the test part; both parts keep the order of `whole`."""
    generator = np.random.RandomState(0)  # numpy keeps its numbers for ever
    test = torch.zeros(len(whole.labels), dtype=torch.bool)
    for label in range(int(whole.labels.max()) + 1):
        members = torch.nonzero(whole.labels == label).flatten().numpy()
        test[generator.permutation(members)[: max(1, round(len(members) / 5))]] = True
    return Images(whole.images[~test], whole.labels[~test]), Images(whole.images[test], whole.labels[test])


def _pad(part: Images, size: int) -> Images:
    """Zeros around the images, to `size` x `size`; an odd one out goes to the right and below."""
    height, width = part.images.shape[2:]
    if size < max(height, width):
        raise ValueError(f"`size` (={size}) must be at least that of the images (={max(height, width)}).")
    left, top = (size - width) // 2, (size - height) // 2
    return Images(F.pad(part.images, (left, size - width - left, top, size - height - top)), part.labels)


def _statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, from counts of the 256 values: exact for any number of pixels.

    A constant channel has std 1, so that dividing by it works.
    """
    values = torch.arange(256, dtype=torch.float64) / 255
    means, deviations = [], []
    for channel in images.unbind(1):
        share = torch.bincount(channel.flatten(), minlength=256).double() / channel.numel()
        mean = float(share @ values)
        means.append(mean)
        deviations.append(float(share @ (values - mean) ** 2) ** 0.5 if channel.min() < channel.max() else 1.0)
    return tuple(means), tuple(deviations)


def _checksum(parts: list[Images]) -> str:
    total = hashlib.sha256()
    for part in parts:
        for tensor in (part.images, part.labels):
            total.update(tensor.contiguous().numpy().data)
    return total.hexdigest()
