"""The store of data sets: its folder, its files, their checksums, and how much of each set is there."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from platformdirs import user_cache_path

from shiftproof.data import formats, rotated
from shiftproof.data.sources import SOURCES, File, Source
from shiftproof.safe_io.archives import read_members
from shiftproof.safe_io.atomic import atomic_write
from shiftproof.safe_io.limits import read_bounded

DEPTH = 4  # how many levels of subfolders `official_files` searches
BUNDLED = {"digits": 1797}  # images that come with scikit-learn


@dataclass(frozen=True)
class Status:
    """How much of a data set is in the store."""

    name: str
    state: str  # complete, missing, incomplete, damaged, rebuilt
    images: int  # that can be used
    bytes: int  # on disk
    source: str
    problems: list[str]  # the files that are missing or damaged


def data_root(root: Path | None = None) -> Path:
    """The folder of the store: `root`, else `$SHIFTPROOF_DATA`, else the platform's cache folder."""
    if root is not None:
        return Path(root)
    named = os.environ.get("SHIFTPROOF_DATA")
    return Path(named).expanduser() if named else user_cache_path("shiftproof", appauthor=False, opinion=False)


def md5(data: bytes) -> str:
    """The md5 sum of `data`, which is what the publishers of the sets list."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def file_md5(path: Path) -> str:
    """The md5 sum of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def location(root: Path, source: Source, file: File) -> Path:
    """The path of a file in the store."""
    return root / source.folder / file.name


def file_state(root: Path, source: Source, file: File) -> str:
    """`complete`, `missing` or `damaged`, by the md5 sum where it is known."""
    path = location(root, source, file)
    if not path.is_file():
        return "missing"
    right = file.size in (None, path.stat().st_size) and file.md5 in (None, file_md5(path))
    return "complete" if right else "damaged"


def status(name: str, root: Path) -> Status:
    """How much of the set `name` is there; every file is checked by its md5 sum where one is published."""
    if name in BUNDLED:
        here = find_spec("sklearn") is not None
        problems = [] if here else ["scikit-learn is not installed"]
        return Status(name, "complete" if here else "missing", BUNDLED[name] * here, 0, "scikit-learn", problems)
    source = SOURCES[name]
    states = {location(root, source, file): file_state(root, source, file) for file in source.files}
    there = [path for path, state in states.items() if state != "missing"]
    problems = [f"{path} is {state}" for path, state in states.items() if state != "complete"]
    if not there and name == "mnist-rot" and status("mnist", root).state == "complete":
        return Status(name, "rebuilt", rotated.TRAIN + rotated.TEST, 0, "from MNIST, when it is loaded", [])
    if "damaged" in states.values():
        state = "damaged"
    else:
        state = "complete" if not problems else "incomplete" if there else "missing"
    size = sum(path.stat().st_size for path in there)
    return Status(name, state, 0 if problems else source.images, size, "official files", problems)


def verify(file: File, data: bytes, name: object) -> bytes:
    """`data` if it is that of `file`, whole and unchanged; `name` is what an error calls it."""
    if file.size is not None and len(data) != file.size:
        raise ValueError(f"{name}: {len(data):,} bytes where {file.name} has {file.size:,}.")
    if file.md5 is not None and (found := md5(data)) != file.md5:
        raise ValueError(f"{name}: md5 {found} where {file.name} has {file.md5}: the file is damaged or another one.")
    if file.rows:
        formats.amat(io.TextIOWrapper(io.BytesIO(data), "latin1"), name, file.rows)
    return data


def read_verified(name: str, file: File, root: Path) -> tuple[bytes, Path]:
    """The verified bytes of a file of the store, and its path; an error says how to get the file."""
    path = location(root, SOURCES[name], file)
    remedy = f"Run `shiftproof data get {name}`"
    if not path.is_file():
        raise ValueError(f"{path}: missing. {remedy}, or `shiftproof data import DIR` where DIR has {name}.")
    try:
        return verify(file, read_bounded(path, formats.LARGEST_FILE), path), path
    except ValueError as error:
        raise ValueError(f"{error} {remedy} to replace it.") from error


def add(root: Path, source: Source, path: Path, known_as: str) -> list[str]:
    """Verify the files of a set that the file `path` holds and put them into the store; returns their names there."""
    forms = {form: file for file in source.files for form in (file.name, *file.aliases)}
    added = []
    for form, data in read_members(path, known_as, forms, formats.LARGEST_FILE):
        file = forms[form]
        origin = path if form == known_as else f"{path}: {form}"
        if form in file.aliases:
            data = file.aliases[form](data, origin)
        atomic_write(location(root, source, file), verify(file, data, origin))
        added.append(file.name)
    return added


def official_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files under `folder` that are named like an official file or archive, each with the set it belongs to."""
    names = {}
    for name, source in SOURCES.items():
        forms = [form for file in source.files for form in (file.name, *file.aliases)]
        archives = [*(item.name for item in source.downloads), *source.archives]
        names.update(dict.fromkeys([*forms, *archives], name))
    for where, folders, files in os.walk(folder):
        depth = len(Path(where).relative_to(folder).parts)
        folders[:] = sorted(f for f in folders if not f.startswith(".")) if depth < DEPTH else []
        for file in sorted(files):
            if file in names:
                yield names[file], Path(where) / file
