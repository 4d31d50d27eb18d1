"""The figures of the paper and their captions; those that show results are drawn from records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from shiftproof.experiments import catalogue, records
from shiftproof.experiments.paper import ERASED_SIZES
from shiftproof.experiments.records import RecordIndex
from shiftproof.reports import figures
from shiftproof.reports.table import Table

_FIGURES = {
    "figure1": ("figure1_symmetry.png", "Figure 1. Invariance and equivariance: two of our operators on a real image."),
    "figure2": ("figure2_functions.png", "Figure 2. Gaussian-Hermite functions."),
    "figure3": ("figure3_process.png", "Figure 3. Gaussian-Hermite Sampling step by step."),
    "figure4": ("figure4_comparison.png", "Figure 4. An image and its shifted copy, downsampled by each method."),
    "figure5": ("figure5_erasure.png", "Figure 5. Consistency and accuracy with a square erased."),
    "kernels": ("kernels.png", "Gain of the local kernel for orders 0 to 8, beside LPF-3 and the paper's layer."),
    "aliasing": ("aliasing.png", "Aliasing: the energy of a wave that survives downsampling, by its frequency."),
}
FILES = {name: file for name, (file, _) in _FIGURES.items()}
CAPTIONS = {name: caption for name, (_, caption) in _FIGURES.items()}
FROM_RECORDS = ("figure5", "aliasing")


def draw(
    tables: Sequence[Table], index: RecordIndex, folder: Path, names: Iterable[str] = FROM_RECORDS
) -> dict[str, Path]:
    """Draw the named ones of `FROM_RECORDS` into a folder; returns the files of those that have records."""
    drawn: dict[str, Path] = {}
    rows = next(table.rows for table in tables if table.name == "figure5")
    if "figure5" in names and any(cell.values for _, cells in rows for cell in cells):
        means = {label: [cell.mean for cell in cells] for label, cells in rows}
        n = len(ERASED_SIZES)
        series = {label: {"consistency": v[:n], "accuracy": v[n:]} for label, v in means.items()}
        drawn["figure5"] = figures.erasure(folder / FILES["figure5"], series, ERASED_SIZES)
    if "aliasing" in names and (curves := _aliasing_curves(index)):
        drawn["aliasing"] = figures.aliasing(folder / FILES["aliasing"], curves)
    return drawn


def _aliasing_curves(index: RecordIndex) -> dict[str, Any]:
    """The aliasing of each method that has a record with its default options."""
    curves: dict[str, Any] = {}
    for record in index.records.values():
        curve = records.lookup(record["metrics"], "aliasing")
        if curve is not None and catalogue.has_default_options(record):
            curves.setdefault(curve["method"], curve)
    return curves
