"""The tables of the paper, of all shifts, of parts of a pixel, and of the ablation, made from records."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from shiftproof.experiments import catalogue, paper
from shiftproof.experiments.records import AGREEMENT, FIRST_AGREEMENT, RecordIndex, lookup
from shiftproof.reports import kernel_choice, verdicts
from shiftproof.reports.layouts import METHOD_LABELS, NETWORK_LABELS, TABLES
from shiftproof.reports.table import PERCENT, Cell, Table, record_cell


def make(name: str, index: RecordIndex, preset: str) -> Table:
    """A table of `TABLES`: a row for each method or variant; both of our GHS rows are beside the paper's one."""
    layout, runs, network = TABLES[name], catalogue.SWEEPS[name], catalogue.networks(name, preset)[0]
    found = {
        (method, model): index.find(catalogue.config(name, preset, model, row), runs.on)
        for method, row in runs.rows.items()
        for model in {column.model or network for column in layout.columns}
    }
    every = [record for several in found.values() for _, record in several]
    columns = [c for c in layout.columns if not c.optional or any(lookup(r["metrics"], *c.path) for r in every)]
    theirs = NETWORK_LABELS["resnet18"] if runs.models == ("resnet18",) and network != "resnet18" else ""
    rows = []
    for method in runs.rows:
        printed = "ghs" if method == "ghs-paper" else method
        cells = (record_cell(found[method, c.model or network], c, c.printed.get(printed)) for c in columns)
        rows.append((_label(method), tuple(dataclasses.replace(cell, network=theirs) for cell in cells)))
    sources = ", ".join(sorted({record["dataset"]["source"] for record in every})) or "none yet"
    counts = {
        e["n"] for r in every if (e := lookup(r["metrics"], *AGREEMENT) or lookup(r["metrics"], *FIRST_AGREEMENT))
    }
    images = " or ".join(f"{n:,}" for n in sorted(counts)) or "no"
    words = {"network": NETWORK_LABELS.get(network, network), "sources": sources, "images": images}
    notes = [note.format_map(words) for note in layout.notes]
    if theirs and any(column.printed for column in columns):
        notes.insert(0, f"The paper's network is {theirs}, ours {words['network']}.")
    table = Table(name, layout.title.format_map(words), tuple(c.title for c in columns), tuple(rows), tuple(notes))
    table = verdicts.judge(table, layout.subjects, [c.title for c in columns if c.scale == PERCENT])
    return kernel_choice.judge(table, runs.seeds) if name == "kernels" else table


def _label(row: str) -> str:
    """The name of a row: a method by its label, with what is changed."""
    method, comma, change = row.partition(", ")
    return METHOD_LABELS.get(method, method) + comma + change


def make_all(index: RecordIndex, preset: str) -> list[Table]:
    """Every table of `TABLES`, with numbers or without."""
    return [make(name, index, preset) for name in TABLES]


def cameraman(record: Mapping[str, Any]) -> Table:
    """Section 4.4: the absolute difference after a shift of the cameraman image."""
    wheres = (f"shift {tuple(record['shift'])}", f"all {record['size'] ** 2:,}")
    columns = tuple(f"{kind}, {where}" for where in wheres for kind in ("sum", "mean", "max"))
    rows = []
    for row in record["rows"]:
        cells = []
        for part in ("shift", "all"):
            for kind in ("sum", "mean", "max"):
                first = part == "shift" and kind == "sum" and row["paper_ad"] is not None
                theirs = (row["paper_ad"], None) if first else None
                cells.append(Cell(theirs, (row[part][kind],), ("cameraman.json",), 3, measured=True))
        rows.append((row["label"], tuple(cells)))
    notes = (
        f"Image: {record['image']}, area-averaged to {record['size']} x {record['size']}, range 0 to 1. The paper's is "
        "another photograph; it states neither the shift nor whether its difference is a sum, a mean or a maximum. All "
        "shifts: sum and mean averaged, max the largest. max + ..: after a dense 2 x 2 maximum. APS is equivariant: "
        "its output shifts along, and the difference counts that.",
    )
    return Table("cameraman", "Absolute difference after a circular shift", columns, tuple(rows), notes, False)


def table6(record: Mapping[str, Any]) -> Table:
    """Cost of one layer, from the record of `shiftproof bench layers`."""
    timed = next(r["times"] for r in record["rows"] if r["layout"] == "contiguous" and r["pass"] == "forward")
    rows = []
    ghs = (("ghs-paper", "GHS of the paper"), ("ghs", "GHS"))
    known = (("max", "max"), ("lpf", "LPF-3"), ("aps", "APS-3"), *ghs)
    for method, label in ((method, label) for method, label in known if label in timed):
        theirs, ours = paper.TIMES["ghs" if method == "ghs-paper" else method], 1e3 * timed[label]["median"]
        ratio = round(theirs[0] / paper.TIMES["max"][0], 2)
        files = ("layers.json",)
        cells = (
            Cell(theirs, (ours,), files, 3, measured=True),
            Cell((ratio, None), (ours / (1e3 * timed["max"]["median"]),), files, measured=True),
        )
        rows.append((METHOD_LABELS[method], cells))
    where = record["machine"]
    notes = (f"The paper: NVIDIA T4. Ours: {where['processor']}, {where['threads']} threads, median of many calls.",)
    title = "Table 6. Time of one layer, batches of 32 x 3 x 32 x 32, forward"
    return Table("table6", title, ("milliseconds", "ratio to max pooling"), tuple(rows), notes, False)
