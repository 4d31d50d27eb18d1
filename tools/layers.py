"""The layers of the package as a table and a drawing, from the list that the tests hold the imports to."""

from __future__ import annotations

import ast
import html
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "shiftproof"

# a group begins with the module named here and ends before the next
_GROUPS = {
    "checks": "Ground",
    "polynomials": "Mathematics",
    "native": "Machine",
    "pivots": "Sampling",
    "invariance": "The measure",
    "layers": "Layers",
    "models": "Networks",
    "data": "Data sets",
    "training": "Training",
    "evaluation": "Evaluation",
    "reports": "Records, tables, figures",
    "app": "Commands",
}


def names() -> list[str]:
    """LAYERS of tests/project/test_package.py, as far as it is written."""
    tree = ast.parse((ROOT / "tests" / "test_package.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "LAYERS" for t in node.targets):
            return [name for name in ast.literal_eval(node.value) if _file(name).exists()]
    raise ValueError("tests/project/test_package.py has no list LAYERS.")


def groups() -> list[tuple[str, list[str]]]:
    """The layers from left to right in groups with a title."""
    out: list[tuple[str, list[str]]] = []
    for name in names():
        if name in _GROUPS:
            out.append((_GROUPS[name], []))
        out[-1][1].append(name)
    return out


def table() -> str:
    """Each layer and the first sentence of its docstring, as Markdown."""
    lines = ["| layer | what it is |", "| --- | --- |"]
    return "\n".join(lines + [f"| `{name}` | {_summary(name)} |" for name in names()])


def diagram() -> str:
    """The groups as a stack, each standing on those it may import, as SVG in the colours of the page."""
    rows = groups()[::-1]
    width, height, gap = 520, 46, 8
    total = len(rows) * (height + gap) - gap
    spoken = "The layers of the package, each standing on those it may import: "
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


def _file(name: str) -> Path:
    return SOURCE / name / "__init__.py" if (SOURCE / name).is_dir() else SOURCE / f"{name}.py"


def _summary(name: str) -> str:
    """The first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(_file(name).read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "&#124;")
