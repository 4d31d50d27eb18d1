"""The figures of one record: the heat map over all shifts, the aliasing curve."""

from __future__ import annotations

from pathlib import Path

from shiftproof.experiments.records import Record, lookup
from shiftproof.reports import figures


def draw(record: Record, folder: Path) -> list[Path]:
    """Draw what the record has numbers for; returns the files, which carry the name of the record's own."""
    written = []
    stem = f"{record['name']}-{record['key'][:8]}"
    shifts = lookup(record["metrics"], "consistency", "all_pairs")
    if shifts is not None:
        rows = [figures.recorded_shifts("circular shifts", shifts)]
        written.append(figures.save(figures.heatmap(rows), folder / f"{stem}-shifts.png"))
    curve = lookup(record["metrics"], "aliasing")
    if curve is not None:
        written.append(figures.aliasing(folder / f"{stem}-aliasing.png", {curve["method"]: curve}))
    return written
