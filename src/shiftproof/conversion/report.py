"""What a conversion did: a table to read, a dictionary to store."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Replacement:
    """One operation with a stride, and the layer that downsamples now."""

    name: str
    was: str
    now: str
    after: str  # the operation whose output is downsampled
    group: int  # operations of one group share a selection
    flops_before: int
    flops_after: int


@dataclass(frozen=True)
class ConversionReport:
    """The result of a conversion; `str` gives it as text, `table()` as a rich table, `to_dict()` for JSON."""

    method: str
    padding: str | None
    placement: str  # of the method, after or before the operations with a stride
    law: str
    replaced: list[Replacement]
    padding_changed: list[str]  # convolutions and poolings with another padding mode
    size_changed: list[str]  # those that did not keep the size of the map, and now do
    not_converted: list[str]
    notes: list[str]
    flops_before: int  # of convolutions and matrix products, per image
    flops_after: int
    example: list[int]  # the shape of the inputs that it was checked with

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings."""
        return dataclasses.asdict(self)

    def lines(self) -> list[str]:
        """The sentences below the table."""
        out = []
        if self.flops_before:
            ratio = self.flops_after / self.flops_before
            out.append(
                f"FLOPs per image: {self.flops_before / 1e6:,.1f} M before, {self.flops_after / 1e6:,.1f} M after "
                f"({ratio:.2f}x)."
            )
        if self.padding_changed:
            out.append(
                f"Padding {self.padding!r} in {len(self.padding_changed)} convolutions and poolings: the weights have "
                f"not seen it."
            )
        if self.padding is None:
            out.append(
                "The padding is kept, so every map looks as it did. Nothing is guaranteed under circular shifts, which "
                "the borders do not follow."
            )
        if self.size_changed:
            out.append(f"These did not keep the size of the map, and now do: {', '.join(self.size_changed)}.")
        out += [f"Not converted: {item}" for item in self.not_converted]
        return out + self.notes

    def __str__(self) -> str:
        rows = [(r.name, r.was, r.now, r.after, str(r.group)) for r in self.replaced]
        head = ("where", "was", "is", "after", "selection")
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [head, *rows]]
        return "\n".join([f"Converted to {self.method!r} ({self.law}).", *text, *self.lines()])

    def table(self) -> Any:
        """A rich table."""
        from rich.table import Column, Table

        numbers = (Column(name, justify="right") for name in ("selection", "MFLOPs before", "MFLOPs after"))
        table = Table("where", "was", "is", "after", *numbers, caption="\n".join(self.lines()), caption_justify="left")
        table.title = f"Converted to {self.method!r} ({self.law})"
        for r in self.replaced:
            cost = [f"{n / 1e6:,.1f}" if n else "" for n in (r.flops_before, r.flops_after)]
            table.add_row(r.name, r.was, r.now, r.after, str(r.group), *cost)
        return table


def attach_report(model: Any, report: ConversionReport) -> None:
    """Store the report of a converted network with it."""
    model.meta["shiftproof"] = report  # survives copying
    model.shiftproof_report = report  # survives pickling


def find_report(model: Any) -> ConversionReport | None:
    """The report of a converted network; None for other networks."""
    report = getattr(model, "shiftproof_report", None) or getattr(model, "meta", {}).get("shiftproof")
    return report if isinstance(report, ConversionReport) else None
