"""`shiftproof data`: what fills the store of data sets, and what is in it."""

from __future__ import annotations

import argparse
from pathlib import Path

from shiftproof.commands.shared import add_actions, add_data_dir

HELP = "Get, import and list data sets."
EXAMPLES = ("get cifar10 mnist", "import ~/downloads", "list")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    actions = {
        "get": "fetch data sets, check them, put them in place",
        "import": "take files that are already here, in any official layout",
        "list": "show what is there",
    }
    made = add_actions(parser, actions)
    for action in made.values():
        add_data_dir(action)
    made["get"].add_argument("names", nargs="+", metavar="NAME", help="cifar10, cifar100, mnist or mnist-rot")
    made["import"].add_argument("folder", type=Path, metavar="DIR", help="a folder that has them, packed or unpacked")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.data import commands

    if options.action == "get":
        return commands.run_get(options.names, options.data_dir, options.json)
    if options.action == "import":
        return commands.run_import(options.folder, options.data_dir, options.json)
    return commands.run_list(options.data_dir, options.json)
