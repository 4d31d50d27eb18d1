"""The result of a measurement, and the forms it is shown in: text, table, figure, JSON, page."""

from __future__ import annotations

import dataclasses
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from shiftproof.evaluation.suite import plain
from shiftproof.measurement import page
from shiftproof.measurement.kind_result import TITLES, KindResult
from shiftproof.reports import html_page
from shiftproof.reports.words import percent, shift_text
from shiftproof.safe_io.atomic import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Measurement:
    """What shifts do to the answers of a network: as text (`str`), table, figure, JSON, page."""

    kinds: dict[str, KindResult]
    about: dict[str, str]  # what was measured, in words
    labels: list[str] | None
    pictures: Tensor = dataclasses.field(repr=False)  # (B, C, H, W), unshifted

    def label(self, index: int) -> str:
        """The name of a class."""
        return f"class {index}" if self.labels is None else self.labels[index]

    def headline(self) -> str:
        """The result in one sentence, about the first kind of shifts."""
        result = next(iter(self.kinds.values()))
        every = len(result.shifts) == result.change_map.numel()
        which = f"{result.kind} shift" if every else f"of the {len(result.shifts):,} {result.kind} shifts tried"
        if result.exact:
            return f"This network gives the same output for {'every' if every else 'each'} {which}, bit for bit."
        if result.reference == 1:
            return (
                f"This network keeps its answer for {'every' if every else 'each'} {which}; "
                f"its scores move by up to {result.max:.3g}."
            )
        scope = f"{result.kind} shifts" if every else which.removeprefix("of ")
        changed = percent(1 - result.reference)
        return f"This network changes its answer for {changed} of picture-shift pairs, under {scope}."

    def failures(self, at_least: float) -> list[str]:
        """What falls short: a sentence for each kind of shift under which fewer than this share keep their answer."""
        sentences = []
        for result in self.kinds.values():
            if result.reference < at_least:
                worst = min(result.images, key=lambda image: image.kept)
                sentences.append(
                    f"under {result.kind} shifts {percent(result.reference)} of picture-shift pairs keep their answer, "
                    f"and {percent(at_least)} must; of {worst.name} {percent(worst.kept)} do, and at "
                    f"{shift_text(worst.shift)} it is {self.label(worst.after)} instead of {self.label(worst.before)}."
                )
        return sentences

    def table(self) -> Any:
        """A rich table."""
        from rich.table import Table

        table = Table(title=self.headline(), caption="\n".join(self._about_lines()), caption_justify="left")
        for column in TITLES:
            table.add_column(column, justify="left" if column == TITLES[0] else "right", no_wrap=True)
        for result in self.kinds.values():
            table.add_row(*result.row(), style="bold green" if result.exact else None)
        return table

    def __str__(self) -> str:
        rows = [list(TITLES), *(result.row() for result in self.kinds.values())]
        widths = [max(len(row[i]) for row in rows) for i in range(len(TITLES))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([self.headline(), *text, *self._about_lines()])

    def _about_lines(self) -> list[str]:
        return [f"{name}: {value}" for name, value in self.about.items()]

    def figure(self, path: Path | None = None, *, dark: bool = False) -> Figure:
        """Heat maps over the shifts, no shift in the middle: answers kept and largest change. Written to `path`."""
        from shiftproof.reports import figures

        sizes = self.pictures.shape[2:]
        rows = []
        for result in self.kinds.values():
            shifts = result.shifts
            if result.kind == "circular":
                shifts = [figures.centered(shift, sizes) for shift in shifts]
            rows.append((result.kind, shifts, result.kept, result.changes))
        figure = figures.heatmap(rows, dark=dark)
        if path is not None:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=path.suffix.lstrip(".") or "png", dpi=figures.DPI)
            atomic_write(path, buffer.getvalue())
        return figure

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings; None where a shift was not tried, "inf" for what is not finite."""
        return {
            "headline": self.headline(),
            "about": self.about,
            "kinds": {name: plain(dataclasses.asdict(result), infinity="inf") for name, result in self.kinds.items()},
            "labels": self.labels,
        }

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_html(self) -> str:
        """One self-contained page."""
        return html_page.page(f"Shift measurement: {self.about.get('network', 'a network')}", self.sections())

    def sections(self) -> list[tuple[str, str]]:
        """The parts of the page, each a heading and its HTML; the first has the result in a sentence and no heading."""
        light, dark = (html_page.figure_uri(self.figure(dark=mode)) for mode in (False, True))
        kinds = list(self.kinds.values())
        return [
            *page.summary(self.headline(), self.about, kinds),
            page.heat_maps(light, dark),
            page.worst_cases(kinds, self.pictures, self.label),
            page.gallery(kinds[0], self.pictures, self.label),
        ]
