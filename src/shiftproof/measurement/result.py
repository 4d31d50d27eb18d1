"""What shifts do to the answers of a network: the numbers, and the forms they are shown in."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from shiftproof.invariance import Shift
from shiftproof.safe_io.atomic import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAD = ("shifts", "tried", "pairs agree", "answer kept", "largest change", "mean change", "worst shift", "bits equal")


@dataclass(frozen=True)
class ImageResult:
    """One image under the shifts of one kind: how many kept its answer, and the worst of them.

    The worst shift is the one with the largest change of the scores, among those that change the answer if any does.
    """

    name: str
    kept: float
    shift: Shift
    change: float
    before: int
    after: int


@dataclass(frozen=True)
class KindResult:
    """All images under the shifts of one kind; the numbers are those of `ShiftError` and `Consistency`.

    `changes` and `kept` belong to the `shifts` one by one, `change_map` and `kept_map` to the grid of all shifts.
    """

    kind: str
    pairs: float
    reference: float
    max: float
    mean: float
    worst: Shift
    exact: bool
    shifts: list[Shift]
    changes: Tensor
    kept: Tensor
    change_map: Tensor
    kept_map: Tensor
    images: list[ImageResult]

    def row(self) -> list[str]:
        """What stands in the table, in the order of `HEAD`."""
        of = self.change_map.numel()
        return [
            self.kind,
            f"{len(self.shifts):,} of {of:,}" if len(self.shifts) != of else f"all {of:,}",
            percent(self.pairs),
            percent(self.reference),
            f"{self.max:.3g}",
            f"{self.mean:.3g}",
            "" if self.exact else shift_text(self.worst),
            "yes" if self.exact else "no",
        ]


@dataclass(frozen=True)
class Measurement:
    """What shifts do to the answers of a network: as text (`str`), table, figure, JSON, page."""

    kinds: dict[str, KindResult]
    about: dict[str, str]  # what was measured, in words
    labels: list[str] | None
    pictures: Tensor = dataclasses.field(repr=False)  # (B, C, H, W), as they were shifted

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
        scope = f"the {result.kind} shifts" if every else which.removeprefix("of ")
        return f"This network changes its answer for {percent(1 - result.reference)} of {scope}."

    def table(self) -> Any:
        """A rich table."""
        from rich.table import Table

        table = Table(title=self.headline(), caption="\n".join(self._lines()), caption_justify="left")
        for column in HEAD:
            table.add_column(column, justify="left" if column == HEAD[0] else "right", no_wrap=True)
        for result in self.kinds.values():
            table.add_row(*result.row(), style="bold green" if result.exact else None)
        return table

    def __str__(self) -> str:
        rows = [list(HEAD), *(result.row() for result in self.kinds.values())]
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([self.headline(), *text, *self._lines()])

    def _lines(self) -> list[str]:
        return [f"{name}: {value}" for name, value in self.about.items()]

    def figure(self, path: Path | None = None, *, dark: bool = False) -> Figure:
        """Heat maps over the shifts, no shift in the middle: answers kept and largest change. Written to `path`."""
        from shiftproof.reports import figures

        sizes = self.pictures.shape[2:]
        rows = []
        for result in self.kinds.values():
            where = result.shifts
            if result.kind == "circular":
                where = [figures.centred(shift, sizes) for shift in where]
            rows.append((result.kind, where, result.kept, result.changes))
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
            "kinds": {name: _plain(dataclasses.asdict(result)) for name, result in self.kinds.items()},
            "labels": self.labels,
        }

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_html(self) -> str:
        """One self-contained page."""
        from shiftproof.measurement.page import render

        return render(self)


def percent(share: float) -> str:
    """A share in words that do not round it away: 100 % is all, 0 % is nothing.

    >>> percent(0.12), percent(1.0), percent(0.99999), percent(0.0002)
    ('12 %', '100 %', 'over 99.9 %', 'under 0.1 %')
    """
    if 0 < share < 0.001:
        return "under 0.1 %"
    if 0.999 < share < 1:
        return "over 99.9 %"
    return f"{100 * share:.3g} %"


def shift_text(shift: Shift) -> str:
    """A shift as (row, column)."""
    return f"({', '.join(f'{v:g}' for v in shift)})"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, Tensor):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf"
    return value
