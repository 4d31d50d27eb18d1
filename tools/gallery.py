"""Draw the gallery: run every `examples/plot_*.py` and keep its picture. As a command: `gallery.py FOLDER`."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def names() -> list[str]:
    """What there is to draw: NAME for each `plot_NAME.py`."""
    return sorted(path.stem.removeprefix("plot_") for path in EXAMPLES.glob("plot_*.py"))


def source(name: str) -> str:
    """The code of an example."""
    return (EXAMPLES / f"plot_{name}.py").read_text()


def words(name: str) -> tuple[str, str]:
    """Title and text of an example: the first sentence of its docstring, and what follows it."""
    docstring = ast.get_docstring(ast.parse(source(name))) or ""
    title, _, text = docstring.partition("\n")
    return title.rstrip("."), text.strip()


def draw(folder: Path) -> None:
    """Run the examples one after the other and write NAME.png for each."""
    for name in names():
        figure = runpy.run_path(str(EXAMPLES / f"plot_{name}.py"))["draw"]()
        figure.savefig(folder / f"{name}.png", dpi=160, facecolor="white")


@cache
def pictures(sources: tuple[str, ...]) -> dict[str, bytes]:
    """NAME -> PNG, drawn in a process of their own; drawn again when one of the `sources` has changed."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, folder], check=True)
        return {path.stem: path.read_bytes() for path in Path(folder).glob("*.png")}


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
