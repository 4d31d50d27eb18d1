"""The building blocks of pages."""

from shiftproof.reports import html_page


def test_notes_are_text_with_code_between_backticks() -> None:
    assert html_page.notes(["run `a <b>`", "a ` alone", "and `"]) == (
        '<p class="soft">run <code>a &lt;b&gt;</code></p><p class="soft">a ` alone</p><p class="soft">and `</p>'
    )
