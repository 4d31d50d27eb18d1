"""The page of `shiftproof measure`: the answer in a sentence, the numbers, the maps, the worst that happened."""

from __future__ import annotations

from html import escape
from pathlib import PurePath

from torch import Tensor

from shiftproof.maps.shifts import circular_shift, cropped_shift, fractional_shift
from shiftproof.measurement.result import HEAD, ImageResult, KindResult, Measurement, percent, shift_text
from shiftproof.reports import html_page

THUMBNAILS = 12
_SHIFTED = {"circular": circular_shift, "cropped": cropped_shift, "fractional": fractional_shift}
_MEANING = {
    "circular": "what leaves on one side comes back on the other: the case in which a network can be exactly invariant",
    "cropped": "as a moving camera sees it, up to an eighth of the size each way: what leaves is lost, black comes in",
    "fractional": "by multiples of 1/8 pixel within one pixel, what a hand holding a camera does",
}


def render(result: Measurement) -> str:
    """The measurement as one self-contained page."""
    return html_page.page(f"Shift measurement: {result.about.get('network', 'a network')}", sections(result))


def sections(result: Measurement) -> list[tuple[str, str]]:
    """What stands on the page, each part with its heading: the answer in a sentence comes first and has none."""
    kinds = list(result.kinds.values())
    tone = "good" if kinds[0].exact else "bad" if kinds[0].reference < 1 else ""
    others = " ".join(_clause(kind) for kind in kinds[1:])
    lead = (
        f'<p class="lead {tone}">{escape(result.headline())}</p><p>{escape(others)}</p>{html_page.facts(result.about)}'
    )
    light, dark = (html_page.image_png(result.figure(dark=mode)) for mode in (False, True))
    maps = html_page.picture(
        "Heat maps over the shifts: share of answers kept, largest change of the scores", light, dark
    )
    return [
        ("", lead),
        ("Numbers", html_page.table(HEAD, [kind.row() for kind in kinds]) + html_page.facts(_reading(kinds))),
        (
            "Shift by shift",
            f'<figure style="margin:0">{maps}<figcaption>The ring marks the picture where it was. Left: the share of '
            "pictures whose answer stays, dark is worse. Right: how far the scores move, bright is worse.</figcaption>"
            "</figure>",
        ),
        ("The worst that happened", '<div class="pairs">' + "".join(_pair(result, k) for k in kinds) + "</div>"),
        *_gallery(result, kinds[0]),
    ]


def _clause(kind: KindResult) -> str:
    if kind.exact:
        return f"Under {kind.kind} shifts its output stays the same, bit for bit."
    if kind.reference == 1:
        return f"Under {kind.kind} shifts it keeps its answer; scores move by up to {kind.max:.3g}."
    return f"Under {kind.kind} shifts it changes its answer for {percent(1 - kind.reference)}."


def _reading(kinds: list[KindResult]) -> dict[str, str]:
    return {
        **{kind.kind: _MEANING[kind.kind] for kind in kinds},
        "pairs agree": "how often two random shifts of a picture get the same answer",
        "answer kept": "how often a shifted picture gets the answer of the unshifted one",
        "change": "of any score, over all pictures and shifts",
    }


def _pair(result: Measurement, kind: KindResult) -> str:
    """The image that fared worst under one kind of shifts, before and after."""
    if kind.exact:
        return f'<div class="card"><b>{kind.kind}</b><p class="good">No shift changes a single bit.</p></div>'
    worst = max(kind.images, key=lambda image: (image.before != image.after, image.change))
    before = result.pictures[kind.images.index(worst)]
    shift = [float(v) if kind.kind == "fractional" else int(v) for v in worst.shift]
    after = _SHIFTED[kind.kind](before[None], shift)[0]  # type: ignore[operator]
    changed = worst.before != worst.after
    pictures = "".join(
        f"<div>{html_page.picture(words, html_page.picture_png(_shown(image, before)))}<figcaption>{escape(words)}<br>"
        f'<b class="{"bad" if changed else ""}">{escape(result.label(answer))}</b></figcaption></div>'
        for words, image, answer in (
            ("as it is", before, worst.before),
            (f"shifted by {shift_text(worst.shift)}", after, worst.after),
        )
    )
    outcome = "another answer" if changed else "the same answer"
    return (
        f'<figure class="card"><b>{kind.kind}</b><div class="two">{pictures}</div>'
        f"<figcaption>{escape(_short(worst))}: {outcome}, scores move by {worst.change:.3g}</figcaption></figure>"
    )


def _gallery(result: Measurement, kind: KindResult) -> list[tuple[str, str]]:
    """The images that keep their answer least often, at most `THUMBNAILS`."""
    order = sorted(range(len(kind.images)), key=lambda i: kind.images[i].kept)[:THUMBNAILS]
    cards = []
    for i in order:
        image, picture = kind.images[i], result.pictures[i]
        tone = "bad" if image.kept < 1 else "good"
        cards.append(
            f'<figure class="card">{html_page.picture(_short(image), html_page.picture_png(_shown(picture, picture)))}'
            f"<figcaption>{escape(_short(image))}<br>{escape(result.label(image.before))}<br>"
            f'answer kept for <span class="{tone}">{percent(image.kept)}</span></figcaption></figure>'
        )
    count = len(kind.images)
    heading = f"Pictures, {kind.kind} shifts" + (
        f": the {len(order)} least steady of {count}" if count > len(order) else ""
    )
    return [(heading, f'<div class="cards">{"".join(cards)}</div>')]


def _short(image: ImageResult) -> str:
    return PurePath(image.name).name


def _shown(picture: Tensor, reference: Tensor) -> Tensor:
    """A picture to look at: as it is in [0, 1], else stretched from the lowest to the highest value of `reference`."""
    low, high = float(reference.min()), float(reference.max())
    inside = low >= 0 and high <= 1
    stretched = picture if inside else (picture - low) / (high - low or 1.0)
    return stretched if picture.shape[0] in (1, 3) else stretched.mean(0, keepdim=True)
