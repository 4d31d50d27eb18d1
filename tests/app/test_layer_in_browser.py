"""The tab Layer, driven in a real browser."""

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from helpers.app_pictures import picture_files
from helpers.app_visitor import AppServer, Visitor


def test_ghs_stays_and_max_pooling_does_not(visit: Callable[..., Visitor]) -> None:
    """Under every circular shift the difference of GHS is exactly zero; that of max pooling is not."""
    visitor = visit()
    for shift in ((1, 0), (0, -3), (-32, 31)):
        visitor.move("layer", *shift)
        assert visitor.difference("ghs") == ("0.0 (equal bits)", True)
        words, exact = visitor.difference("max")
        assert not exact
        assert float(words) > 1
    visitor.shot("layer-light")
    visitor.page.locator("#layer-back").click()
    visitor.shows("layer", 0, 0)
    assert visitor.difference("max") == ("0.0 (equal bits)", True)  # no shift, no change
    assert visitor.complaints == []


def test_cropped_and_sub_pixel_shifts_change_ghs(visit: Callable[..., Visitor]) -> None:
    """Where pixels are lost or resampled the input differs, and so does the output of GHS."""
    visitor = visit()
    visitor.page.get_by_label("sub-pixel").click()
    expect(visitor.page.locator("#layer-rows input[type=range]")).to_have_attribute("max", "2")
    visitor.move("layer", 0.5, 0)
    assert not visitor.difference("ghs")[1]
    visitor.page.get_by_label("cropped").click()
    expect(visitor.page.locator("#layer-rows input[type=range]")).to_have_attribute("max", "32")
    visitor.move("layer", 9, -20)
    assert not visitor.difference("ghs")[1]


def test_arrow_keys_and_dragging_move_the_picture(visit: Callable[..., Visitor]) -> None:
    """They do on the picture, across its edges too; in a text field and on a slider keys keep their usual meaning."""
    visitor = visit()
    page = visitor.page
    page.locator("#layer-stage .movable").click()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Shift+ArrowUp"):
        page.keyboard.press(key)
    visitor.shows("layer", -7, 2)
    visitor.move("layer", -32, 0)
    page.locator("#layer-stage [tabindex]").focus()
    page.keyboard.press("ArrowUp")
    visitor.shows("layer", 31, 0)  # once around
    visitor.move("layer", 0, 0)
    page.locator("#layer-columns input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    visitor.shows("layer", 0, 1)
    page.locator("#layer-picture input").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    visitor.shows("layer", 0, 1)
    box = page.locator("#layer-stage .movable").bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + box["width"] * 5.2 / 64, middle[1] - box["height"] * 3.1 / 64, steps=4)
    page.mouse.up()
    visitor.shows("layer", -3, 6)
    assert visitor.difference("ghs")[1]


def test_parameters_draw_the_matrix_and_the_functions(visit: Callable[..., Visitor]) -> None:
    """Stride and orders change R and the outputs; a wrong value gets a message, in the panel of GHS too."""
    visitor = visit()
    page = visitor.page
    page.get_by_text("Inside GHS").click()
    caption = page.locator("#layer-inside figcaption").first
    expect(caption).to_contain_text("32 samples from 64 pixels")
    before = page.locator("#layer-inside img").get_attribute("src")
    stride = page.locator("#layer-parameters input[type=number]")
    for _ in range(3):  # a panel that has just been opened can miss an event
        stride.fill("")  # as it is between one number and the next
        stride.fill("4")
        page.wait_for_timeout(5000)
        if "16 samples" in caption.inner_text():
            break
    expect(caption).to_contain_text("16 samples from 64 pixels")
    expect(page.locator('[data-method="lpf"] figcaption').first).to_have_text("output, 16 x 16")
    assert page.locator("#layer-inside img").get_attribute("src") != before
    visitor.shot("layer-inside")
    orders = page.get_by_label("Orders")
    orders.fill("many")
    orders.press("Enter")
    expect(page.locator("#layer-inside .notice")).to_contain_text("`orders` (='many') must be an integer")
    expect(page.locator('[data-method="ghs"] .notice')).to_contain_text("`orders`")
    expect(page.locator('[data-method="max"] .ad b')).to_be_visible()


def test_uploads_good_and_bad(visit: Callable[..., Visitor], server: AppServer, tmp_path: Path) -> None:
    """Pictures of any kind are shown. Other files get a message with their name, without a traceback or a path.

    No file is left in the server's folder.
    """
    visitor = visit()
    good, bad = picture_files(tmp_path)
    message = visitor.page.locator("#layer-message")
    for name, (file, words) in bad.items():
        visitor.upload("layer", file)
        expect(message).to_contain_text(f"{name} {words}")
        said = message.inner_text()
        assert "Traceback" not in said
        assert str(server.cache) not in said
        assert visitor.page.locator("#layer-picture input").input_value() == "camera"
    visitor.shot("layer-bad-upload")
    shown = visitor.page.locator("#layer-stage img")
    for file in good.values():
        last = shown.get_attribute("src") or ""
        visitor.upload("layer", file)
        expect(shown).not_to_have_attribute("src", last)
        expect(message).to_be_hidden()
        assert visitor.page.locator("#layer-picture input").input_value() == "your picture"
    visitor.move("layer", 3, 5)
    assert visitor.difference("ghs")[1]
    assert server.kept() == []
    assert visitor.complaints == []


def test_two_visitors_do_not_see_each_others_pictures(visit: Callable[..., Visitor], tmp_path: Path) -> None:
    """One uploads. The others, who opened the page before or after, see the sample and are offered no upload."""
    first, other = visit(), visit()
    good, _ = picture_files(tmp_path)
    bundled = first.page.locator("#layer-stage img").get_attribute("src") or ""
    first.upload("layer", good["alpha.png"])
    expect(first.page.locator("#layer-picture input")).to_have_value("your picture")
    expect(first.page.locator("#layer-stage img")).not_to_have_attribute("src", bundled)
    mine = first.page.locator("#layer-stage img").get_attribute("src")
    other.move("layer", 1, 1)
    late = visit()
    for visitor in (other, late):
        assert visitor.page.locator("#layer-picture input").input_value() == "camera"
        assert visitor.page.locator("#layer-stage img").get_attribute("src") != mine
        visitor.page.locator("#layer-picture input").click()
        assert "your picture" not in visitor.page.locator("ul[role=listbox]").inner_text()
