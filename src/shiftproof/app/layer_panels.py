"""The HTML of the tab Layer: the moved picture, a panel for each method, the matrix and functions of GHS."""

from __future__ import annotations

from html import escape

from shiftproof.app import drawing
from shiftproof.app.drawing import difference, draggable, notice, ring
from shiftproof.app.ghs_options import Inside
from shiftproof.app.layer_comparison import Comparison, MethodResult
from shiftproof.reports.html_page import picture_uri

SCALE = 0.25  # of all difference pictures, so that they can be compared
LAWS = {
    "exact-invariant": "does not change, bit for bit",
    "exact-equivariant": "moves with the picture, bit for bit",
    "equivariant": "moves with the picture",
    "none": "guarantees nothing",
}


def moved_picture(comparison: Comparison, shift: tuple[float, float], kind: str, name: str) -> str:
    """The moved picture, which can be dragged, with a ring around the pivot of GHS."""
    height, width = comparison.moved.shape[1:]
    mark = "" if comparison.pivot is None else ring(comparison.pivot, (height, width))
    legend = '<p class="soft"><i class="ring key"></i>the pivot of GHS</p>' if mark else ""
    return draggable(comparison.moved, shift, name, kind == "circular", mark) + legend


def methods(comparison: Comparison) -> str:
    """The panels of all methods, side by side."""
    if not comparison.results:
        return '<p class="soft">Choose a method to see its output.</p>'
    scale = (
        f'<p class="scale soft">Difference from the output for the unmoved picture: <span>-{SCALE:g}</span>'
        f'<i class="diverging"></i><span>+{SCALE:g}</span></p>'
        '<p class="soft">AD is the sum of absolute differences over all pixels and channels; mean and max are over '
        "the same values.</p>"
    )
    return f'<div class="panels">{"".join(map(_method, comparison.results))}</div>{scale}'


def _method(result: MethodResult) -> str:
    name = escape(result.method)
    head = f'<article class="panel" data-method="{name}"><h3>{name}</h3><p class="law">{LAWS[result.law]}</p>'
    if result.problem is not None:
        return f"{head}{notice(result.problem)}</article>"
    height, width = result.difference.shape
    same = '<b class="same">equal bits</b>' if result.exact else ""
    return (
        f'{head}<div class="stack"><figure><img src="{picture_uri(result.output)}" alt="output of {name}">'
        f"<figcaption>output, {height} x {width}</figcaption></figure>"
        f'<figure><div class="blank"><img src="{drawing.signed(result.difference.numpy(), SCALE)}" '
        f'alt="difference of {name}">{same}</div><figcaption>difference</figcaption></figure></div>'
        f'<p class="ad"><span class="soft">AD</span> {difference(result.total, result.exact)}</p>'
        f'<p class="soft number">mean {result.mean:.4f}<br>max {result.largest:.3f}</p></article>'
    )


def inside_ghs(parts: Inside) -> str:
    """The matrix R of one axis, and its functions of lowest order."""
    count, size = parts.matrix.shape
    top = abs(parts.matrix).max()
    names = [f"h{chr(0x2080 + p)}" for p in range(len(parts.functions))]
    drawn = f"the first {len(names)} of {parts.orders}" if parts.orders > len(names) else f"all {parts.orders}"
    if parts.endless:
        drawn = f"the first {len(names)}; order <i>p</i> has the weight 2<sup>&minus;<i>p</i>/{parts.orders}</sup>"
    return (
        '<div class="inside"><figure>'
        f'<div class="blank"><img src="{drawing.signed(parts.matrix, top)}" alt="the matrix R"></div>'
        f"<figcaption>R: {count} samples from {size} pixels, the same for both axes. Red is positive, blue negative, "
        f'up to <span class="number">{top:.2f}</span>.</figcaption></figure>'
        f"<figure>{drawing.curves(parts.x, parts.functions, names, 'Gaussian-Hermite functions')}"
        f"<figcaption>Gaussian-Hermite functions along the axis, {drawn}; scale "
        f'<i>&sigma;</i> = <span class="number">{parts.sigma:.3f}</span>.</figcaption></figure></div>'
    )
