"""The page of `shiftproof demo`: what a shift does to one picture and to small networks."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from shiftproof.experiments.records import RecordIndex
from shiftproof.reports import html_page, html_report, paper_tables
from shiftproof.reports.table import Table


def build(index: RecordIndex, preset: str, table: Table, cameraman: dict[str, Any], figure: Path) -> str:
    """The page, from the records, the table of digits, the cameraman's numbers and figure 4."""
    opening = [("", _lead(table)), ("One layer, one picture", _cameraman(cameraman, figure))]
    return html_report.build(index, preset, opening)


def _lead(table: Table) -> str:
    """The result of the networks in a sentence."""
    accuracies = {label: [cell.mean for cell in cells[:2]] for label, cells in table.rows}
    usual, ours = (accuracies[paper_tables.METHOD_LABELS[method]] for method in ("strided", "ghs"))
    text = "What a shift does to a network"
    if None not in (*usual, *ours):
        text = (
            f"Shift the picture, and the usual network's accuracy falls from {usual[0]:.0f} % to {usual[1]:.0f} %. "
            f"With GHS it stays at {ours[1]:.0f} %, bit for bit."
        )
    about = (
        "Everything on this page was computed on this machine by `shiftproof demo`: small ResNets, trained on bundled "
        "digits, tested with circular shifts."
    )
    return f'<p class="lead">{escape(text)}</p>{html_page.notes([about])}'


def _cameraman(cameraman: dict[str, Any], figure: Path) -> str:
    rows = [
        (row["label"], f"{row['shift']['sum']:.3f}", f"{row['all']['max']:.3f}", "yes" if row["all"]["exact"] else "no")
        for row in cameraman["rows"]
    ]
    head = ("method", "sum of differences, one pixel", "largest difference, all shifts", "bits equal")
    text = "An image (top) and the same image shifted by one pixel (bottom), downsampled by each method."
    return html_page.figure(text, html_page.picture(text, html_page.file_uri(figure))) + html_page.table(head, rows)
