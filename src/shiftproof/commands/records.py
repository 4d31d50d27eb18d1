"""`shiftproof records`: list, show, check or migrate records."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from shiftproof import progress
from shiftproof.commands.shared import add_actions, add_places, wide_console

HELP = "List, show, check or migrate records."
EXAMPLES = (
    "list",
    "show records/cifar10-resnet20-ghs-laptop-seed0-*.json",
    "check results/records",
    "migrate results/records",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    actions = {
        "list": "a table",
        "show": "what was measured",
        "check": "what is wrong with them",
        "migrate": "rewrite records of an earlier version, numbers untouched",
    }
    for action in add_actions(parser, actions).values():
        add_places(action, "records")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.experiments import records
    from shiftproof.reports import summary

    paths = records.find(options.places)
    if options.action == "check":
        return _check(paths, options.json)
    if options.action == "migrate":
        return _migrate(paths, options.json)
    found = {path: records.read(path) for path in paths}
    if options.json:
        out = list(found.values())
        print(json.dumps(out[0] if options.action == "show" and len(out) == 1 else out, indent=2))
    elif options.action == "show":
        for record in found.values():
            summary.show(record)
    else:
        show_table([(path, records.headline(record)) for path, record in found.items()])
    return 0


def show_table(found: Sequence[tuple[Path, tuple[str, ...]]]) -> None:
    """Print a line for each record: its file, and its headline."""
    from rich.table import Table

    from shiftproof.experiments.records import HEADLINE

    table = Table(title=f"{len(found)} records")
    for head in ("record", *HEADLINE):
        table.add_column(head, justify="right" if head in ("seed", "accuracy", "agreement") else "left", no_wrap=True)
    for path, words in found:
        table.add_row(path.stem, *words)
    wide_console().print(table)


def _check(paths: Sequence[Path], as_json: bool) -> int:
    from shiftproof.experiments import records

    wrong: dict[str, str] = {}
    for path in paths:
        try:
            records.read(path)
        except ValueError as error:
            wrong[str(path)] = str(error)
    if as_json:
        print(json.dumps({"records": len(paths), "wrong": wrong}, indent=2))
    else:
        for message in wrong.values():
            print(message)
        print(f"{len(paths)} records, {len(wrong)} wrong")
    return 1 if wrong else 0


def _migrate(paths: Sequence[Path], as_json: bool) -> int:
    from shiftproof.experiments.migrate import migrate_files

    with progress.reporting("migrate") as report:
        done = migrate_files(paths, report)
    if as_json:
        print(json.dumps(done, indent=2))
    else:
        for reason in done["failed"].values():
            print(reason)
        migrated, current, failed = map(len, done.values())
        print(f"{len(paths)} records: {migrated} migrated, {current} already new, {failed} failed")
    return 1 if done["failed"] else 0
