"""`shiftproof data`: fill the store of data sets, and list what is in it."""

from __future__ import annotations

import argparse
import importlib
import json
from dataclasses import asdict
from pathlib import Path

from shiftproof import checks, progress
from shiftproof.commands.shared import add_actions, add_data_dir

HELP = "Get, import and list data sets."
EXAMPLES = ("get cifar10 mnist", "import ~/downloads", "list")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    actions = {
        "get": "fetch data sets, check them, put them in place",
        "import": "take files that you have, in any official layout",
        "list": "show what is there",
    }
    made = add_actions(parser, actions)
    for action in made.values():
        add_data_dir(action)
    made["get"].add_argument("names", nargs="+", metavar="NAME", help="cifar10, cifar100, mnist or mnist-rot")
    made["import"].add_argument("folder", type=Path, metavar="DIR", help="a folder that has them, packed or unpacked")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.data.store import data_root

    {"get": _get, "import": _import, "list": _list}[options.action](options, data_root(options.data_dir))
    return 0


def _get(options: argparse.Namespace, root: Path) -> None:
    """Fetch what is not there, verified."""
    from shiftproof.data.fetch import fetch_dataset
    from shiftproof.data.sources import SOURCES
    from shiftproof.data.store import BUNDLED

    for name in options.names:
        checks.choice("NAME", name, (*SOURCES, *BUNDLED))
    origins = {}
    for name in options.names:
        if name in BUNDLED:
            importlib.import_module("sklearn")  # where it is missing, the command line says how to get it
            origins[name] = "bundled with scikit-learn"
        else:
            with progress.reporting("fetching", bytes_=True) as report:
                origins[name] = fetch_dataset(name, root, report)
        if not options.json:
            print(f"{name}: {origins[name]}")
    if options.json:
        print(json.dumps({"root": str(root), "sets": origins}, indent=2))


def _import(options: argparse.Namespace, root: Path) -> None:
    """Verify the official files under a folder, in any layout, and copy them to the store."""
    from shiftproof.data import store
    from shiftproof.data.sources import SOURCES

    folder: Path = options.folder
    if not folder.is_dir():
        raise ValueError(f"{folder}: not a folder.")
    added: dict[str, list[str]] = {}
    refused = []
    for name, path in store.official_files(folder):
        try:
            found = store.add(root, SOURCES[name], path, path.name)
        except ValueError as error:
            refused.append(str(error))
            continue
        if found:
            added.setdefault(name, []).extend(found)
            if not options.json:
                print(f"{name}: {', '.join(found)} from {path}")
    states = [store.status(name, root) for name in added]
    if options.json:
        result = {"root": str(root), "added": added, "sets": [asdict(s) for s in states], "refused": refused}
        print(json.dumps(result, indent=2))
    else:
        for state in states:
            print(f"{state.name}: {state.state}", *state.problems, sep="\n  ")
    if refused:
        raise ValueError("\n".join(refused))
    if not added:
        known = ", ".join(source.folder for source in SOURCES.values())
        raise ValueError(
            f"{folder}: no official file of a known data set in it or {store.DEPTH} folders below ({known})."
        )


def _list(options: argparse.Namespace, root: Path) -> None:
    """Print how much of each set is there."""
    from shiftproof.data.sources import SOURCES
    from shiftproof.data.store import BUNDLED, status

    found = [status(name, root) for name in (*SOURCES, *BUNDLED)]
    if options.json:
        print(json.dumps({"root": str(root), "sets": [asdict(item) for item in found]}, indent=2))
        return
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
