"""`shiftproof data get NAME... | import DIR | list`: what fills the store and what is in it."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from shiftproof import checks, progress
from shiftproof.data import rotated, sources, store

DEPTH = 4  # how many folders below the one that is imported are searched
BUNDLED = {"digits": 1797}  # images that come with scikit-learn


@dataclass(frozen=True)
class Status:
    """What is there of a data set."""

    name: str
    state: str  # complete, missing, incomplete, damaged, rebuilt
    images: int  # that can be used
    bytes: int  # on disk
    source: str
    problems: list[str]  # the files that are missing or damaged


def status(name: str, root: Path) -> Status:
    """What is there of the set `name`; every file is checked by md5, if one is published."""
    if name in BUNDLED:
        here = find_spec("sklearn") is not None
        problems = [] if here else ["scikit-learn is not installed"]
        return Status(name, "complete" if here else "missing", BUNDLED[name] * here, 0, "scikit-learn", problems)
    source = sources.CATALOGUE[name]
    states = {sources.location(root, source, file): sources.state(root, source, file) for file in source.files}
    there = [path for path, state in states.items() if state != "missing"]
    size = sum(path.stat().st_size for path in there)
    problems = [f"{path} is {state}" for path, state in states.items() if state != "complete"]
    if not there and name == "mnist-rot" and status("mnist", root).state == "complete":
        return Status(name, "rebuilt", rotated.TRAIN + rotated.TEST, 0, "from MNIST, when it is loaded", [])
    if "damaged" in states.values():
        state = "damaged"
    else:
        state = "complete" if not problems else "incomplete" if there else "missing"
    return Status(name, state, 0 if problems else source.images, size, "official files", problems)


def run_list(root: Path | None, as_json: bool) -> int:
    """`shiftproof data list`: the sets, and what is there of each."""
    root = store.data_root(root)
    found = [status(name, root) for name in (*sources.CATALOGUE, *BUNDLED)]
    if as_json:
        print(json.dumps({"root": str(root), "sets": [asdict(item) for item in found]}, indent=2))
        return 0
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(f"Data sets in {root}"), title_justify="left")
    for head in ("name", "state", "images", "size on disk", "source"):
        table.add_column(head, justify="right" if head in ("images", "size on disk") else "left", no_wrap=True)
    colours = {"complete": "green", "rebuilt": "green", "damaged": "red", "incomplete": "yellow"}
    for item in found:
        size = f"{item.bytes / 1e6:.1f} MB" if item.bytes else ""
        count = f"{item.images:,}" if item.images else ""
        table.add_row(item.name, item.state, count, size, item.source, style=colours.get(item.state))
    console = Console()
    console.print(table)
    for item in found:
        if item.state in ("damaged", "incomplete"):
            for problem in item.problems:
                console.print(f"{item.name}: {problem}", highlight=False, soft_wrap=True, markup=False)
    if any(item.state in ("damaged", "incomplete", "missing") for item in found):
        console.print("`shiftproof data get NAME` fetches what is missing or damaged.", highlight=False)
    return 0


def run_get(names: Sequence[str], root: Path | None, as_json: bool) -> int:
    """`shiftproof data get NAME...`: fetch what is not there, verified."""
    for name in names:
        checks.choice("NAME", name, (*sources.CATALOGUE, *BUNDLED))
    root = store.data_root(root)
    origins = {}
    for name in names:
        if name in BUNDLED:
            importlib.import_module("sklearn")  # or the command says how to get it
            origins[name] = "bundled with scikit-learn"
        else:
            with progress.reporting("fetching", bytes_=True) as report:
                origins[name] = sources.get(name, root, report)
        if not as_json:
            print(f"{name}: {origins[name]}")
    if as_json:
        print(json.dumps({"root": str(root), "sets": origins}, indent=2))
    return 0


def run_import(folder: Path, root: Path | None, as_json: bool) -> int:
    """`shiftproof data import DIR`: verify the official files under DIR, in any layout, and copy them to the store."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: not a folder.")
    root = store.data_root(root)
    added: dict[str, list[str]] = {}
    refused = []
    for name, path in _official_files(folder):
        try:
            found = sources.add(root, sources.CATALOGUE[name], path, path.name)
        except ValueError as error:
            refused.append(str(error))
            continue
        if found:
            added.setdefault(name, []).extend(found)
            if not as_json:
                print(f"{name}: {', '.join(found)} from {path}")
    states = [status(name, root) for name in added]
    if as_json:
        print(
            json.dumps(
                {"root": str(root), "added": added, "sets": [asdict(s) for s in states], "refused": refused}, indent=2
            )
        )
    else:
        for state in states:
            print(f"{state.name}: {state.state}", *state.problems, sep="\n  ")
    if refused:
        raise ValueError("\n".join(refused))
    if not added:
        known = ", ".join(source.folder for source in sources.CATALOGUE.values())
        raise ValueError(f"{folder}: no official file of a known data set in it or {DEPTH} folders below ({known}).")
    return 0


def _official_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files under `folder` that are named like an official file or archive, with the set they belong to."""
    names = {}
    for name, source in sources.CATALOGUE.items():
        forms = [form for file in source.files for form in (file.name, *file.aliases)]
        archives = [*(item.name for item in source.downloads), *source.archives]
        names.update(dict.fromkeys([*forms, *archives], name))
    for where, folders, files in os.walk(folder):
        depth = len(Path(where).relative_to(folder).parts)
        folders[:] = sorted(f for f in folders if not f.startswith(".")) if depth < DEPTH else []
        for file in sorted(files):
            if file in names:
                yield names[file], Path(where) / file
