"""The sections of the measurement's page: the result in a sentence, the numbers, the heat maps, the worst cases.

Each function returns a heading, which may be empty, and the HTML below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import PurePath

from torch import Tensor

from shiftproof.maps.shifts import circular_shift, cropped_shift, fractional_shift
from shiftproof.measurement.kind_result import TITLES, ImageResult, KindResult
from shiftproof.reports import html_page
from shiftproof.reports.words import percent, shift_text

THUMBNAILS = 12
_SHIFT_FUNCTIONS = {"circular": circular_shift, "cropped": cropped_shift, "fractional": fractional_shift}
_KINDS_EXPLAINED = {
    "circular": "what leaves on one side comes back on the other: here a network can be exactly invariant",
    "cropped": "like a moving camera, up to an eighth of the size each way: what leaves is lost, black comes in",
    "fractional": "by multiples of 1/8 of a pixel within one pixel, like a hand-held camera",
}
_COLUMNS_EXPLAINED = {
    "pairs agree": "how often two random shifts of a picture get the same answer",
    "answer kept": "of picture-shift pairs: how often a shifted picture gets the answer of the unshifted one",
    "change": "of any score, over all pictures and shifts",
}
Section = tuple[str, str]
Label = Callable[[int], str]  # the name of a class


def summary(headline: str, about: dict[str, str], kinds: Sequence[KindResult]) -> list[Section]:
    """The result in a sentence, and the table of numbers."""
    first, *others = kinds
    tone = "good" if first.exact else "bad" if first.reference < 1 else ""
    sentences = " ".join(_sentence(kind) for kind in others)
    lead = f'<p class="lead {tone}">{escape(headline)}</p><p>{escape(sentences)}</p>{html_page.facts(about)}'
    explained = {kind.kind: _KINDS_EXPLAINED[kind.kind] for kind in kinds} | _COLUMNS_EXPLAINED
    numbers = html_page.table(TITLES, [kind.row() for kind in kinds]) + html_page.facts(explained)
    return [("", lead), ("Numbers", numbers)]


def _sentence(kind: KindResult) -> str:
    if kind.exact:
        return f"Under {kind.kind} shifts its output stays the same, bit for bit."
    if kind.reference == 1:
        return f"Under {kind.kind} shifts it keeps its answer; its scores move by up to {kind.max:.3g}."
    return f"It changes its answer for {percent(1 - kind.reference)} of picture-shift pairs under {kind.kind} shifts."


def heat_maps(light: str, dark: str) -> Section:
    """The heat maps, as data URIs, for light and dark pages."""
    alternative = "Heat maps over the shifts: share of answers kept, largest change of the scores"
    caption = (
        "The ring marks the unshifted picture. Left: the share of pictures that keep their answer, dark is worse. "
        "Right: how far the scores move, bright is worse."
    )
    return "Shift by shift", html_page.figure(caption, html_page.picture(alternative, light, dark))


def worst_cases(kinds: Sequence[KindResult], pictures: Tensor, label: Label) -> Section:
    """For each kind of shift, the image with the largest change, before and after."""
    cards = "".join(_worst_case(kind, pictures, label) for kind in kinds)
    return "The worst cases", f'<div class="pairs">{cards}</div>'


def _worst_case(kind: KindResult, pictures: Tensor, label: Label) -> str:
    if kind.exact:
        return f'<div class="card"><b>{kind.kind}</b><p class="good">No shift changes a single bit.</p></div>'
    worst = max(kind.images, key=lambda image: (image.before != image.after, image.change))
    before = pictures[kind.images.index(worst)]
    shift = [float(v) if kind.kind == "fractional" else int(v) for v in worst.shift]
    after = _SHIFT_FUNCTIONS[kind.kind](before[None], shift)[0]  # type: ignore[operator]
    changed = worst.before != worst.after
    sides = ""
    for words, image, answer in (
        ("unshifted", before, worst.before),
        (f"shifted by {shift_text(worst.shift)}", after, worst.after),
    ):
        thumbnail = html_page.picture(words, html_page.picture_uri(_displayable(image, before)))
        sides += (
            f"<div>{thumbnail}<figcaption>{escape(words)}<br>"
            f'<b class="{"bad" if changed else ""}">{escape(label(answer))}</b></figcaption></div>'
        )
    outcome = "another answer" if changed else "the same answer"
    return (
        f'<figure class="card"><b>{kind.kind}</b><div class="two">{sides}</div>'
        f"<figcaption>{escape(_file_name(worst))}: {outcome}, scores move by {worst.change:.3g}</figcaption></figure>"
    )


def gallery(kind: KindResult, pictures: Tensor, label: Label) -> Section:
    """The images that keep their answer least often, at most `THUMBNAILS`."""
    order = sorted(range(len(kind.images)), key=lambda i: kind.images[i].kept)[:THUMBNAILS]
    cards = ""
    for i in order:
        image, tone = kind.images[i], "bad" if kind.images[i].kept < 1 else "good"
        thumbnail = html_page.picture(_file_name(image), html_page.picture_uri(_displayable(pictures[i], pictures[i])))
        cards += (
            f'<figure class="card">{thumbnail}<figcaption>{escape(_file_name(image))}<br>{escape(label(image.before))}'
            f'<br>answer kept for <span class="{tone}">{percent(image.kept)}</span></figcaption></figure>'
        )
    count = len(kind.images)
    some = f": the {len(order)} least steady of {count}" if count > len(order) else ""
    return f"Pictures, {kind.kind} shifts{some}", f'<div class="cards">{cards}</div>'


def _file_name(image: ImageResult) -> str:
    return PurePath(image.name).name


def _displayable(picture: Tensor, reference: Tensor) -> Tensor:
    """The picture in [0, 1]: unchanged if `reference` is in that range, else stretched to the range of `reference`."""
    low, high = float(reference.min()), float(reference.max())
    inside = low >= 0 and high <= 1
    stretched = picture if inside else (picture - low) / (high - low or 1.0)
    return stretched if picture.shape[0] in (1, 3) else stretched.mean(0, keepdim=True)
