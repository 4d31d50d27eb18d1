"""The HTML of the tab Network: the answers along a path of shifts, and a map of all shifts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from shiftproof.app import drawing
from shiftproof.app.drawing import difference, moved_by, ring
from shiftproof.app.networks import Network
from shiftproof.app.shift_scores import ShiftScores
from shiftproof.reports.words import percent


def panels(pairs: Sequence[tuple[Network, ShiftScores]], shift: tuple[float, float], path: str) -> str:
    """A panel for each network; all heat maps have the same scale."""
    top = max((scores.error.max for _, scores in pairs), default=0.0)
    return f'<div class="panels wide">{"".join(_panel(n, s, shift, path, top) for n, s in pairs)}</div>'


def _panel(network: Network, scores: ShiftScores, shift: tuple[float, float], path: str, top: float) -> str:
    place = scores.place(shift)
    answer, share = scores.probability(*place)
    tone = "good" if answer == scores.answer else "bad"
    was = "" if answer == scores.answer else f' <span class="soft">was {escape(network.classes[scores.answer])}</span>'
    return (
        f'<article class="panel" data-network="{escape(network.name)}"><h3>{escape(network.name)}</h3>'
        f'<p class="answer"><b class="{tone}">{escape(network.classes[answer])}</b> '
        f'<span class="number">{share:.1%}</span>{was}</p>'
        f"{_along(network, scores, place, path)}{_map(scores, place, path, top)}</article>"
    )


def _along(network: Network, scores: ShiftScores, place: tuple[int, int], path: str) -> str:
    """The answer and its probability for each shift on the path, with one colour per class."""
    places = scores.path(place, path)
    found = [scores.probability(*p) for p in places]
    others = [k for k, _ in Counter(answer for answer, _ in found if answer != scores.answer).most_common()]
    seen = [scores.answer, *others]
    titles = [
        f"{moved_by((scores.rows[r], scores.columns[c]))}: {network.classes[k]} {share:.1%}"
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


def _map(scores: ShiftScores, place: tuple[int, int], path: str, top: float) -> str:
    rows, columns = len(scores.rows), len(scores.columns)
    cells = "".join(
        f'<rect x="{c}" y="{r}" width="1" height="1"/>' for r, c in (scores.path(place, path) if top > 0 else [])
    )
    overlay = (
        f'<svg viewBox="0 0 {columns} {rows}" preserveAspectRatio="none" aria-hidden="true">{cells}</svg>'
        f"{ring(place, (rows, columns))}"
    )
    changed, _, worst = scores.worst()
    words = (
        "no shift changes a single bit"
        if scores.error.exact
        else f"answer kept for {percent(scores.kept)}, worst at {moved_by(worst)}{'' if changed else ' (same answer)'}"
    )
    return (
        f'<figure class="heat"><div class="map" data-rows="{scores.rows[0]},{scores.rows[-1]}" '
        f'data-columns="{scores.columns[0]},{scores.columns[-1]}">'
        f'<img src="{drawing.heat(scores.changes.numpy(), top)}" alt="change of the scores over all shifts" '
        f'draggable="false">{overlay}</div>'
        f'<div><p class="ad">largest change {difference(scores.error.max, scores.error.exact)}</p>'
        f'<p class="soft">{words}</p><p class="soft bar"><span>0</span><i class="magma"></i>'
        f'<span class="number">{top:.2f}</span></p><p class="soft">change of the scores over '
        f"{rows} x {columns} shifts; the middle is no shift</p></div></figure>"
    )
