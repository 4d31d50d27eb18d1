"""A table of results as Markdown, as HTML, and for the terminal."""

from __future__ import annotations

import dataclasses
from html import escape
from typing import Any

from shiftproof.reports import findings, html_page
from shiftproof.reports.table import Cell, Table

MANY = 5  # tables with more columns are set smaller on a page


def _best(table: Table) -> list[float | None]:
    """The largest mean of each column of percentages; None if all rows that were run are equal."""
    out: list[float | None] = []
    for column, name in enumerate(table.columns):
        means = {cells[column].mean for _, cells in table.rows} - {None}
        wanted = len(means) > 1 and "%" in table.title + name
        out.append(max(means) if wanted else None)  # type: ignore[type-var]
    return out


def _lines(cell: Cell) -> list[str]:
    theirs = cell.theirs()
    return [*([f"paper {theirs}"] if theirs else []), cell.ours()]


def to_markdown(table: Table, folder: str) -> str:
    """A table with its notes; each row links to its records in `folder`."""
    head = "| | " + " | ".join(table.columns) + " |\n|" + " --- |" * (len(table.columns) + 1)
    prefix = f"{folder}/" if table.in_records else ""
    rows = []
    for label, cells in table.rows:
        files = sorted({f for cell in cells for f in cell.files})
        links = "".join(f" [{i}]({prefix}{f})" for i, f in enumerate(files, start=1))
        rows.append(f"| {label}{links} | " + " | ".join("<br>".join(_lines(cell)) for cell in cells) + " |")
    notes = "".join(f"\n\n{note}" for note in table.notes)
    return f"### {table.title}\n\n{head}\n" + "\n".join(rows) + notes + _comparisons(table) + "\n"


def _comparisons(table: Table) -> str:
    """How our rows compare with the others, one line for each column, as Markdown."""
    if not table.comparisons:
        return ""
    head = ("Compared", *(words.capitalize() for words in findings.WORDS.values()))
    rows = [head, ("---",) * len(head)]
    for subject, column, cell, found in findings.by_verdict(table):
        who = f"{subject}, {column.removesuffix(', %')}: {cell.ours()}"
        rows.append((who, *(findings.listed(several) for several in found.values())))
    return "\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def to_terminal(table: Table, columns: int | None = None) -> Any:
    """A rich table; with `columns`, only the first ones and without the number of seeds, for a narrow terminal."""
    from rich.table import Table as RichTable

    compared = any(cell.paper is not None for _, cells in table.rows for cell in cells)
    out = RichTable(title=table.title, caption="\n".join(table.notes), caption_justify="left", show_lines=compared)
    out.add_column("", no_wrap=True)
    for column in table.columns[:columns]:
        out.add_column(column, justify="right")
    for label, cells in table.rows:
        if columns is not None:
            cells = tuple(dataclasses.replace(cell, measured=True) for cell in cells[:columns])
        out.add_row(label, *("\n".join(_lines(cell)) for cell in cells))
    return out


def to_html(table: Table) -> str:
    """A table for a page: the paper's number in small print above ours, the best of ours in each column in bold."""
    top, compared = _best(table), _tooltips(table)
    head = "".join(f"<th>{escape(c)}</th>" for c in ("", *table.columns))
    rows = []
    for label, cells in table.rows:
        row = f"<td>{escape(label)}</td>"
        for column, cell, most in zip(table.columns, cells, top):
            theirs = f'<div class="soft">paper {_unbroken(cell.theirs())}</div>' if cell.paper is not None else ""
            ours = _unbroken(cell.ours())
            if cell.mean is None:
                ours = f'<span class="soft">{ours}</span>'
            elif most is not None and cell.mean == most:
                ours = f"<strong>{ours}</strong>"
            title = "\n".join([*compared.get((label, column), []), ", ".join(cell.files)])
            row += f'<td title="{escape(title)}">{theirs}{ours}</td>'
        rows.append(f"<tr>{row}</tr>")
    notes = html_page.notes(table.notes)
    body = "\n".join(rows)
    kind = "wide many" if len(table.columns) > MANY else "wide"
    return f'<div class="{kind}"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>{notes}'


def _tooltips(table: Table) -> dict[tuple[str, str], list[str]]:
    """What a cell says of its comparisons: as the subject of all of them, or as the other one."""
    out: dict[tuple[str, str], list[str]] = {}
    for c in table.comparisons:
        out.setdefault((c.other, c.column), []).append(c.text())
    return out


def _unbroken(number: str) -> str:
    """A number and its spread, kept on one line."""
    return escape(number).replace(" ± ", "&nbsp;±&nbsp;")
