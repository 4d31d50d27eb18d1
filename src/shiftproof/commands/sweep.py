"""`shiftproof sweep`: many runs, each trained, evaluated and put on record."""

from __future__ import annotations

import argparse
from pathlib import Path

from shiftproof.commands.shared import SEEDS, add_data_dir, add_settings, parse_pairs

HELP = "Run the experiments of a table that have no record yet."
EXAMPLES = ("table1 --seeds 0 1", "digits --methods lpf ghs mine", "table4 --jobs 4", "ablation --engine ray")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_data_dir(parser)
    add_settings(parser)
    parser.add_argument("name", metavar="NAME", help="table1 .. table5, figure5, shifts, ablation or digits")
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
    """Run the command; returns the exit code."""
    from shiftproof.experiments import catalogue, sweep

    configs = catalogue.plan(
        options.name,
        options.preset,
        models=options.models or (),
        methods=options.methods or (),
        seeds=options.seeds or (),
        dataset=options.dataset,
        changes=parse_pairs(options.set),
    )
    return sweep.run(
        configs,
        settings=catalogue.settings(options.name, options.preset),
        runs=options.runs,
        out=options.records,
        data_dir=options.data_dir,
        jobs=options.jobs,
        engine=options.engine,
        address=options.address,
        as_json=options.json,
    )
