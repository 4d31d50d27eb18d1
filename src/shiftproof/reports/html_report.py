"""All tables, figures and heat maps of some records on one HTML page that works offline."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from shiftproof.experiments import catalogue, records, significance
from shiftproof.experiments.records import RecordIndex
from shiftproof.reports import figures, findings, html_page, layouts, paper_figures, paper_tables, table_formats
from shiftproof.reports.table import Table


def build(index: RecordIndex, preset: str, opening: Sequence[tuple[str, str]] | None = None) -> str:
    """The page; `opening` are sections, each a heading and its HTML, that replace the usual first ones."""
    made = paper_tables.make_all(index, preset)
    run = [t for t in made if any(cell.values for _, cells in t.rows for cell in cells)]
    empty = [t.title.split(".")[0] for t in made if t not in run]
    sections = [("", _lead(index, preset, empty))] if opening is None else [*opening]
    if opening is None and (said := findings.from_tables(run)):
        items = "".join(f"<li><strong>{escape(about)}</strong>: {escape(words)}</li>" for about, words in said)
        sections.append(("Findings", f"{html_page.notes([significance.RULE])}<ul>{items}</ul>"))
    with tempfile.TemporaryDirectory() as folder:
        pictures = paper_figures.draw(made, index, Path(folder))
        for table in run:
            picture = pictures.pop(table.name, None)
            below = "" if picture is None else _figure(table.name, picture)
            sections.append((table.title, table_formats.to_html(table) + below))
        sections += [("", _figure(name, path)) for name, path in pictures.items()]
    maps = _heat_maps(index, preset)
    if maps:
        text = (
            "For each circular shift, with the unshifted image in the middle: the share of images that keep their "
            "answer, and the largest change of a logit."
        )
        sections.append(("Every shift", html_page.notes([text]) + maps))
    sections.append(("Records", _records(index)))
    return html_page.page("shiftproof: results", sections)


def build_demo(index: RecordIndex, preset: str, table: Table, cameraman: dict[str, Any], figure: Path) -> str:
    """The page of `shiftproof demo`, from the records, the table of digits, the cameraman's numbers and figure 4."""
    opening = [("", _demo_lead(table)), ("One layer, one picture", _cameraman(cameraman, figure))]
    return build(index, preset, opening)


def _demo_lead(table: Table) -> str:
    """The result of the networks in a sentence."""
    accuracies = {label: [cell.mean for cell in cells[:2]] for label, cells in table.rows}
    usual, ours = (accuracies[layouts.METHOD_LABELS[method]] for method in ("strided", "ghs"))
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


def _lead(index: RecordIndex, preset: str, empty: Sequence[str]) -> str:
    made = {r["model"]["method"] for r in index.records.values()}
    images = {r["dataset"]["name"] for r in index.records.values()}
    lead = f"{len(index.records)} evaluations, {len(made)} methods, {', '.join(sorted(images)) or 'no data set'}."
    small = "" if preset == "paper" else "Compare its numbers with one another, not with the paper's."
    rest = f"Not run: {', '.join(empty)}." if empty else ""
    return f'<p class="lead">{escape(lead)}</p>{html_page.notes([f"Preset {preset}. {small} {rest}"])}'


def _figure(name: str, path: Path) -> str:
    caption = paper_figures.CAPTIONS[name]
    return html_page.figure(caption, html_page.picture(caption, html_page.file_uri(path)))


def _heat_maps(index: RecordIndex, preset: str) -> str:
    rows: dict[str, Any] = {}
    for record in index.records.values():
        shifts = records.lookup(record["metrics"], "consistency", "all_pairs")
        measured = shifts is not None and record["dataset"]["part"] == "test"
        if measured and catalogue.has_default_options(record) and record["config"]["preset"] == preset:
            name = layouts.METHOD_LABELS.get(record["model"]["method"], record["model"]["method"])
            rows.setdefault(f"{record['dataset']['name']}, {name}", figures.recorded_shifts(name, shifts))
    out = ""
    for title, row in rows.items():
        light, dark = (html_page.figure_uri(figures.heatmap([row], dark=d)) for d in (False, True))
        out += f"<figure>{html_page.picture(title, light, dark)}</figure>"
    return out


def _records(index: RecordIndex) -> str:
    head = ("file", "data", "network", "method", "seed", "accuracy, %", "trained, minutes", "commit")
    rows = []
    for path, r in index.records.items():
        seconds = records.lookup(r, "training", "seconds")
        minutes = "" if seconds is None else f"{seconds / 60:.1f}"
        commit = (r["code"]["commit"] or "")[:10] + (" changed" if r["code"]["changed"] else "")
        accuracy = records.percent(r["metrics"], "accuracy", "clean")
        seed = "" if r["seed"] is None else str(r["seed"])
        data = f"{r['dataset']['name']} {r['dataset']['part']}"
        rows.append((path.name, data, r["model"]["name"], r["model"]["method"] or "", seed, accuracy, minutes, commit))
    return html_page.table(head, rows)
