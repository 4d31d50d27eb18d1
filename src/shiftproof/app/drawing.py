"""What several tabs draw, for light and dark pages: small pictures, charts, a picture that can be dragged, a notice.

Charts take their colours from the page (`app.css`). Pictures of signed values are transparent where the value is zero.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from shiftproof.reports.html_page import picture_uri, pixels_uri

POSITIVE, NEGATIVE = (0xE0, 0x52, 0x6A), (0x2F, 0x8F, 0xD0)
SERIES = 6  # the page defines the colours s0 .. s5


def signed(values: npt.NDArray[Any], scale: float) -> str:
    """Values (H, W): red if positive, blue if negative, transparent at zero, opaque from `scale` on."""
    share = np.clip(np.nan_to_num(values / scale), -1, 1)
    pixels = np.where((share > 0)[..., None], (*POSITIVE, 0), (*NEGATIVE, 0)).astype(np.uint8)
    pixels[..., 3] = np.ceil(np.abs(share) * 255)  # rounded up, so that only zero is fully transparent
    return pixels_uri(pixels)


def heat(values: npt.NDArray[Any], top: float) -> str:
    """Values (H, W) from 0 to `top` in a perceptually uniform colour map; NaN is transparent."""
    share = np.clip(np.nan_to_num(values / (top or 1.0), posinf=1.0), 0, 1)
    pixels = _colours()[np.rint(share * 255).astype(int)]
    pixels[np.isnan(values), 3] = 0
    return pixels_uri(pixels)


@functools.cache
def _colours() -> npt.NDArray[np.uint8]:
    from matplotlib import colormaps

    return np.asarray(colormaps["magma"](np.arange(256), bytes=True), dtype=np.uint8)


def curves(x: npt.NDArray[Any], rows: npt.NDArray[Any], names: Sequence[str], alternative: str) -> str:
    """A chart with one line per row over `x`, the zero axis, and a legend."""
    width, height, margin = 460.0, 200.0, 8.0
    top = float(np.abs(rows).max()) or 1.0
    across = margin + (x - x[0]) / (x[-1] - x[0]) * (width - 2 * margin)
    middle = height / 2
    lines = []
    for k, row in enumerate(rows):
        points = " ".join(f"{a:.1f},{middle - v / top * (middle - margin):.1f}" for a, v in zip(across, row))
        lines.append(f'<polyline class="s{k % SERIES}" points="{points}"/>')
    axis = f'<line class="axis" x1="{margin}" x2="{width - margin}" y1="{middle}" y2="{middle}"/>'
    return _svg(width, height, axis + "".join(lines), alternative, "curves") + legend(names)


def bars(shares: Sequence[float], series: Sequence[int], titles: Sequence[str], mark: int, alternative: str) -> str:
    """Shares from 0 to 1 as bars: colours by `series`, tooltips from `titles`, a marker below the bar `mark`."""
    width, height, foot = 460.0, 120.0, 12.0
    step = width / len(shares)
    parts = [
        f'<line class="grid" x1="0" x2="{width}" y1="{y:.1f}" y2="{y:.1f}"/>'
        for y in (0.5, height / 2 + 0.25, height - 0.5)
    ]
    for k, (share, colour, title) in enumerate(zip(shares, series, titles)):
        size = max(1.0, share * (height - 1))
        parts.append(
            f'<rect class="s{colour % SERIES}{" here" if k == mark else ""}" x="{k * step + step * 0.1:.2f}" '
            f'y="{height - size:.2f}" width="{step * 0.8:.2f}" height="{size:.2f}">'
            f"<title>{escape(title)}</title></rect>"
        )
    middle = (mark + 0.5) * step
    parts.append(f'<path class="mark" d="M{middle:.1f} {height + 2} l5 9 h-10 z"/>')
    return _svg(width, height + foot, "".join(parts), alternative, "bars")


def legend(names: Sequence[str]) -> str:
    """Each name after a square of its colour."""
    items = " ".join(f'<span><i class="s{k % SERIES}"></i>{escape(name)}</span>' for k, name in enumerate(names))
    return f'<p class="legend">{items}</p>'


def _svg(width: float, height: float, html: str, alternative: str, kind: str) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(alternative)}" '
        f'preserveAspectRatio="none">{html}</svg>'
    )


def draggable(picture: Tensor, shift: tuple[float, float], name: str, wrap: bool = True, overlay: str = "") -> str:
    """A moved picture (C, H, W) that `app.js` lets the user drag; its shift stands below it.

    With `wrap` a picture that is dragged over the edge continues on the other side.
    """
    label = escape(f"{name}, moved by {moved_by(shift)}")
    return (
        f'<div class="movable" data-pixels="{picture.shape[2]}" data-wrap="{int(wrap)}">'
        f'<img src="{picture_uri(picture)}" alt="{label}" draggable="false">{overlay}</div>'
        f'<p class="where"><b class="number">{moved_by(shift)}</b> rows, columns</p>'
        '<p class="soft">Drag it, or click on it and use the arrow keys.</p>'
    )


def ring(place: tuple[int, int], size: tuple[int, int]) -> str:
    """A ring around one cell (row, column) of a picture or a map with (rows, columns) cells."""
    return f'<i class="ring" style="left:{(place[1] + 0.5) / size[1]:.3%};top:{(place[0] + 0.5) / size[0]:.3%}"></i>'


def moved_by(shift: tuple[float, float]) -> str:
    """A shift in words.

    >>> moved_by((1, -0.125))
    '(+1, -0.125)'
    """
    return "({})".format(", ".join(f"{v:+g}" if v else "0" for v in shift))


def difference(value: float, exact: bool) -> str:
    """A difference as a number; equal bits are said in words."""
    if exact:
        return '<b class="number good" data-exact="1">0.0 (equal bits)</b>'
    return f'<b class="number" data-exact="0">{f"{value:.2f}" if value >= 0.005 else f"{value:.1e}"}</b>'


def notice(*messages: str) -> str:
    """Messages about what went wrong."""
    return "".join(f'<p class="notice" role="alert">{escape(message)}</p>' for message in messages)
