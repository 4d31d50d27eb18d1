"""`shiftproof records`: list, show or check records."""

from __future__ import annotations

import argparse
from pathlib import Path

from shiftproof.commands.shared import add_actions

HELP = "List, show or check records."
EXAMPLES = ("list", "show records/cifar10-resnet20-ghs-laptop-seed0-*.json", "check results/records")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    actions = {"list": "a table", "show": "what was measured", "check": "what is wrong with them"}
    for action in add_actions(parser, actions).values():
        action.add_argument(
            "places",
            nargs="*",
            type=Path,
            default=[Path("records")],
            metavar="FILE",
            help="files or folders of records; default: records",
        )


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.experiments import records

    return records.run(options.action, options.places, options.json)
