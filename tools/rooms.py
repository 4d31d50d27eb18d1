"""The rooms of the package, from the contract that holds their imports: `python tools/rooms.py` writes the table.

The table stands in docs/architecture.md; a test compares it with the code. The drawing is made when the site is built.
"""

from __future__ import annotations

import ast
import html
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "shiftproof"
PAGE = ROOT / "docs" / "architecture.md"
_TABLE = re.compile(r"(?<=<!-- rooms: table -->\n\n).*?(?=\n\n<!-- rooms: end -->)", flags=re.S)

# a group begins with the room named here, from the bottom up, and ends before the next
_GROUPS = {
    "checks": "Ground",
    "maps": "Mathematics",
    "invariance": "The measure",
    "layers": "Layers",
    "environment": "Networks",
    "data": "Training and evaluation",
    "camera": "The camera",
    "experiments": "Experiments and their records",
    "reports": "What is shown",
    "commands": "The command line",
}


def names() -> list[str]:
    """The rooms and the modules beside them, from the bottom up, as the contract in pyproject.toml lists them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers: list[str] = next(c["layers"] for c in contracts if c["type"] == "layers")
    return [name for name in reversed(layers) if name != "__main__"]


def table() -> str:
    """Every room with its modules, and the first sentence of each docstring, as Markdown."""
    lines = ["| room | module | what it is |", "| --- | --- | --- |"]
    for name in names():
        room = SOURCE / name
        lines.append(
            f"| **{name}** | | {_summary(room / '__init__.py' if room.is_dir() else room.with_suffix('.py'))} |"
        )
        for path in sorted(room.rglob("*.py")):
            if path != room / "__init__.py":
                module = path.relative_to(room).with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")
                lines.append(f"| | `{module}` | {_summary(path)} |")
    return "\n".join(lines)


def write_table(page: str) -> str:
    """The page with its table made anew."""
    return _TABLE.sub(lambda _: table(), page)


def diagram() -> str:
    """The groups as a stack, each on top of those it may import, as SVG in the colours of the page."""
    groups: list[tuple[str, list[str]]] = []
    for name in names():
        if name in _GROUPS:
            groups.append((_GROUPS[name], []))
        groups[-1][1].append(name)
    rows = groups[::-1]
    width, height, gap = 520, 46, 8
    total = len(rows) * (height + gap) - gap
    spoken = "The rooms of the package, each on top of those it may import: "
    spoken += html.escape(", ".join(title for title, _ in rows))
    parts = [
        '<figure class="drawing">',
        f'<svg class="diagram" role="img" aria-label="{spoken}" viewBox="0 0 {width} {total}">',
    ]
    for i, (title, modules) in enumerate(rows):
        y = i * (height + gap)
        listed = html.escape(", ".join(modules))
        parts += [
            f'<rect x="1" y="{y + 1}" width="{width - 42}" height="{height - 2}" rx="6"/>',
            f'<text class="title" x="14" y="{y + 19}">{html.escape(title)}</text>',
            f'<text class="names" x="14" y="{y + 36}">{listed}</text>',
        ]
    x = width - 18
    parts += [
        f'<path class="arrow" d="M{x} 6V{total - 8}m-6 -9l6 9l6 -9"/>',
        f'<text class="note" transform="translate({x - 7} {total / 2}) rotate(-90)">imports</text>',
        "</svg></figure>",
    ]
    return "".join(parts)


def _summary(path: Path) -> str:
    """The first paragraph of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "&#124;")


if __name__ == "__main__":
    PAGE.write_text(write_table(PAGE.read_text()))
