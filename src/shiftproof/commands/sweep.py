"""`shiftproof sweep`: the runs of a table, each trained, evaluated and put on record."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from shiftproof.commands.shared import SEEDS, add_data_dir, add_settings, naming_arguments, naming_options, parse_pairs

HELP = "Run the experiments of a table that have no record yet."
EXAMPLES = (
    "table1 --seeds 0 1",
    "digits --methods lpf ghs mine",
    "digits --methods ghs --set 'model.options.kernel=local(order=4)'",
    "table4 --jobs 4",
    "ablation --engine ray",
)

# what functions call the options of the command
_OPTIONS = {name: f"--{name}" for name in ("preset", "engine", "jobs", "address")} | {
    "name": "NAME",
    "model.method": "--methods",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_data_dir(parser)
    add_settings(parser)
    known = "table1 .. table5, figure5, shifts, noise, readings, heads, related, rotated28, subpixel, kernels, "
    known += "ablation or digits"
    parser.add_argument("name", metavar="NAME", help=known)
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="instead of those of the table")
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help="instead of those of the table")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="SEED", help=SEEDS)
    parser.add_argument("--dataset", help="instead of that of the table")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="where the runs go")
    parser.add_argument("--records", type=Path, default=Path("records"), metavar="DIR", help="where the records go")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--engine", default="local", help="local, or ray (--runs and data on shared storage)")
    parser.add_argument("--address", help="of the Ray cluster; without it, Ray is started here")


def run(options: argparse.Namespace) -> int:
    """Run what is not on record yet and list the records of all runs; returns the exit code."""
    from shiftproof.commands.records import show_table
    from shiftproof.experiments import catalogue, sweep

    with naming_options(), naming_arguments(_OPTIONS):
        configs = catalogue.configs(
            options.name,
            options.preset,
            models=options.models or (),
            methods=options.methods or (),
            seeds=options.seeds or (),
            dataset=options.dataset,
            changes=parse_pairs(options.set),
        )
        settings = catalogue.settings(options.name, options.preset)
        recorded = sweep.RecordedRuns(options.records)
        failed = sweep.complete(
            configs,
            settings=settings,
            runs=options.runs,
            recorded=recorded,
            data_dir=options.data_dir,
            jobs=options.jobs,
            engine=options.engine,
            address=options.address,
        )
    found = [line for config in configs if (line := recorded.find(config, settings)) is not None]
    if options.json:
        print(json.dumps({"records": [str(path) for path, _ in found], "failed": failed}, indent=2))
    else:
        show_table(found)
    return 1 if failed else 0
