"""Building blocks of one self-contained HTML page: no scripts, nothing downloaded, light and dark, fit to print.

Text arguments are escaped; arguments called `html`, and the bodies of sections, are not.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from torch import Tensor

import shiftproof

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5c6670; --paper: #fff; --card: #f5f6f8; --line: #d9dde2;
  --good: #1a7f45; --bad: #b42335; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #9aa4af; --paper: #16191d; --card: #1f242a;
  --line: #363d45; --good: #57c785; --bad: #ff7b86; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 3rem; max-width: 66rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { margin: 0; font-size: 1rem; font-weight: 600; color: var(--soft); overflow-wrap: anywhere; }
h2 { margin: 2.5rem 0 .75rem; font-size: 1.15rem; }
p { margin: .5rem 0; }
figure { margin: 1rem 0; }
p, ul { max-width: 58rem; }
.lead { margin: .4rem 0 1rem; font-size: 1.6rem; line-height: 1.3; font-weight: 600; text-wrap: balance; }
.soft, figcaption, footer { color: var(--soft); font-size: .875rem; }
.good { color: var(--good); } .bad { color: var(--bad); }
code { font-size: .95em; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: 7rem 1fr; gap: .15rem 1rem; margin: 1rem 0 0; font-size: .875rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .45rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 500; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.many table { font-size: .75rem; } .many .soft { font-size: .7rem; } .many th, .many td { padding: .4rem .35rem; }
.many th:first-child { min-width: 6.5rem; }
img { max-width: 100%; height: auto; display: block; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: 1rem; }
.pairs { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1rem; }
.card { margin: 0; padding: .75rem; background: var(--card); border-radius: .5rem; overflow-wrap: anywhere; }
.card img { width: 100%; image-rendering: pixelated; border-radius: .25rem; }
.card .two { display: grid; grid-template-columns: 1fr 1fr; gap: .6rem; margin: .5rem 0; }
.card span { white-space: nowrap; }
.card figcaption { margin-top: .4rem; line-height: 1.35; }
footer { margin-top: 3rem; padding-top: .75rem; border-top: 1px solid var(--line); }
@page { margin: 15mm; }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } h2 { break-after: avoid; }
  .card, figure, tr { break-inside: avoid; } .wide { overflow: visible; } table { font-size: 8pt; }
  td .soft { font-size: 7pt; } .many table { font-size: 6.5pt; } .many td .soft { font-size: 6pt; }
  .soft, figcaption, footer { font-size: 8.5pt; }
  .many th, .many td { padding: .25rem .2rem; } .many th:first-child { min-width: 5rem; } }
"""


def page(title: str, sections: Sequence[tuple[str, str]]) -> str:
    """A whole page from its title and its sections, each a heading (may be empty) and its HTML."""
    body = "\n".join(
        f"<section>{f'<h2>{escape(heading)}</h2>' if heading else ''}\n{html}\n</section>" for heading, html in sections
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n"
        f"{body}\n<footer>shiftproof {escape(shiftproof.__version__)}</footer>\n</body>\n</html>\n"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of plain text, the first column left-aligned."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def notes(words: Sequence[str]) -> str:
    """Small print, one paragraph per entry; text between backticks is set as code."""
    html = "".join(f'<p class="soft">{escape(part)}</p>' for part in words)
    return re.sub("`([^`<]+)`", r"<code>\1</code>", html)


def facts(pairs: dict[str, str]) -> str:
    """Names and their meaning, one per line."""
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in pairs.items()) + "</dl>"


def figure_uri(figure: Figure) -> str:
    """A matplotlib figure as a data URI."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=144)
    return _uri(buffer)


def file_uri(path: Path) -> str:
    """A PNG file as a data URI."""
    return _uri(io.BytesIO(path.read_bytes()))


def picture_uri(picture: Tensor) -> str:
    """A picture (C, H, W), grey or in colour, as a data URI; values are clipped to [0, 1]."""
    pixels = (picture.clamp(0, 1) * 255).round().byte().movedim(0, -1).cpu().numpy()
    return pixels_uri(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


def pixels_uri(pixels: npt.NDArray[np.uint8]) -> str:
    """Pixels (H, W), (H, W, 3) or (H, W, 4) as a data URI."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return _uri(buffer)


def figure(caption: str, html: str) -> str:
    """A figure with its caption below."""
    return f"<figure>{html}<figcaption>{escape(caption)}</figcaption></figure>"


def picture(alternative: str, light: str, dark: str | None = None) -> str:
    """An image from its data URI, with alternative text; `dark` is shown to readers who prefer dark pages."""
    image = f'<img src="{light}" alt="{escape(alternative)}">'
    if dark is None:
        return image
    return f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">{image}</picture>'


def _uri(buffer: io.BytesIO) -> str:
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
