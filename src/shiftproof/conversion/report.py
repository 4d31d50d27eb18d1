"""What a conversion did: a table to read, a dictionary to store."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Replaced:
    """One operation that made maps smaller, and what does so now."""

    name: str
    was: str
    now: str
    after: str  # the operation behind which the maps are made smaller
    group: int  # operations of one group share a selection
    flops_before: int
    flops_after: int


@dataclass
class ConversionReport:
    """The result of a conversion; `str` gives it as text, `table()` as a rich table, `to_dict()` for JSON."""

    method: str
    padding: str | None
    law: str
    replaced: list[Replaced] = field(default_factory=list)
    repadded: list[str] = field(default_factory=list)  # convolutions and poolings with another padding mode
    resized: list[str] = field(default_factory=list)  # those that did not keep the size of the map and now do
    left: list[str] = field(default_factory=list)  # what could not be converted
    notes: list[str] = field(default_factory=list)
    flops_before: int = 0
    flops_after: int = 0
    example: list[int] = field(default_factory=list)  # the shape of the inputs it was checked with

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings."""
        return dataclasses.asdict(self)

    def lines(self) -> list[str]:
        """What stands below the table."""
        out = []
        if self.flops_before:
            ratio = self.flops_after / self.flops_before
            out.append(
                f"FLOPs per image: {self.flops_before / 1e6:,.1f} M before, {self.flops_after / 1e6:,.1f} M after "
                f"({ratio:.2f}x)."
            )
        if self.repadded:
            out.append(f"Padding {self.padding!r} in {len(self.repadded)} convolutions and poolings.")
        if self.resized:
            out.append(f"Now keep the size of the map, which they did not: {', '.join(self.resized)}.")
        out += [f"Left as it was: {item}" for item in self.left]
        return out + self.notes

    def __str__(self) -> str:
        rows = [(r.name, r.was, r.now, r.after, str(r.group)) for r in self.replaced]
        head = ("where", "was", "is", "behind", "selection")
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [head, *rows]]
        return "\n".join([f"Converted to {self.method!r} ({self.law}).", *text, *self.lines()])

    def table(self) -> Any:
        """A rich table."""
        from rich.table import Table

        table = Table(
            title=f"Converted to {self.method!r} ({self.law})", caption="\n".join(self.lines()), caption_justify="left"
        )
        for column in ("where", "was", "is", "behind", "selection", "MFLOPs before", "after"):
            table.add_column(column, justify="right" if column in ("selection", "MFLOPs before", "after") else "left")
        for r in self.replaced:
            cost = [f"{n / 1e6:,.1f}" if n else "" for n in (r.flops_before, r.flops_after)]
            table.add_row(r.name, r.was, r.now, r.after, str(r.group), *cost)
        return table
