"""The HTML of the tab Network: the answers along a path of shifts, and the map of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from torch import Tensor

from shiftproof.app import drawing
from shiftproof.app.network import Network, Sweep
from shiftproof.app.panels import figure, movable, moved_by, where
from shiftproof.reports.words import percent


def stage(moved: Tensor, shift: tuple[float, float], name: str) -> str:
    """The moved picture (C, H, W); it can be dragged."""
    words = f"{name}, moved by {moved_by(shift)}"
    return movable(drawing.picture(moved.numpy()), words, moved.shape[2], wrap=True) + where(shift)


def networks(pairs: Sequence[tuple[Network, Sweep]], shift: tuple[float, float], path: str) -> str:
    """A panel for each network; the heat maps of all have one scale."""
    top = max((sweep.error.max for _, sweep in pairs), default=0.0)
    return f'<div class="panels wide">{"".join(_network(n, s, shift, path, top) for n, s in pairs)}</div>'


def _network(network: Network, sweep: Sweep, shift: tuple[float, float], path: str, top: float) -> str:
    place = sweep.place(shift)
    answer, share = sweep.probability(*place)
    tone = "good" if answer == sweep.answer else "bad"
    was = "" if answer == sweep.answer else f' <span class="soft">was {escape(network.classes[sweep.answer])}</span>'
    return (
        f'<article class="panel" data-network="{escape(network.name)}"><h3>{escape(network.name)}</h3>'
        f'<p class="answer"><b class="{tone}">{escape(network.classes[answer])}</b> '
        f'<span class="number">{share:.1%}</span>{was}</p>'
        f"{_along(network, sweep, place, path)}{_map(sweep, place, path, top)}</article>"
    )


def _along(network: Network, sweep: Sweep, place: tuple[int, int], path: str) -> str:
    """The answer and its probability for each shift of the path, the class of the unmoved picture in its own colour."""
    places = sweep.path(place, path)
    found = [sweep.probability(*p) for p in places]
    others = [k for k, _ in Counter(answer for answer, _ in found if answer != sweep.answer).most_common()]
    seen = [sweep.answer, *others]
    titles = [
        f"{moved_by((sweep.rows[r], sweep.columns[c]))}: {network.classes[k]} {share:.1%}"
        for (r, c), (k, share) in zip(places, found)
    ]
    chart = drawing.bars(
        [share for _, share in found],
        [seen.index(k) for k, _ in found],
        titles,
        places.index(place),
        f"probability of the answer along the {path}",
    )
    return (
        f"<figure>{chart}{drawing.legend([network.classes[k] for k in seen[: drawing.SERIES]])}"
        f"<figcaption>the answer and its probability along the {path}; full height is 100 %</figcaption></figure>"
    )


def _map(sweep: Sweep, place: tuple[int, int], path: str, top: float) -> str:
    rows, columns = len(sweep.rows), len(sweep.columns)
    cells = "".join(
        f'<rect x="{c}" y="{r}" width="1" height="1"/>' for r, c in (sweep.path(place, path) if top > 0 else [])
    )
    overlay = (
        f'<svg viewBox="0 0 {columns} {rows}" preserveAspectRatio="none" aria-hidden="true">{cells}</svg>'
        f'<i class="ring" style="left:{(place[1] + 0.5) / columns:.3%};top:{(place[0] + 0.5) / rows:.3%}"></i>'
    )
    changed, _, worst = sweep.worst()
    words = (
        "no shift changes a bit"
        if sweep.error.exact
        else f"answer kept for {percent(sweep.kept)}, worst at {moved_by(worst)}{'' if changed else ' (same answer)'}"
    )
    return (
        f'<figure class="heat"><div class="map" data-rows="{sweep.rows[0]},{sweep.rows[-1]}" '
        f'data-columns="{sweep.columns[0]},{sweep.columns[-1]}">'
        f'<img src="{drawing.heat(sweep.changes.numpy(), top)}" alt="change of the scores over all shifts" '
        f'draggable="false">{overlay}</div>'
        f'<div><p class="ad">largest change {figure(sweep.error.max, sweep.error.exact)}</p>'
        f'<p class="soft">{words}</p><p class="soft bar"><span>0</span><i class="magma"></i>'
        f'<span class="number">{top:.2f}</span></p><p class="soft">change of the scores over '
        f"{rows} x {columns} shifts, no shift in the middle</p></div></figure>"
    )
