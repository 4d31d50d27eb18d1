"""The HTML of the tab Layer: the picture that is moved, a panel for each method, what is inside of GHS."""

from __future__ import annotations

from html import escape

from shiftproof.app import drawing
from shiftproof.app.layer import Comparison, Inside, Panel

SCALE = 0.25  # of the difference pictures, the same for all, always
LAWS = {
    "exact-invariant": "stays, bit for bit",
    "equivariant": "moves along",
    "none": "makes no promise",
}


def stage(comparison: Comparison, shift: tuple[float, float], kind: str, name: str) -> str:
    """The moved picture, with the pivot of GHS as a ring; it can be dragged."""
    height, width = comparison.moved.shape[1:]
    ring = ""
    if comparison.pivot is not None:
        row, column = comparison.pivot
        ring = f'<i class="ring" style="left:{(column + 0.5) / width:.3%};top:{(row + 0.5) / height:.3%}"></i>'
    picture = drawing.picture(comparison.moved.numpy())
    legend = '<p class="soft"><i class="ring key"></i>the pivot of GHS</p>' if ring else ""
    words = f"{name}, moved by {moved_by(shift)}"
    return movable(picture, words, width, kind == "circular", ring) + where(shift) + legend


def where(shift: tuple[float, float]) -> str:
    """How far the picture was moved, and how to move it."""
    return (
        f'<p class="where"><b class="number">{moved_by(shift)}</b> rows, columns</p>'
        '<p class="soft">Drag it, or click on it and use the arrow keys.</p>'
    )


def movable(uri: str, alternative: str, pixels: int, wrap: bool, overlay: str = "") -> str:
    """A picture that `app.js` lets people drag: it is `pixels` wide, and comes back on the other side if it wraps."""
    return (
        f'<div class="movable" data-pixels="{pixels}" data-wrap="{int(wrap)}">'
        f'<img src="{uri}" alt="{escape(alternative)}" draggable="false">{overlay}</div>'
    )


def moved_by(shift: tuple[float, float]) -> str:
    """A shift in words: (+1, -3).

    >>> moved_by((1, -0.125))
    '(+1, -0.125)'
    """
    return "({})".format(", ".join(f"{v:+g}" if v else "0" for v in shift))


def methods(comparison: Comparison) -> str:
    """The panels of all methods, side by side."""
    if not comparison.panels:
        return '<p class="soft">Choose a method to see what it makes of the picture.</p>'
    scale = (
        f'<p class="scale soft">Difference to the output of the unmoved picture: <span>-{SCALE:g}</span>'
        f'<i class="diverging"></i><span>+{SCALE:g}</span></p>'
        '<p class="soft">AD is the sum of absolute differences over all pixels and channels, mean and max likewise.</p>'
    )
    return f'<div class="panels">{"".join(map(_method, comparison.panels))}</div>{scale}'


def _method(panel: Panel) -> str:
    head = f'<h3>{escape(panel.method)}</h3><p class="law">{LAWS[panel.law]}</p>'
    if panel.problem is not None:
        return f'<article class="panel" data-method="{panel.method}">{head}{notice(panel.problem)}</article>'
    height, width = panel.difference.shape
    same = '<b class="same">equal bits</b>' if panel.exact else ""
    pictures = (
        f'<div class="stack"><figure><img src="{drawing.picture(panel.output.numpy())}" alt="output of {panel.method}">'
        f"<figcaption>output, {height} x {width}</figcaption></figure>"
        f'<figure><div class="blank"><img src="{drawing.signed(panel.difference.numpy(), SCALE)}" '
        f'alt="difference of {panel.method}">{same}</div><figcaption>difference</figcaption></figure></div>'
    )
    return (
        f'<article class="panel" data-method="{escape(panel.method)}">{head}{pictures}'
        f'<p class="ad"><span class="soft">AD</span> {figure(panel.total, panel.exact)}</p>'
        f'<p class="soft number">mean {panel.mean:.4f}<br>max {panel.largest:.3f}</p></article>'
    )


def figure(value: float, exact: bool) -> str:
    """A difference; one that is zero to the bit says so."""
    if exact:
        return '<b class="number good" data-exact="1">0.0 (equal bits)</b>'
    return f'<b class="number" data-exact="0">{value:.2f}</b>' if value >= 0.005 else (
        f'<b class="number" data-exact="0">{value:.1e}</b>'
    )  # fmt: skip


def inner(parts: Inside) -> str:
    """The matrix R of one axis, and the functions that it is made of."""
    count, size = parts.matrix.shape
    top = abs(parts.matrix).max()
    names = [f"h{chr(0x2080 + p)}" for p in range(len(parts.functions))]
    drawn = f"the first {len(names)} of {parts.orders}" if parts.orders > len(names) else f"all {parts.orders}"
    if parts.endless:
        drawn = f"the first {len(names)}; that of order <i>p</i> weighs 2<sup>&minus;<i>p</i>/{parts.orders}</sup>"
    return (
        '<div class="inside"><figure>'
        f'<div class="blank"><img src="{drawing.signed(parts.matrix, top)}" alt="the matrix R"></div>'
        f"<figcaption>R: {count} samples from {size} pixels, the same for both axes. Red adds, blue takes away, up to "
        f'<span class="number">{top:.2f}</span>.</figcaption></figure>'
        f"<figure>{drawing.curves(parts.x, parts.functions, names, 'Gaussian-Hermite functions')}"
        f"<figcaption>Gaussian-Hermite functions over the axis, {drawn}, scale "
        f'<i>&sigma;</i> = <span class="number">{parts.sigma:.3f}</span>.</figcaption></figure></div>'
    )


def notice(*words: str) -> str:
    """Something that went wrong, in words."""
    return "".join(f'<p class="notice" role="alert">{escape(part)}</p>' for part in words)
