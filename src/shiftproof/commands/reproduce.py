"""`shiftproof reproduce`: every table and figure of the paper, from records; what has no record is run first."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftproof import checks
from shiftproof.commands import cameraman
from shiftproof.commands.shared import SEEDS, add_data_dir, wide_console

if TYPE_CHECKING:
    from shiftproof.experiments.records import Settings
    from shiftproof.training.config import Config

HELP = "Tables and figures of the paper, from records; run what is missing."
EXAMPLES = ("all", "table2 figure5 --seeds 0", "all --draw-only")
_SHIFT = (3, 5)  # of figure 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_data_dir(parser)
    known = (
        "table1 .. table6, figure1 .. figure5, cameraman, shifts, noise, readings, heads, related, rotated28, "
        "subpixel, pretrained, kernels, ablation, aliasing, digits; default: all"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to run, print and draw: {known}")
    parser.add_argument("--preset", default="laptop", help="paper, laptop or smoke")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="SEED", help=SEEDS)
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="train these networks instead of the preset's")
    parser.add_argument("--draw-only", action="store_true", help="run nothing, draw what there is")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="where the runs go")
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="where tables and figures go")
    parser.add_argument("--records", type=Path, metavar="DIR", help="where the records are; default: OUT/records")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")


def run(options: argparse.Namespace) -> int:
    """Run what has no record yet, draw the chosen figures, write the documents; returns the exit code.

    They always have every table, figure and claim there is, whatever names were chosen.
    """
    from shiftproof.experiments.records import RecordIndex
    from shiftproof.reports import claims, markdown_report, paper_figures, paper_tables, table_formats
    from shiftproof.safe_io.atomic import atomic_write

    chosen = choose(options.names)
    out, folder = options.out, options.records or options.out / "records"
    document = out / "README.md"
    before = re.search(r"reproduce --preset (\w+)`", document.read_text()) if document.exists() else None
    if before and before[1] != options.preset:
        raise ValueError(
            f"{document}: has the results of the preset {before[1]!r}; give those of {options.preset!r} a folder of "
            f"their own with `--out DIR`."
        )
    failed = not options.draw_only and _run_missing(chosen, folder, options)
    index = RecordIndex.read([folder] if folder.is_dir() else [])
    tables = paper_tables.make_all(index, options.preset)
    drawn = [*_draw(chosen, out), *paper_figures.draw(tables, index, out, chosen).values()]
    if (file := out / "cameraman.json").exists():
        tables.insert(0, _table(paper_tables.cameraman, file))
    if (file := out / "layers.json").exists():
        tables.append(_table(paper_tables.table6, file))
    figures = {name: file for name, file in paper_figures.FILES.items() if (out / file).exists()}
    address = Path(os.path.relpath(folder, out)).as_posix()
    atomic_write(document, markdown_report.build(tables, figures, options.preset, address).encode())
    page = out / "claims.md"
    atomic_write(page, claims.build(tables, index, options.preset, address).encode())
    printed, written = [table for table in tables if table.name in chosen], [*drawn, document, page]
    if options.json:
        print(json.dumps({"tables": [t.to_dict() for t in printed], "files": [str(p) for p in written]}, indent=2))
    else:
        console = wide_console()
        for table in printed:
            console.print(table_formats.to_terminal(table))
        for path in written:
            print(f"wrote {path}")
    return 1 if failed else 0


def _table(make: Callable[[Any], Any], file: Path) -> Any:
    """The table of a file of numbers; a damaged file is named."""
    try:
        return make(json.loads(file.read_text()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file}: cannot be read ({error!r}); delete it, and it is measured again.") from error


def choose(names: Sequence[str]) -> list[str]:
    """The chosen tables and figures, each once; `all` or nothing is everything."""
    from shiftproof.reports.layouts import TABLES
    from shiftproof.reports.paper_figures import FILES

    known = list(dict.fromkeys((*FILES, "cameraman", *TABLES, "table6")))
    for name in names:
        checks.choice("NAME", name, (*known, "all"))
    return [name for name in known if not names or "all" in names or name in names]


def _run_missing(chosen: Sequence[str], folder: Path, options: argparse.Namespace) -> bool:
    """Run what has no record in `folder` yet; returns whether a run failed."""
    from shiftproof.experiments import bench, catalogue, sweep
    from shiftproof.safe_io.atomic import atomic_write

    planned: dict[Settings, dict[str, Config]] = {}  # by folder: several tables share runs
    for name in chosen:
        if name in catalogue.SWEEPS:
            models, seeds = options.models or (), options.seeds or ()
            for config in catalogue.configs(name, options.preset, models=models, seeds=seeds):
                planned.setdefault(catalogue.settings(name, options.preset), {})[catalogue.run_name(config)] = config
    failed, recorded = False, sweep.RecordedRuns(folder)
    places = {"runs": options.runs, "recorded": recorded, "data_dir": options.data_dir}
    for settings, configs in planned.items():
        failed |= bool(sweep.complete(list(configs.values()), settings=settings, jobs=options.jobs, **places))
    layers = options.out / "layers.json"
    if "table6" in chosen and not layers.exists():
        atomic_write(layers, (json.dumps(bench.measure_part("layers"), indent=2) + "\n").encode())
    return failed


def _draw(chosen: Sequence[str], out: Path) -> list[Path]:
    """Draw the chosen figures that need no records; returns their files."""
    from shiftproof.experiments.cameraman import load_image, outputs
    from shiftproof.reports import method_figures, paper_figures

    drawn: list[Path] = []
    if "figure1" in chosen:
        image, _ = load_image()
        methods = {"Invariance: GHS": "ghs", "Equivariance: APS": "aps"}
        moved, found = outputs(image, _SHIFT, methods)
        path = out / paper_figures.FILES["figure1"]
        drawn.append(method_figures.symmetry(path, image, moved, _SHIFT, found))
    if "kernels" in chosen:
        drawn.append(method_figures.gains(out / paper_figures.FILES["kernels"], *_gains()))
    if {"cameraman", "figure2", "figure3", "figure4"} & set(chosen):
        drawn += cameraman.perform(out)[1].values()
    return drawn


def _gains() -> tuple[list[float], dict[str, list[float]]]:
    """Frequencies as parts of the output's Nyquist limit, and the gain of each kernel there, from its matrix."""
    from shiftproof.evaluation.matrix import measure_matrix
    from shiftproof.ghs.kernel import GHS_PAPER, Local

    size, count = 128, 64
    frequencies = [2 * k / count for k in range(size // 2 + 1)]
    curves = {f"order {m}": measure_matrix(Local(m), size, count)["response"] for m in (0, 1, 2, 4, 8)}
    curves["GHS of the paper"] = measure_matrix(GHS_PAPER, size, count, "inclusive")["response"]
    curves["LPF-3"] = [(1 + math.cos(math.pi * f / 2)) / 2 for f in frequencies]  # of the taps 1, 2, 1
    return frequencies, curves
