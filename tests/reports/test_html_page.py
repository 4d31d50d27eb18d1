"""The building blocks of pages."""

import torch

from helpers.app_pictures import as_pixels
from shiftproof.reports import html_page


def test_notes_are_text_with_code_between_backticks() -> None:
    assert html_page.notes(["run `a <b>`", "a ` alone", "and `"]) == (
        '<p class="soft">run <code>a &lt;b&gt;</code></p><p class="soft">a ` alone</p><p class="soft">and `</p>'
    )


def test_pictures_are_grey_or_in_colour() -> None:
    assert as_pixels(html_page.picture_uri(torch.full((1, 2, 3), 0.5))).shape == (2, 3)
    assert as_pixels(html_page.picture_uri(torch.full((3, 2, 3), 2.0))).tolist() == [[[255] * 3] * 3] * 2
