"""The results as one Markdown document: findings, tables, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shiftproof.experiments import significance
from shiftproof.reports import findings, table_formats
from shiftproof.reports.paper_figures import CAPTIONS
from shiftproof.reports.table import Table


def build(tables: Sequence[Table], figures: Mapping[str, str], preset: str, folder: str) -> str:
    """The document; `figures` are addresses by name, `folder` is the address of the records."""
    parts = [
        "# Results",
        f"Written by `shiftproof reproduce --preset {preset}` from the records in [{folder}]({folder}). Each cell has "
        "the paper's number, if there is one, and ours: mean ± standard deviation over n seeds. `not run` means that "
        "there is no record. [The paper, claim by claim](claims.md).",
    ]
    if preset != "paper":
        parts.append(
            f"The preset `{preset}` is a small version of the paper's recipe: compare its numbers with one another, "
            "not with the paper's."
        )
    found = findings.from_tables(tables)
    if found:
        sentences = "\n".join(f"- **{about}**: {words}" for about, words in found)
        parts += ["## Findings", significance.RULE, sentences, "## Tables"]
    for table in tables:
        parts.append(table_formats.to_markdown(table, folder).rstrip())
        if table.name in figures:
            parts.append(_image(table.name, figures[table.name]))
    shown = {table.name for table in tables}
    parts += [_image(name, address) for name, address in figures.items() if name not in shown]
    return "\n\n".join(parts) + "\n"


def _image(name: str, address: str) -> str:
    return f"![{CAPTIONS[name]}]({address})\n\n*{CAPTIONS[name]}*"
