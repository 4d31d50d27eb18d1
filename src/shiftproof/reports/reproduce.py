"""`shiftproof reproduce`: every table and figure of the paper, from records; what has no record is run first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftproof import checks
from shiftproof.experiments import bench, cameraman, catalogue, evaluate, records, sweep
from shiftproof.reports import figures, findings, paper_tables, render
from shiftproof.reports.table import Shelf, Table
from shiftproof.safe_io.atomic import atomic_write
from shiftproof.training.config import Config

SHIFT = (3, 5)  # of figure 1
_CAMERAMAN = ("figure2", "figure3", "figure4", "cameraman")
NAMES = ("figure1", *_CAMERAMAN, *paper_tables.TABLES, "table6")


def chosen(names: Sequence[str]) -> list[str]:
    """The names in the order they are drawn; `all` is everything."""
    for name in names:
        checks.choice("NAME", name, (*NAMES, "all"))
    return [name for name in NAMES if "all" in names or name in names]


def run(
    names: Sequence[str],
    preset: str,
    *,
    seeds: Sequence[int],
    models: Sequence[str],
    draw_only: bool,
    runs: Path,
    folder: Path,
    out: Path,
    data_dir: Path | None,
    jobs: int,
    as_json: bool,
) -> int:
    """Run what has no record in `folder` yet, then draw tables and figures into `out`."""
    wanted = chosen(names or ["all"])
    code = 0
    if not draw_only:
        asked: dict[evaluate.Settings, dict[str, Config]] = {}  # several tables share runs
        for name in wanted:
            if name in catalogue.SWEEPS:
                for config in catalogue.plan(name, preset, models=models, seeds=seeds):
                    asked.setdefault(catalogue.settings(name, preset), {}).setdefault(catalogue.title(config), config)
        for settings, configs in asked.items():
            failed = sweep.complete(
                list(configs.values()), settings=settings, runs=runs, out=folder, data_dir=data_dir, jobs=jobs
            )
            code |= bool(failed)
        if "table6" in wanted and not (out / "layers.json").exists():
            bench.run(out, False, False, ["layers"])
    found = {path: records.read(path) for path in records.find([folder])} if folder.is_dir() else {}
    drawn, written = draw(wanted, preset, found, folder, out)
    if as_json:
        print(json.dumps({"tables": [t.to_dict() for t in drawn], "files": [str(p) for p in written]}, indent=2))
        return code
    from rich.console import Console

    console = Console()
    console = Console(width=max(console.width, 160) if not console.is_terminal else None)
    for table in drawn:
        console.print(render.terminal(table))
    for path in written:
        print(f"wrote {path}")
    return code


def draw(
    wanted: Sequence[str], preset: str, found: dict[Path, records.Record], folder: Path, out: Path
) -> tuple[list[Table], list[Path]]:
    """The tables, and the files written: figures, and all of it as Markdown."""
    shelf = Shelf(found)
    shown: dict[str, Path] = {}
    if "figure1" in wanted:
        image, _ = cameraman.load_image(None, 32)
        shown["figure1"] = figures.symmetry(out / "figure1_symmetry.png", image, SHIFT)
    made: list[Table] = []
    if set(_CAMERAMAN) & set(wanted):
        numbers, drawn = cameraman.draw(out)
        shown |= {name: path for name, path in drawn.items() if name in wanted}
        if "cameraman" in wanted:
            made.append(paper_tables.cameraman(numbers))
    made += [paper_tables.TABLES[name](shelf, preset) for name in wanted if name in paper_tables.TABLES]
    if "table6" in wanted and (out / "layers.json").exists():
        made.append(paper_tables.table6(json.loads((out / "layers.json").read_text())))
    shown |= {k: v for k, v in pictures(shelf, found, preset, out).items() if k in (*wanted, "aliasing")}
    relative = folder.relative_to(out).as_posix() if folder.is_relative_to(out) else folder.as_posix()
    text = _document(preset, made, shown, relative, out)
    atomic_write(out / "README.md", text.encode())
    return made, [*shown.values(), out / "README.md"]


def pictures(shelf: Shelf, found: Mapping[Path, records.Record], preset: str, out: Path) -> dict[str, Path]:
    """The figures that are drawn from records, by name; those without a record are not drawn."""
    drawn = {
        "figure5": _erasure(out / "figure5_erasure.png", shelf, preset),
        "aliasing": _aliasing(out / "aliasing.png", found),
    }
    return {name: path for name, path in drawn.items() if path is not None}


def _erasure(path: Path, shelf: Shelf, preset: str) -> Path | None:
    table = paper_tables.erasure(shelf, preset)
    sizes = (0, 4, 6, 8)
    series = {}
    for label, cells in table.rows:
        means = [cell.mean for cell in cells]
        series[label] = {"consistency": means[: len(sizes)], "accuracy": means[len(sizes) :]}
    return figures.erased(path, series, sizes) if table.files() else None


def _aliasing(path: Path, found: Mapping[Path, records.Record]) -> Path | None:
    """The aliasing of each method that has a record with its usual options."""
    curves: dict[str, Any] = {}
    for record in found.values():
        curve = records.lookup(record["metrics"], "aliasing")
        if curve is not None and record["config"] is not None and not record["config"]["model"]["options"]:
            curves.setdefault(curve["method"], curve)
    return figures.aliasing(path, curves) if curves else None


CAPTIONS = {
    "figure1": "Figure 1. Invariance and equivariance, on a real image through our operators.",
    "figure2": "Figure 2. Gaussian-Hermite functions.",
    "figure3": "Figure 3. Gaussian-Hermite Sampling step by step.",
    "figure4": "Figure 4. An image and its shifted copy, downsampled by each method.",
    "figure5": "Figure 5. Consistency and accuracy with a square erased.",
    "aliasing": "Aliasing: energy of a wave that survives downsampling, by its frequency.",
}


def _document(preset: str, made: Sequence[Table], pictures: dict[str, Path], folder: str, out: Path) -> str:
    """All tables and figures as one Markdown page."""
    parts = [
        "# Results",
        f"Written by `shiftproof reproduce --preset {preset}` from the records in [{folder}]({folder}). In each cell "
        "the paper's number, where it has one, and ours: mean ± standard deviation over n seeds. `not run` means just "
        "that.",
    ]
    if preset != "paper":
        parts.append(
            f"The preset `{preset}` is a small version of the paper's recipe: its numbers compare methods with one "
            "another, not with the paper's."
        )
    found = findings.findings(made)
    if found:
        parts += [
            "## Reading",
            findings.RULE,
            "\n".join(f"- **{about}**: {words}" for about, words in found),
            "## Tables",
        ]
    for table in made:
        parts.append(render.markdown(table, folder).rstrip())
        if table.name in pictures:
            parts.append(_image(table.name, pictures[table.name], out))
    shown = {table.name for table in made}
    parts += [_image(name, path, out) for name, path in pictures.items() if name not in shown]
    return "\n\n".join(parts) + "\n"


def _image(name: str, path: Path, out: Path) -> str:
    caption = CAPTIONS[name]
    return f"![{caption}]({path.relative_to(out).as_posix()})\n\n*{caption}*"
