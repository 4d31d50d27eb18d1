"""Arguments that several commands share, and what every command prints."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SEEDS = "default: 10 for paper, 2 for laptop, 1 for smoke"


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """`--data-dir`."""
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="where data sets are: $SHIFTPROOF_DATA, or the platform's cache"
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """`--preset` and `--set`."""
    parser.add_argument("--preset", default="laptop", help="paper, laptop or smoke")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override any setting")


def add_output(parser: argparse.ArgumentParser, **default: Any) -> None:
    """`--json` and `--quiet`."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON", **default)
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result and errors", **default)


def add_actions(parser: argparse.ArgumentParser, actions: dict[str, str]) -> dict[str, argparse.ArgumentParser]:
    """Sub-commands by name, each with its help; `options.action` is the name that was given."""
    group = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    made = {name: group.add_parser(name, help=text, description=text) for name, text in actions.items()}
    for sub in made.values():
        add_output(sub, default=argparse.SUPPRESS)
    return made


def wide_console(width: int = 160) -> Any:
    """A rich console for tables: as wide as the terminal, and at least `width` columns where the output is a file."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, width))


@contextlib.contextmanager
def naming_arguments(options: Mapping[str, str]) -> Iterator[None]:
    """Let errors name options of a command instead of the arguments of functions, by argument: `jobs`, `--jobs`."""
    try:
        yield
    except ValueError as error:
        pattern = "|".join(map(re.escape, options))
        raise ValueError(re.sub(f"`({pattern})`", lambda found: f"`{options[found[1]]}`", str(error))) from error
