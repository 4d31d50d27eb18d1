"""Arguments that several commands share, and the console for tables."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from shiftproof import checks

# the settings that have an option of their own
_OPTIONS = {
    "data.name": "--dataset",
    "data.path": "--folder DIR",
    "model.name": "--model",
    "model.method": "--method",
    "run.seed": "--seed",
}
_SETTING = r"`((?:model|data|augment|optim|run)\.[\w.]+)`(?: \(=(.*?)\)(?=[ .:;]|$))?"
SEEDS = "default: 10 for paper, 2 for laptop, 1 for smoke"


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """`--data-dir`."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="folder of the data sets; default: $SHIFTPROOF_DATA, or the cache folder of the platform",
    )


def add_places(parser: argparse.ArgumentParser, default: str) -> None:
    """Files or folders of records."""
    words = f"records, or folders of them; default: {default}"
    parser.add_argument("places", nargs="*", type=Path, default=[Path(default)], metavar="FILE", help=words)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """`--preset` and `--set`."""
    parser.add_argument("--preset", default="laptop", help="paper, laptop or smoke")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting; may be repeated"
    )


def parse_pairs(pairs: Iterable[str]) -> dict[str, Any]:
    """The values of `--set`: `["optim.lr=0.05", "model.method=lpf"]` as a dictionary; a value is JSON if it can be."""
    out: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"`--set {pair}` must be KEY=VALUE, as in `--set optim.lr=0.05`.")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        out[key.strip()] = value
    return out


def naming_options(file: Path | None = None, own: Mapping[str, str] | None = None) -> AbstractContextManager[None]:
    """Let errors name options instead of settings: `data.size` (=8) becomes `--set data.size=8`.

    Errors about the settings in a `file` stay as they are. `own`: more settings that have an option in this command.
    """
    options = _OPTIONS | dict(own or {})

    def option(found: re.Match[str]) -> str:
        key, value = found.groups()
        if file is not None and found.string.startswith(f"{file}: "):
            return found[0]
        if key not in options:
            return f"`--set {key}={value or 'VALUE'}`"
        return f"`{options[key]}`" + (f" (={value})" if value else "")

    return checks.renaming(_SETTING, option)


def naming_arguments(options: Mapping[str, str]) -> AbstractContextManager[None]:
    """Let errors name options of a command instead of the arguments of functions, by argument: `jobs`, `--jobs`."""
    return checks.renaming(f"`({'|'.join(map(re.escape, options))})`", lambda found: f"`{options[found[1]]}`")


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
