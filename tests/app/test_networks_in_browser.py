"""The tabs Network and Your model, driven in a real browser."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Error, expect
from torch import nn

from helpers.app_pictures import picture_files
from helpers.app_visitor import AppServer, Visitor, choose_file
from helpers.zoo import timm
from shiftproof.models.export import save_model


def test_the_network_tab_finds_the_worst_shift(visit: Callable[..., Visitor]) -> None:
    """One click shows where the strided network changes its answer; the scores of GHS never change."""
    visitor = visit(color_scheme="dark")
    page = visitor.page
    visitor.open("Network")
    visitor.wait('#network-view [data-network="ghs"]')
    strided, ghs = (page.locator(f'[data-network="{name}"]') for name in ("strided", "ghs"))
    expect(ghs.locator(".ad b")).to_have_text("0.0 (equal bits)")
    assert float(strided.locator(".ad b").inner_text()) > 0.1
    before = [n.locator(".answer b").inner_text() for n in (strided, ghs)]
    page.locator("#network-worst").click()
    expect(strided.locator(".answer .soft")).to_have_text(f"was {before[0]}")
    assert ghs.locator(".answer b").inner_text() == before[1]
    assert ghs.locator(".bars rect").count() == 11  # one bar for each shift on the path
    assert len(set(_heights(ghs))) == 1
    assert len(set(_heights(strided))) > 1
    visitor.shot("network-dark")
    page.get_by_label("diagonal").click()
    expect(strided.locator("figcaption").first).to_contain_text("along the diagonal")
    drawn = strided.locator(".map")
    box = drawn.bounding_box()
    assert box is not None
    drawn.click(position={"x": box["width"] * 7.5 / 11, "y": box["height"] * 3.5 / 11})
    visitor.shows("network", -6, 6)
    page.locator("#network-back").click()
    visitor.shows("network", 0, 0)
    assert "the run is not finished" in page.locator(".gradio-container").inner_text()
    assert visitor.complaints == []


def _heights(panel: Any) -> list[str]:
    return [r.get_attribute("height") or "" for r in panel.locator(".bars rect").all()]


def test_networks_of_runs_and_uploaded_pictures(visit: Callable[..., Visitor], tmp_path: Path) -> None:
    """Networks of finished runs come with test images of their data set; an upload is scaled to their size."""
    visitor = visit()
    page = visitor.page
    visitor.open("Network")
    visitor.wait("#network-view .panel")
    page.locator("#network-family input").click()
    page.get_by_role("option", name=re.compile("digits")).click()
    ghs = page.locator('[data-network="ghs (digits-ghs)"]')
    expect(ghs.locator(".ad b")).to_have_text("0.0 (equal bits)")
    assert "test image" in page.locator("#network-picture input").input_value()
    assert (
        ghs.locator(".bars rect").count()
        == int(page.locator("#network-columns input[type=range]").get_attribute("max") or 0) * 2 + 2
    )
    good, bad = picture_files(tmp_path)
    visitor.upload("network", bad["words.png"][0])
    expect(page.locator("#network-message")).to_contain_text("is not an image")
    was = page.locator("#network-stage img").get_attribute("src") or ""
    visitor.upload("network", good["cmyk.jpg"])
    expect(page.locator("#network-stage img")).not_to_have_attribute("src", was)
    expect(ghs.locator(".ad b")).to_have_text("0.0 (equal bits)")
    page.locator("#network-stage .movable").click()
    page.keyboard.press("ArrowDown")
    visitor.shows("network", 1, 0)


def test_your_model_from_a_file(visit: Callable[..., Visitor], server: AppServer, tmp_path: Path) -> None:
    """An exported program is measured, with its heat map; a bad file or picture gets a message."""
    visitor = visit()
    page = visitor.page
    net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten()).eval()
    save_model(net, torch.rand(2, 3, 24, 24), tmp_path / "net.pt2")
    (tmp_path / "bad.onnx").write_bytes(b"nothing of the kind")
    good, bad = picture_files(tmp_path)
    view = page.locator("#own-view")
    visitor.open("Your model")
    page.locator("#own-start").click()
    expect(view).to_contain_text("Choose a network first")
    for model, picture, words in (
        ("bad.onnx", good["alpha.png"], "bad.onnx: no ONNX network"),
        ("net.pt2", bad["words.png"][0], "words.png is not an image"),
        ("empty.png", good["alpha.png"], "must be an exported program"),
    ):
        choose_file(page, "own-model", tmp_path / model)
        choose_file(page, "own-pictures", picture)
        page.locator("#own-start").click()
        expect(view.locator(".notice")).to_contain_text(words)
        assert str(server.cache) not in view.inner_text()
    choose_file(page, "own-model", tmp_path / "net.pt2")
    choose_file(page, "own-pictures", good["sixteen.png"])
    page.locator("#own-start").click()
    visitor.wait("#own-view .measure")
    assert "81 of 576" in view.inner_text()
    assert view.locator("figure picture img").count() == 1
    assert "net.pt2" in view.inner_text()
    visitor.shot("own-file")
    assert server.kept() == []
    assert visitor.complaints == []


def test_your_model_before_and_after_conversion(visit: Callable[..., Visitor], tmp_path: Path) -> None:
    """A network of timm is measured, converted, and measured again: then no bit changes."""
    visitor = visit()
    page = visitor.page
    good, _ = picture_files(tmp_path)
    visitor.open("Your model")
    page.get_by_label("timm, by name").click()
    name = page.locator("#own-name input, #own-name textarea")
    for wrong, words in (("os:system", "must be `timm:NAME`"), ("timm:resnet17", "timm knows no network")):
        name.fill(wrong)
        page.locator("#own-start").click()
        expect(page.locator("#own-view .notice")).to_contain_text(words)
    assert "resnet10t" in timm.list_models()
    name.fill("timm:resnet10t")
    page.get_by_text("How to measure").click()
    page.get_by_label("number input for Largest shift in pixels").fill("1")
    page.get_by_label("number input for Size in pixels, if").fill("32")
    choose_file(page, "own-pictures", good["animated.gif"])
    page.locator("#own-start").click()
    visitor.wait("#own-view .halves")
    before, after = (half.inner_text() for half in page.locator("#own-view .half").all())
    assert "bit for bit" not in before
    assert "the same output for each of the 9 circular shifts tried, bit for bit" in after
    visitor.shot("own-timm")
    assert visitor.complaints == []


def test_narrow_windows_and_dark_ones(visit: Callable[..., Visitor]) -> None:
    """At 375 pixels nothing overflows to the side; a dark system gets a dark page."""
    visitor = visit(viewport={"width": 375, "height": 780}, color_scheme="dark")
    visitor.move("layer", 2, 3)
    visitor.page.get_by_text("Inside GHS").click()
    visitor.wait("#layer-inside svg")
    for name, selector in (
        ("Layer", "#layer-view .panel"),
        ("Network", "#network-view .panel"),
        ("Your model", "#own-start"),
    ):
        visitor.open(name)
        visitor.wait(selector)
        assert visitor.beyond() == [], name
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 375
        visitor.shot(f"narrow-{name.split()[-1].lower()}")
    red, green, blue = map(
        int, re.findall(r"\d+", visitor.page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]
    )
    assert max(red, green, blue) < 60
    light = visit()
    assert "255, 255, 255" in light.page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_no_request_leaves_the_machine(visit: Callable[..., Visitor], server: AppServer) -> None:
    """Every request of the page goes to its server; the browser refuses any other."""
    visitor = visit()
    visitor.open("Your model")
    outside = [url for url in visitor.requests if not url.startswith((server.url, "data:", "blob:"))]
    assert len(visitor.requests) > 10
    assert outside == []
    with pytest.raises(Error, match="Failed to fetch"):
        visitor.page.evaluate("fetch('http://127.0.0.1:9/')")
    assert any("Content Security Policy" in words for words in visitor.complaints)
