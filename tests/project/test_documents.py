"""What a reader can run is run, and what a reader can follow leads somewhere: README, pages, the built site."""

import contextlib
import functools
import html.parser
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import torch
from PIL import Image

import shiftproof
from shiftproof.commands import main

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', flags=re.S | re.M)

# commands that are run; all others are parsed
EXECUTED = {
    "docs/guide.md": {
        "shiftproof convert digit_network:make --size 16",
        "shiftproof finetune digit_network:make --dataset digits --epochs 1 --set data.limit=200 --set data.size=16 "
        "--out runs/tuned --quiet",
        "shiftproof evaluate runs/tuned --parts accuracy --limit 50",
        "shiftproof measure model.pt2 photos/ --kinds circular cropped -o measure.html",
    },
    "docs/reproduce.md": {
        "shiftproof data list",
        "shiftproof train --model resnet20 --method ghs --dataset digits --preset smoke --set optim.epochs=1 "
        "--set data.limit=200 --out runs/digits --quiet",
        "shiftproof evaluate runs/digits --parts accuracy --limit 50",
        "shiftproof records list",
    },
}


def commands(document: str) -> list[str]:
    """The lines of the shell blocks, without comments."""
    blocks = [code for kind, _, code in FENCE.findall((ROOT / document).read_text()) if kind == "sh"]
    return [" ".join(shlex.split(line, comments=True)) for block in blocks for line in block.splitlines()]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, with the pictures that documents speak of; what is imported or registered goes again."""
    from shiftproof.layers import registry

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    (tmp_path / "photos").mkdir()
    for i in range(2):
        Image.radial_gradient("L").resize((20, 16)).rotate(90 * i).save(tmp_path / "photos" / f"{i}.png")
    yield tmp_path
    sys.modules.pop("digit_network", None)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch.export
@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_run(document: str, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Top to bottom in one namespace: Python runs and prints the text below it, commands parse, cheap ones run.

    A block with a title is also written to that file.
    """
    torch.manual_seed(0)
    namespace: dict[str, object] = {}
    printed = ""
    for kind, title, code in FENCE.findall((ROOT / document).read_text()):
        if kind == "python":
            if title:
                Path(title).write_text(code)
            exec(compile(code, document, "exec"), namespace)
            printed = capsys.readouterr().out
        elif kind == "text":
            assert printed.split() == code.split(), f"{document} promises another output"
        else:
            assert kind == "sh", f"{document} has a block of {kind}, which nothing checks"
            for line in code.splitlines():
                run(document, shlex.split(line, comments=True))
            capsys.readouterr()


def run(document: str, words: list[str]) -> None:
    """Check one command, and execute it if it is cheap."""
    if words and words[0] == "make":
        assert words[1] in make_targets()
    elif words:
        assert words[0] == "shiftproof"
        main.parser().parse_args(words[1:])  # ends the test where it does not parse
        if " ".join(words) in EXECUTED.get(document, ()):
            assert main.main(words[1:]) == 0


def test_executed_commands_are_in_their_document() -> None:
    for document, wanted in EXECUTED.items():
        assert set(commands(document)) >= wanted


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))


@pytest.mark.parametrize("document", [*DOCUMENTS, "CONTRIBUTING.md"])
def test_make_targets_exist(document: str) -> None:
    assert set(re.findall(r"`make ([a-z-]+)", (ROOT / document).read_text())) <= make_targets()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(document: str) -> None:
    """In the documents that are read outside of the site."""
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / document).read_text()):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), f"{document} links to {target}"


class Reader(html.parser.HTMLParser):
    """What a page refers to, loads and can be referred to by."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        self.anchors |= {found[key] for key in ("id", "name") if key in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif "src" in found:
            self.loads.append(found["src"])
        elif tag == "link" and found.get("rel") != "canonical":
            self.loads.append(found["href"])


@functools.cache
def read(page: Path) -> Reader:
    return Reader(page)


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_links_of_the_site(site: Path) -> None:
    """Every link leads to a page, and to a place on it; addresses elsewhere are at least addresses."""
    checked = 0
    for page in pages(site):
        if page.name == "404.html":  # its links start at the root of a server
            continue
        for link in [*read(page).links, *read(page).loads]:
            parts = urlsplit(link)
            if parts.scheme:
                assert parts.scheme == "https", link
                assert re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc), link
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{page.relative_to(site)} links to {link}"
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in read(target).anchors | {"__skip"}, f"{page.name} links to {link}"
            checked += 1
    assert checked > 500


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in pages(site):
        assert not [load for load in read(page).loads if urlsplit(load).netloc]


def test_reference_has_every_public_name(site: Path) -> None:
    assert {f"shiftproof.{name}" for name in shiftproof.__all__} <= read(site / "api.html").anchors


def test_reference_has_every_option(site: Path) -> None:
    text = (site / "cli.html").read_text()
    for sub in list(main.parsers(main.parser()))[1:]:
        assert sub.prog.replace(" ", "-") in read(site / "cli.html").anchors
        for action in sub._actions:
            if "--help" not in action.option_strings:
                assert all(f"<code>{option}" in text for option in action.option_strings)


def test_architecture_shows_every_room(site: Path) -> None:
    """In the drawing and in the table, which stands in the page and is that of the code."""
    rooms = runpy.run_path(str(ROOT / "tools" / "rooms.py"))
    text = (site / "architecture.html").read_text()
    drawn = [n for line in re.findall(r'<text class="names" x[^>]*>([^<]*)</text>', text) for n in line.split(", ")]
    assert sorted(rooms["names"]()) == sorted(set(drawn) & set(rooms["names"]()))
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert rooms["write_table"](page) == page, "run `python tools/rooms.py`"
    assert "| **ghs** | |" in page


def test_formulas_are_drawn(site: Path) -> None:
    """None is left as TeX; each takes the colour of its text and can be read aloud."""
    for page in pages(site):
        assert "arithmatex" not in page.read_text()
    drawings = re.findall(r'<svg class="math"[^>]*>', (site / "mathematics.html").read_text())
    assert len(drawings) > 100
    assert all(re.search(r'aria-label="[^"]+"', drawing) for drawing in drawings)
    assert re.search(r"svg\.math \{\s*fill: currentColor", (site / "site.css").read_text())


def test_a_formula_that_cannot_be_drawn_is_named() -> None:
    formulas = runpy.run_path(str(ROOT / "tools" / "formulas.py"))
    with pytest.raises(ValueError, match=r"the formula '\\\\nonsense x' cannot be drawn"):
        formulas["svg"](r"\nonsense x")
    page = formulas["draw_formulas"]('<p>a <span class="arithmatex">\\(x &lt; y\\)</span> b</p>')
    assert page.startswith('<p>a <svg class="math" role="img" aria-label="x &lt; y"')


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder, served by another process: CPython 3.11 may refuse a thread its trace function."""
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            yield re.findall(r"http://\S+/", server.stdout.readline())[0]
        finally:
            server.terminate()


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser here")
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_pages_in_a_browser(site: Path, width: int, scheme: str) -> None:
    """No request leaves the machine, nothing is missing or complains, and no page is wider than its window."""
    from playwright.sync_api import sync_playwright

    outside: list[str] = []
    complaints: list[str] = []
    with served(site) as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
        page.on("request", lambda r: outside.append(r.url) if not r.url.startswith((home, "data:", "blob:")) else None)
        page.on("response", lambda r: complaints.append(f"{r.status} {r.url}") if r.status >= 400 else None)
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        for path in pages(site):
            page.goto(home + path.relative_to(site).as_posix())
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{path.name} is {wide} pixels wide"
            shown = page.evaluate("document.body.dataset.mdColorScheme")
            assert shown == {"light": "default", "dark": "slate"}[scheme]
        browser.close()
    assert outside == complaints == []
