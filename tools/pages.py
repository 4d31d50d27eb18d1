"""Hooks of mkdocs: the pages that are made from the code, and the formulas of all of them.

What is made here is never typed: the command line from its parsers, the licences from what is installed, the drawing
of the rooms from the contract that holds their imports, the gallery and the notebook from running them, the results
from the records' own page.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import commands
import gallery
import licences
import notebook
import rooms
from formulas import draw_formulas

RESULTS = Path(__file__).parents[1] / "results"
_GALLERY = """---
hide: [toc]
---

# Gallery

Each picture is drawn by one short script in `examples/` when this site is built, with its code below it.
`python examples/plot_functions.py` draws it into the current folder.

"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made from code, records and examples."""
    made: dict[str, str | bytes] = {"cli.md": commands.reference(), "licences.md": licences.page()}
    made |= _gallery(config)
    made |= _quickstart()
    made |= _results()
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put in what a page asks for: `<!-- rooms: diagram -->`, `<!-- results: Title of a table -->`."""
    markdown = markdown.replace("<!-- rooms: diagram -->", rooms.diagram())
    return re.sub(r"<!-- results: (.+?) -->", lambda found: _measured(found[1]), markdown)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Draw the formulas."""
    try:
        return draw_formulas(html)
    except ValueError as error:
        raise PluginError(f"{page.file.src_uri}: {error}") from error


def _gallery(config: MkDocsConfig) -> dict[str, str | bytes]:
    """A page for each example, in the order of the navigation, and one with all pictures."""
    sources = tuple(gallery.source(name) for name in gallery.names())
    pictures = gallery.pictures(sources)
    made: dict[str, str | bytes] = {f"gallery/{name}.png": data for name, data in pictures.items()}
    order = re.findall(r"gallery/(\w+)\.md", str(config.nav))
    cards = []
    for name in sorted(pictures, key=lambda n: order.index(n) if n in order else len(order)):
        title, text = gallery.words(name)
        made[f"gallery/{name}.md"] = (
            f"---\nhide: [toc]\n---\n\n# {title}\n\n{text}\n\n![{title}]({name}.png)\n\n"
            f'```python title="examples/plot_{name}.py"\n{gallery.source(name)}```\n'
        )
        cards.append(f"[![{title}]({name}.png)<span>{title}</span>]({name}.md)")
    made["gallery/index.md"] = _GALLERY + '<div class="cards" markdown>\n\n' + "\n\n".join(cards) + "\n\n</div>\n"
    return made


def _quickstart() -> dict[str, str | bytes]:
    """The notebook with its outputs."""
    text, pictures = notebook.to_markdown(notebook.executed(notebook.QUICKSTART.read_text()), "quickstart")
    hint = "This page is the notebook `examples/quickstart.ipynb`, run when the site was built.\n\n"
    title, _, rest = text.partition("\n")
    return {"quickstart.md": f"{title}\n\n{hint}{rest}", **pictures}


def _measured(title: str) -> str:
    """The rows of a table of the results that have been run."""
    text = (RESULTS / "README.md").read_text()
    found = re.search(rf"^### {re.escape(title)}.*?\n\n((?:\|.*\n)+)", text, flags=re.M)
    if found is None:
        raise PluginError(f"results/README.md has no table {title!r}.")
    head, line, *rows = found[1].splitlines()
    run = [row for row in rows if "not run" not in row]
    return "\n".join([head, line, *run]).replace("](records/", "](results/records/")


def _results() -> dict[str, str | bytes]:
    """The pages that `shiftproof reproduce` writes, with their records and figures."""
    made: dict[str, str | bytes] = {}
    for name, page in (("README.md", "index.md"), ("claims.md", "claims.md")):
        text = re.sub(r"\[(\w+)\]\(records\)", r"\1", (RESULTS / name).read_text())
        made[f"results/{page}"] = "---\nhide: [navigation]\n---\n\n" + text.replace("](README.md)", "](index.md)")
    for path in sorted(RESULTS.rglob("*")):
        if path.suffix in (".json", ".png"):
            made[f"results/{path.relative_to(RESULTS).as_posix()}"] = path.read_bytes()
    return made
