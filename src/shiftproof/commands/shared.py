"""Arguments that several commands share, and the console for tables."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

SEEDS = "default: 10 for paper, 2 for laptop, 1 for smoke"


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """`--data-dir`."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="folder of the data sets; default: $SHIFTPROOF_DATA, or the cache folder of the platform",
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """`--preset` and `--set`."""
    parser.add_argument("--preset", default="laptop", help="paper, laptop or smoke")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting; may be repeated"
    )


def add_output(parser: argparse.ArgumentParser, **default: Any) -> None:
    """`--json` and `--quiet`."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON", **default)
    parser.add_argument("--quiet", action="store_true", help="print only the result and errors, no progress", **default)


def add_actions(parser: argparse.ArgumentParser, actions: dict[str, str]) -> dict[str, argparse.ArgumentParser]:
    """Add subcommands, given by name with their help. `options.action` is the name that the user chose."""
    group = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    parsers = {name: group.add_parser(name, help=text, description=text) for name, text in actions.items()}
    for sub in parsers.values():
        add_output(sub, default=argparse.SUPPRESS)
    return parsers


def wide_console(width: int = 160) -> Any:
    """A rich console as wide as the terminal, or at least `width` columns wide if the output is a file."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, width))
