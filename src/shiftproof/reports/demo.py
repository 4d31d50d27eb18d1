"""`shiftproof demo`: the whole story on what comes with the package, without a download.

What a shift does to one picture, layer by layer; then small networks on handwritten digits, trained here and now.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from shiftproof.experiments import cameraman, catalogue, records, sweep
from shiftproof.reports import html_page, page, paper_tables, render
from shiftproof.reports.table import Shelf, Table
from shiftproof.safe_io.atomic import atomic_write

PRESET = "laptop"


def run(out: Path, as_json: bool) -> int:
    """Write the picture, the runs, their records and the page into `out`; a second call draws what is there."""
    numbers, pictures = cameraman.draw(out)
    if not as_json:
        cameraman.show(numbers, list(pictures.values()))
        print()
    configs, settings = catalogue.plan("digits", PRESET, seeds=[0]), catalogue.settings("digits", PRESET)
    place = out / "records"
    failed = sweep.complete(configs, settings=settings, runs=out / "runs", out=place, data_dir=None)
    found = {path: records.read(path) for path in records.find([place])} if place.is_dir() else {}
    table = paper_tables.digits(Shelf(found), PRESET)
    opening = [("", _lead(table)), ("One layer, one picture", _picture(numbers, pictures["figure4"]))]
    text = page.build(found, PRESET, opening)
    atomic_write(out / "report.html", text.encode())
    if as_json:
        print(
            json.dumps({"cameraman": numbers, "digits": table.to_dict(), "report": str(out / "report.html")}, indent=2)
        )
    else:
        from rich.console import Console

        Console().print(render.terminal(table, columns=4))
        print(f"The page with all of it: {out / 'report.html'}")
    return 1 if failed else 0


def _lead(table: Table) -> str:
    """What the networks say, in a sentence."""
    right = {label: [cell.mean for cell in cells[:2]] for label, cells in table.rows}
    usual, ours = right[paper_tables.NAMES["strided"]], right[paper_tables.NAMES["ghs"]]
    text = "What a shift does to a network"
    if None not in (*usual, *ours):
        text = (
            f"Move the picture, and the usual network falls from {usual[0]:.0f} % to {usual[1]:.0f} %. "
            f"With GHS it stays at {ours[1]:.0f} %, bit for bit."
        )
    about = (
        "Everything on this page was computed on this machine by `shiftproof demo`: small ResNets, trained on bundled "
        "digits, with the picture moved circularly."
    )
    return f'<p class="lead">{escape(text)}</p>{html_page.notes([about])}'


def _picture(numbers: dict[str, Any], path: Path) -> str:
    rows = [
        (row["label"], f"{row['shift']['sum']:.3f}", f"{row['all']['max']:.3f}", "yes" if row["all"]["exact"] else "no")
        for row in numbers["rows"]
    ]
    head = ("method", "sum of differences, one pixel", "largest difference, all shifts", "bits equal")
    text = "An image (top) and the same image moved by one pixel (bottom), downsampled by each method."
    return (
        f"<figure>{html_page.picture(text, html_page.file_png(path))}<figcaption>{escape(text)}</figcaption></figure>"
        + html_page.table(head, rows)
    )
