"""`shiftproof report`: all tables, figures and heat maps of some records on one page that needs no network."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from shiftproof.experiments import records
from shiftproof.experiments.records import Record
from shiftproof.reports import figures, findings, html_page, paper_tables, render, reproduce
from shiftproof.reports.table import Shelf
from shiftproof.safe_io.atomic import atomic_write


def build(found: Mapping[Path, Record], preset: str, opening: Sequence[tuple[str, str]] | None = None) -> str:
    """The page; `opening` are sections, each a heading and its HTML, that stand instead of the usual first lines."""
    shelf = Shelf(found)
    made = [make(shelf, preset) for make in paper_tables.TABLES.values()]
    run = [t for t in made if any(cell.values for _, cells in t.rows for cell in cells)]
    empty = [t.title.split(".")[0] for t in made if t not in run]
    sections = [("", _lead(found, preset, empty))] if opening is None else [*opening]
    if opening is None and (said := findings.findings(run)):
        items = "".join(f"<li><strong>{escape(about)}</strong>: {escape(words)}</li>" for about, words in said)
        sections.append(("Reading", f"{html_page.notes([findings.RULE])}<ul>{items}</ul>"))
    with tempfile.TemporaryDirectory() as folder:
        pictures = reproduce.pictures(shelf, found, preset, Path(folder))
        for table in run:
            picture = pictures.pop(table.name, None)
            sections.append(
                (table.title, render.html(table) + ("" if picture is None else _figure(table.name, picture)))
            )
        sections += [("", _figure(name, path)) for name, path in pictures.items()]
    maps = _maps(found, preset)
    if maps:
        text = (
            "For each circular shift, no shift in the middle: the share of images that keep their answer, and the "
            "largest change of a logit."
        )
        sections.append(("Every shift", html_page.notes([text]) + maps))
    sections.append(("Records", _records(found)))
    return html_page.page("shiftproof: results", sections)


def _lead(found: Mapping[Path, Record], preset: str, empty: Sequence[str]) -> str:
    made = {r["model"]["method"] for r in found.values()}
    images = {r["dataset"]["name"] for r in found.values()}
    lead = f"{len(found)} evaluations, {len(made)} methods, {', '.join(sorted(images)) or 'no data set'}."
    small = "" if preset == "paper" else "It compares methods with one another, not with the paper's numbers."
    rest = f"Not run: {', '.join(empty)}." if empty else ""
    return f'<p class="lead">{escape(lead)}</p>{html_page.notes([f"Preset {preset}. {small} {rest}"])}'


def _figure(name: str, path: Path) -> str:
    caption = reproduce.CAPTIONS[name]
    image = html_page.picture(caption, html_page.file_png(path))
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def _maps(found: Mapping[Path, Record], preset: str) -> str:
    rows: dict[str, Any] = {}
    for record in found.values():
        shifts = records.lookup(record["metrics"], "consistency", "all_pairs")
        config = record["config"]
        plain = config is not None and config["preset"] == preset and not config["model"]["options"]
        if shifts is not None and plain and record["dataset"]["part"] == "test":
            name = paper_tables.NAMES.get(record["model"]["method"], record["model"]["method"])
            rows.setdefault(f"{record['dataset']['name']}, {name}", figures.recorded_shifts(name, shifts))
    out = ""
    for title, row in rows.items():
        light, dark = (html_page.image_png(figures.heatmap([row], dark=d)) for d in (False, True))
        out += f"<figure>{html_page.picture(title, light, dark)}</figure>"
    return out


def _records(found: Mapping[Path, Record]) -> str:
    head = ("file", "data", "network", "method", "seed", "accuracy, %", "trained, minutes", "commit")
    rows = []
    for path, r in found.items():
        seconds = records.lookup(r, "training", "seconds")
        minutes = "" if seconds is None else f"{seconds / 60:.1f}"
        commit = (r["code"]["commit"] or "")[:10] + (" changed" if r["code"]["changed"] else "")
        accuracy = records.percent(r["metrics"], "accuracy", "clean")
        seed = "" if r["seed"] is None else str(r["seed"])
        data = f"{r['dataset']['name']} {r['dataset']['part']}"
        rows.append((path.name, data, r["model"]["name"], r["model"]["method"] or "", seed, accuracy, minutes, commit))
    return html_page.table(head, rows)


def run(places: list[Path], preset: str | None, out: Path, as_json: bool) -> int:
    """Write the page of the records in files and folders."""
    found = {path: records.read(path) for path in records.find(places)}
    if not found:
        raise ValueError(f"{', '.join(map(str, places))}: no record there.")
    if preset is None:
        used = Counter(r["config"]["preset"] for r in found.values() if r["config"] is not None)
        preset = used.most_common(1)[0][0] if used else "laptop"
    atomic_write(out, build(found, preset).encode())
    print(json.dumps({"file": str(out), "records": len(found), "preset": preset}) if as_json else f"wrote {out}")
    return 0
