"""`shiftproof reproduce`: every table and figure of the paper, from records; what has no record is run first."""

from __future__ import annotations

import argparse
from pathlib import Path

from shiftproof.commands.shared import SEEDS, add_data_dir

HELP = "Tables and figures of the paper, from records; run what is missing."
EXAMPLES = ("all", "table2 figure5 --seeds 0", "all --draw-only")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_data_dir(parser)
    known = "table1 .. table6, figure1 .. figure5, cameraman, shifts, ablation, digits; default: all"
    parser.add_argument("names", nargs="*", metavar="NAME", help=known)
    parser.add_argument("--preset", default="laptop", help="paper, laptop or smoke")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="SEED", help=SEEDS)
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="train these networks instead of the preset's")
    parser.add_argument("--draw-only", action="store_true", help="run nothing, draw what there is")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="where the runs go")
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="where tables and figures go")
    parser.add_argument("--records", type=Path, metavar="DIR", help="where the records are; default: OUT/records")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.reports import reproduce

    return reproduce.run(
        options.names,
        options.preset,
        seeds=options.seeds or (),
        models=options.models or (),
        draw_only=options.draw_only,
        runs=options.runs,
        folder=options.records or options.out / "records",
        out=options.out,
        data_dir=options.data_dir,
        jobs=options.jobs,
        as_json=options.json,
    )
