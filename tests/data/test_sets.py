"""Data sets by name: what is loaded is what is meant."""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.data_files import (
    Sets,
    md5,
    put,
)
from helpers.data_fixtures import small as small
from shiftproof.data import Dataset, datasets, load_dataset, rotated
from shiftproof.data.sources import SOURCES


def same(a: Dataset, b: Dataset) -> bool:
    return a.checksum == b.checksum and torch.equal(a.train.images, b.train.images)


def test_names() -> None:
    assert datasets() == ["cifar10", "cifar100", "mnist", "mnist-rot", "digits", "folder"]
    with pytest.raises(ValueError, match=r"Did you mean 'cifar10'"):
        load_dataset("cifar1")


def test_the_catalogue_is_that_of_the_official_files() -> None:
    """The sizes are those of the formats, and no md5 sum occurs twice."""
    sums = [file.md5 for source in SOURCES.values() for file in source.files if file.md5]
    sums += [item.md5 for source in SOURCES.values() for item in source.downloads if item.md5]
    assert len(set(sums)) == len(sums) == 6 + 1 + 2 + 1 + 4 + 4
    sizes = {name: sum(f.size or 0 for f in source.files) for name, source in SOURCES.items()}
    assert sizes["cifar10"] == 60000 * 3073
    assert sizes["cifar100"] == 60000 * 3074
    assert sizes["mnist"] == 70000 * (28 * 28 + 1) + 2 * (16 + 8)
    for source in SOURCES.values():
        assert all(url.endswith(item.name) for item in source.downloads for url in item.urls)


def test_load_cifar(small: Sets, tmp_path: Path) -> None:
    """Images and labels are in the order of the files; the last file is the test part."""
    for name in ("cifar10", "cifar100"):
        put(tmp_path, name, small[name])
    ten, hundred = load_dataset("cifar10", tmp_path), load_dataset("cifar100", tmp_path)
    assert ten.train.labels.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert ten.test.labels.tolist() == [5, 6]
    assert hundred.train.labels.tolist() == [2, 99, 1]
    assert hundred.test.labels.tolist() == [50, 51]
    assert (ten.train.images.dtype, ten.train.labels.dtype) == (torch.uint8, torch.int64)
    last = np.frombuffer(small["cifar10"]["data_batch_5.bin"], np.uint8)[-3072:].reshape(3, 32, 32)
    assert (ten.train.images[-1].numpy() == last).all()
    assert ten.mean == (0.49141738, 0.48219556, 0.44662726)
    pixels = hundred.train.images.double() / 255
    assert hundred.mean == pytest.approx(pixels.mean((0, 2, 3)).tolist(), rel=1e-12)
    assert hundred.std == pytest.approx(pixels.var((0, 2, 3), correction=0).sqrt().tolist(), rel=1e-12)
    assert (len(ten.classes), len(hundred.classes)) == (10, 100)
    assert list(hundred.classes) == sorted(set(hundred.classes))
    assert ten.source == "official files"


def test_the_checksum_covers_every_image_and_label(small: Sets, tmp_path: Path) -> None:
    put(tmp_path, "mnist", small["mnist"])
    data = load_dataset("mnist", tmp_path)
    parts = [t.numpy().tobytes() for p in (data.train, data.test) for t in (p.images, p.labels)]
    assert data.checksum == hashlib.sha256(b"".join(parts)).hexdigest()
    assert data.train.labels.tolist() == [*range(10), *range(10)]
    assert data.test.images.shape == (10, 1, 28, 28)


def test_a_label_out_of_range_is_named(small: Sets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = small["mnist"]["t10k-labels-idx1-ubyte"][:-1] + b"\x0b"
    source = SOURCES["mnist"]
    files = (*source.files[:3], dataclasses.replace(source.files[3], md5=md5(wrong)))
    monkeypatch.setitem(SOURCES, "mnist", dataclasses.replace(source, files=files))
    put(tmp_path, "mnist", {**small["mnist"], "t10k-labels-idx1-ubyte": wrong})
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte: label 11 of image 9 must be one of 0..9"):
        load_dataset("mnist", tmp_path)


def test_mnist_rot_rebuilt(small: Sets, tmp_path: Path) -> None:
    """Chosen and rotated by the seed alone, train from train and test from test; the source says so."""
    with pytest.raises(ValueError, match=r"mnist-rot: no official files.*`shiftproof data get mnist`"):
        load_dataset("mnist-rot", tmp_path)
    put(tmp_path, "mnist", small["mnist"])
    data = load_dataset("mnist-rot", tmp_path)
    assert data.source == "rebuilt from MNIST (seed 0)"
    assert (len(data.train.images), len(data.test.images)) == (15, 8)
    assert len(set(data.test.labels.tolist())) == 8  # no digit twice: the test part has one of each
    assert same(data, load_dataset("mnist-rot", tmp_path))


def test_rotation() -> None:
    """Quarter turns are exact and counter-clockwise, small images in many batches alike; a full turn is none."""
    x = torch.randint(0, 256, (3, 2, 7, 7), dtype=torch.uint8)
    quarter = torch.tensor([0.0, 1.0, 3.0]) * torch.pi / 2
    turned = rotated.rotate(x, quarter)
    for i, k in enumerate((0, 1, 3)):
        assert torch.equal(turned[i], torch.rot90(x[i], k, (1, 2)))
    wide = torch.randint(0, 256, (1, 1, 4, 9), dtype=torch.uint8)
    assert torch.equal(rotated.rotate(wide, torch.tensor([torch.pi])), wide.flip(2, 3))
    upright = rotated.rotate(wide[..., :8], torch.tensor([torch.pi / 2]))  # what leaves the picture is lost
    assert torch.equal(upright[..., 2:6], torch.rot90(wide[..., 2:6], 1, (2, 3)))
    assert int(upright[..., :2].max()) == int(upright[..., 6:].max()) == 0
    bright = torch.full((1, 1, 28, 28), 255, dtype=torch.uint8)
    tilted = rotated.rotate(bright, torch.tensor([torch.pi / 4]))
    assert tilted[0, 0, 0, 0] == 0  # nothing outside
    assert tilted[0, 0, 14, 14] == 255
    many = rotated.rotate(x[:1].expand(1001, 2, 7, 7), torch.full((1001,), 0.7))
    assert torch.equal(many, many[:1].expand_as(many))


def test_mnist_rot_official(small: Sets, tmp_path: Path) -> None:
    """The official files, where they are: the first in two parts, the second as it is; one alone is an error."""
    put(tmp_path, "mnist", small["mnist"])
    put(tmp_path, "mnist-rot", small["mnist-rot"])
    data = load_dataset("mnist-rot", tmp_path)
    assert data.source == "official files"
    assert (data.train.labels.tolist(), data.test.labels.tolist()) == ([1], [3])
    assert data.benchmark is not None
    assert data.benchmark.labels.tolist() == [7, 7, 7]
    assert set(data.benchmark.images.flatten().tolist()) == {102}
    padded = load_dataset("mnist-rot", tmp_path, size=29)
    assert padded.benchmark is not None
    assert padded.benchmark.images.shape == (3, 1, 29, 29)
    assert padded.checksum != data.checksum
    (tmp_path / "mnist-rot" / "mnist_all_rotation_normalized_float_test.amat").unlink()
    with pytest.raises(ValueError, match=r"float_test.amat: missing"):
        load_dataset("mnist-rot", tmp_path)


def test_digits() -> None:
    """Bundled, split once and for all, a fifth of each class for the test; padded with zeros on request."""
    data = load_dataset("digits")
    assert data.train.images.shape == (1438, 1, 8, 8)
    assert data.test.images.shape == (359, 1, 8, 8)
    assert int(data.train.images.max()) == 255
    counts = torch.bincount(data.test.labels) / (torch.bincount(data.test.labels) + torch.bincount(data.train.labels))
    assert (counts - 0.2).abs().max() < 0.01
    assert same(data, load_dataset("digits"))
    padded = load_dataset("digits", size=33)
    assert torch.equal(padded.train.images[:, :, 12:20, 12:20], data.train.images)
    assert padded.train.images.long().sum() == data.train.images.long().sum()
    assert padded.mean[0] == pytest.approx(data.mean[0] * 64 / 33**2)
    with pytest.raises(ValueError, match=r"`size` \(=7\) must be at least that of the images \(=8\)"):
        load_dataset("digits", size=7)
    with pytest.raises(ValueError, match=r"`path` .* is for `name` 'folder' only"):
        load_dataset("digits", path=Path("x"))
