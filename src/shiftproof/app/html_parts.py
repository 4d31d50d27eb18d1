"""HTML that several tabs share: a picture that can be dragged, its shift in words, a difference, a notice."""

from __future__ import annotations

from html import escape

from torch import Tensor

from shiftproof.reports.html_page import picture_uri


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
