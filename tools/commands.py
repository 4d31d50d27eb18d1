"""The reference of the command line, from the parsers themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from shiftproof.commands.main import parser as make_parser

_WIDTH = 78


def reference() -> str:
    """Every command, with its arguments, as one page of Markdown."""
    parser = make_parser()
    lines = ["# Command line", "", parser.description or "", ""]
    lines += ["Every command prints this text with `--help`.", ""]
    for _, inner in _commands(parser):
        lines += _command(inner, 2)
    return "\n".join(lines)


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _command(parser: argparse.ArgumentParser, level: int) -> list[str]:
    """One command under a heading of its own, its sub-commands one level below."""
    formatter = argparse.HelpFormatter(parser.prog, width=_WIDTH)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    text = (parser.description or "").strip()
    lines = [f"{'#' * level} {parser.prog}", "", text[:1].upper() + text[1:], ""]
    lines += ["```text", formatter.format_help().rstrip(), "```", ""]
    rows = [_row(action) for action in parser._actions if _is_shown(action)]
    if rows:
        lines += ["| argument | meaning | default |", "| --- | --- | --- |", *rows, ""]
    if parser.epilog:
        lines += ["```text", parser.epilog.strip("\n"), "```", ""]
    for _, inner in _commands(parser):
        lines += _command(inner, level + 1)
    return lines


def _is_shown(action: argparse.Action) -> bool:
    hidden = isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
    return not hidden and action.help is not argparse.SUPPRESS


def _row(action: argparse.Action) -> str:
    """One argument as a row of the table."""
    metavar = action.metavar or action.dest.upper()
    words = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    if action.nargs in ("+", "*"):
        words += " ..."
    if action.option_strings:
        values = f" {words}" if action.nargs != 0 else ""
        names = ", ".join(f"`{option}{values}`" for option in action.option_strings)
    else:
        names = f"`{words}`"
    default = action.default
    if default in (None, False, [], argparse.SUPPRESS):
        shown = ""
    else:
        shown = f"`{' '.join(map(str, default)) if isinstance(default, list | tuple) else default}`"
    return f"| {names} | {(action.help or '').replace('|', '&#124;')} | {shown} |"
