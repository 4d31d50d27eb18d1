"""`shiftproof completion`: print a completion script for a shell."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "Print a script that lets a shell complete commands and options."
EXAMPLES = ("bash > ~/.local/share/bash-completion/completions/shiftproof", "zsh > ~/.zfunc/_shiftproof")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("shell", metavar="SHELL", help="bash, zsh, fish or tcsh")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    import shtab

    from shiftproof import checks
    from shiftproof.commands.main import parser, parsers

    checks.choice("SHELL", options.shell, shtab.SUPPORTED_SHELLS)
    top = parser()
    for sub in parsers(top):
        for argument in sub._actions:
            if argument.type is Path:
                argument.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(top, options.shell))
    return 0
