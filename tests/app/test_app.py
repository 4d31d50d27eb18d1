"""`shiftproof app`, driven in a real browser: what a visitor sees, and what a bad one does not get.

Screenshots go to the folder `$SHIFTPROOF_ARTIFACTS`, or `.artifacts/app`.
"""

import asyncio
import http.client
import io
import json
import os
import queue
import re
import shutil
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright
from torch import nn

from helpers.zoo import timm
from shiftproof.app import command, network, uploads
from shiftproof.models.export import save_model
from shiftproof.training.checkpoint import write_tensors
from shiftproof.training.config import configure
from shiftproof.training.runs import build_model, describe, load_data

ARTIFACTS = Path(os.environ.get("SHIFTPROOF_ARTIFACTS", Path(__file__).parents[2] / ".artifacts" / "app"))
SWITCHES = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
PATIENCE = 180_000  # milliseconds: a limit, not a measurement
expect.set_options(timeout=PATIENCE)


class Server:
    """The app in a thread, and where it is."""

    def __init__(self, runs: list[Path], cache: Path) -> None:
        self.cache = cache
        self.socket = command.listen(0)
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        started: queue.Queue[Any] = queue.Queue()
        made = command.serve(lambda: command.application(runs, None, cache), self.socket, started.put)
        self.thread = threading.Thread(target=asyncio.run, args=[made])
        self.thread.start()
        self.server = started.get(timeout=PATIENCE / 1000)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE / 1000)
        self.socket.close()

    def kept(self) -> list[Path]:
        """Files of the server's folder that hold anything."""
        return [p for p in self.cache.rglob("*") if p.is_file() and p.stat().st_size]

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
        """A request as it is written, without a browser that would tidy it up."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True)
            for name, value in {"Host": f"127.0.0.1:{self.port}", **headers}.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def finished_run(folder: Path, method: str) -> None:
    """The folder of a run as training leaves it, with the weights it began with."""
    config = configure("smoke", method=method, dataset="digits")
    dataset, _, _ = load_data(config)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    write_tensors(folder / "best.safetensors", build_model(config, dataset).state_dict(), describe(config, dataset))
    (folder / "result.json").write_text("{}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    runs = tmp_path_factory.mktemp("runs")
    for method in ("strided", "ghs"):
        finished_run(runs / f"digits-{method}", method)
    (runs / "begun").mkdir()
    (runs / "begun" / "config.json").write_text((runs / "digits-ghs" / "config.json").read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "SHIFTS", 121)  # every third shift each way, for the sake of time
        served = Server([runs], tmp_path_factory.mktemp("cache"))
        yield served
        served.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        pytest.fail("These tests drive a real browser and find no chromium: `make browser` installs it.")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=SWITCHES.split())
        yield started
        started.close()


class Visitor:
    """A page of its own in a context of its own, and everything it asked for and complained about."""

    def __init__(self, browser: Browser, server: Server, **options: Any) -> None:
        options = {"viewport": {"width": 1280, "height": 900}, **options}
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(PATIENCE)
        self.page: Page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        self.page.goto(server.url)
        self.wait("#layer-view .panel")

    def wait(self, selector: str) -> None:
        self.page.wait_for_selector(selector)

    def move(self, tab: str, rows: float, columns: float) -> None:
        for axis, value in (("rows", rows), ("columns", columns)):
            self.page.locator(f"#{tab}-{axis} input[type=number]").fill(str(value))
        self.stands(tab, rows, columns)

    def stands(self, tab: str, rows: float, columns: float) -> None:
        """Wait until the picture stands there."""
        words = "({})".format(", ".join(f"{v:+g}" if v else "0" for v in (rows, columns)))
        expect(self.page.locator(f"#{tab}-stage .where b")).to_have_text(words)

    def difference(self, method: str) -> tuple[str, bool]:
        """What a panel says of AD, and whether it says equal bits."""
        figure = self.page.locator(f'#layer-view [data-method="{method}"] .ad b')
        return figure.inner_text(), figure.get_attribute("data-exact") == "1"

    def upload(self, tab: str, file: Path) -> None:
        with self.page.expect_file_chooser() as chooser:
            self.page.locator(f"#{tab}-upload").click()
        chooser.value.set_files(file)

    def open(self, name: str) -> None:
        self.page.get_by_role("tab", name=name).click()

    def shot(self, name: str) -> None:
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)

    def beyond(self) -> list[str]:
        """What sticks out of the window to the right, except in a table that scrolls by itself."""
        return self.page.evaluate(  # type: ignore[no-any-return]
            """() => [document.documentElement, ...document.querySelectorAll('.gradio-container *')]
            .filter(e => e.checkVisibility() && !e.closest('.wide table'))
            .filter(e => e.scrollWidth > 0 && e.getBoundingClientRect().right > window.innerWidth + 1)
            .map(e => `${e.tagName} ${e.className}`)"""
        )


@pytest.fixture
def visit(browser: Browser, server: Server) -> Iterator[Callable[..., Visitor]]:
    visitors: list[Visitor] = []

    def enter(**options: Any) -> Visitor:
        visitors.append(Visitor(browser, server, **options))
        return visitors[-1]

    yield enter
    for visitor in visitors:
        visitor.context.close()


def test_ghs_stays_and_max_pooling_does_not(visit: Callable[..., Visitor]) -> None:
    """However the picture is moved around, the difference of GHS is zero to the bit; that of max pooling is not."""
    visitor = visit()
    for shift in ((1, 0), (0, -3), (-32, 31)):
        visitor.move("layer", *shift)
        assert visitor.difference("ghs") == ("0.0 (equal bits)", True)
        words, exact = visitor.difference("max")
        assert not exact
        assert float(words) > 1
    visitor.shot("layer-light")
    visitor.page.locator("#layer-back").click()
    visitor.stands("layer", 0, 0)
    assert visitor.difference("max") == ("0.0 (equal bits)", True)  # nothing moved, nothing changed
    assert visitor.complaints == []


def test_a_cropped_and_a_sub_pixel_shift_are_no_circular_ones(visit: Callable[..., Visitor]) -> None:
    """Where pixels are lost or made up the input is another one, and GHS says so."""
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
    """On the picture they do, and around the border; in a text field and on a slider they do what they always did."""
    visitor = visit()
    page = visitor.page
    page.locator("#layer-stage .movable").click()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Shift+ArrowUp"):
        page.keyboard.press(key)
    visitor.stands("layer", -7, 2)
    visitor.move("layer", -32, 0)
    page.locator("#layer-stage [tabindex]").focus()
    page.keyboard.press("ArrowUp")
    visitor.stands("layer", 31, 0)  # once around
    visitor.move("layer", 0, 0)
    page.locator("#layer-columns input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    visitor.stands("layer", 0, 1)
    page.locator("#layer-picture input").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    visitor.stands("layer", 0, 1)
    box = page.locator("#layer-stage .movable").bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + box["width"] * 5.2 / 64, middle[1] - box["height"] * 3.1 / 64, steps=4)
    page.mouse.up()
    visitor.stands("layer", -3, 6)
    assert visitor.difference("ghs")[1]


def test_parameters_draw_the_matrix_and_the_functions(visit: Callable[..., Visitor]) -> None:
    """A stride makes outputs smaller, orders and sigma change R; nonsense is answered in words, in the panel too."""
    visitor = visit()
    page = visitor.page
    page.get_by_text("Inside GHS").click()
    caption = page.locator("#layer-inside figcaption").first
    expect(caption).to_contain_text("32 samples from 64 pixels")
    before = page.locator("#layer-inside img").get_attribute("src")
    stride = page.locator("#layer-parameters input[type=number]")
    for _ in range(3):  # a panel that has just been opened may miss an event
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


def header_of(width: int, height: int) -> bytes:
    """A PNG that says it is that large, and has next to nothing inside."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(b"\0" * 64))
        + chunk(b"IEND", b"")
    )


def pictures(folder: Path) -> tuple[dict[str, Path], dict[str, tuple[Path, str]]]:
    """Files of every kind that people hand in: those that are shown, and those that are answered in words."""
    grey = (np.linspace(0, 1, 48 * 80).reshape(48, 80) * 255).astype(np.uint8)
    rgb = np.stack([grey, grey[::-1], grey[:, ::-1]], -1)
    good = {
        "cmyk.jpg": Image.fromarray(rgb).convert("CMYK"),
        "sixteen.png": Image.fromarray(grey.astype(np.uint16) * 257),
        "alpha.png": Image.fromarray(np.dstack([rgb, grey])),
    }
    for name, picture in good.items():
        picture.save(folder / name)
    frames = [Image.fromarray(np.roll(grey, 8 * k, 1)) for k in range(1, 4)]
    frames[0].save(folder / "animated.gif", save_all=True, append_images=frames[1:])
    (folder / "words.png").write_text("not an image, whatever its name says")
    (folder / "empty.png").write_bytes(b"")
    (folder / "huge.png").write_bytes(header_of(10_000, 10_000))
    (folder / "giant.png").write_bytes(header_of(60_000, 60_000))
    whole = io.BytesIO()
    Image.fromarray(rgb).save(whole, "PNG")
    (folder / "broken.png").write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
    bad = {
        "words.png": "is not an image that Pillow can read",
        "empty.png": "is empty",
        "huge.png": "has 100 megapixels",
        "giant.png": "has far too many megapixels",
        "broken.png": "is not an image that Pillow can read",
    }
    return (
        {name: folder / name for name in (*good, "animated.gif")},
        {name: (folder / name, words) for name, words in bad.items()},
    )


def test_uploads_good_and_bad(visit: Callable[..., Visitor], server: Server, tmp_path: Path) -> None:
    """A picture of any kind is shown; anything else gets a sentence with its name, no trace of the code or the disk.

    Either way nothing of it is left in the server's folder.
    """
    visitor = visit()
    good, bad = pictures(tmp_path)
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
    """One uploads; the other, who came before or comes after, sees the bundled picture and is offered no other."""
    first, other = visit(), visit()
    good, _ = pictures(tmp_path)
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


def test_the_network_tab_finds_the_worst_shift(visit: Callable[..., Visitor]) -> None:
    """One click: the strided network changes its answer there, and no score of GHS moves anywhere."""
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
    assert ghs.locator(".bars rect").count() == 11  # the answer and its probability for each shift of the path
    assert len(set(_heights(ghs))) == 1
    assert len(set(_heights(strided))) > 1
    visitor.shot("network-dark")
    page.get_by_label("diagonal").click()
    expect(strided.locator("figcaption").first).to_contain_text("along the diagonal")
    drawn = strided.locator(".map")
    box = drawn.bounding_box()
    assert box is not None
    drawn.click(position={"x": box["width"] * 7.5 / 11, "y": box["height"] * 3.5 / 11})
    visitor.stands("network", -6, 6)
    page.locator("#network-back").click()
    visitor.stands("network", 0, 0)
    assert "the run is not finished" in page.locator(".gradio-container").inner_text()
    assert visitor.complaints == []


def _heights(panel: Any) -> list[str]:
    return [r.get_attribute("height") or "" for r in panel.locator(".bars rect").all()]


def test_networks_of_runs_and_pictures_of_ones_own(visit: Callable[..., Visitor], tmp_path: Path) -> None:
    """The networks of finished runs are there with test images of their data; an upload is fitted to their size."""
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
    good, bad = pictures(tmp_path)
    visitor.upload("network", bad["words.png"][0])
    expect(page.locator("#network-message")).to_contain_text("is not an image")
    was = page.locator("#network-stage img").get_attribute("src") or ""
    visitor.upload("network", good["cmyk.jpg"])
    expect(page.locator("#network-stage img")).not_to_have_attribute("src", was)
    expect(ghs.locator(".ad b")).to_have_text("0.0 (equal bits)")
    page.locator("#network-stage .movable").click()
    page.keyboard.press("ArrowDown")
    visitor.stands("network", 1, 0)


def test_your_model_from_a_file(visit: Callable[..., Visitor], server: Server, tmp_path: Path) -> None:
    """An exported program is measured, with its heat map; a file or a picture that is none gets words."""
    visitor = visit()
    page = visitor.page
    net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten()).eval()
    save_model(net, torch.rand(2, 3, 24, 24), tmp_path / "net.pt2")
    (tmp_path / "bad.onnx").write_bytes(b"nothing of the kind")
    good, bad = pictures(tmp_path)
    view = page.locator("#own-view")
    visitor.open("Your model")
    page.locator("#own-start").click()
    expect(view).to_contain_text("Choose a network first")
    for model, picture, words in (
        ("bad.onnx", good["alpha.png"], "bad.onnx: no ONNX network"),
        ("net.pt2", bad["words.png"][0], "words.png is not an image"),
        ("empty.png", good["alpha.png"], "must be an exported program"),
    ):
        _hand_in(page, "own-model", tmp_path / model)
        _hand_in(page, "own-pictures", picture)
        page.locator("#own-start").click()
        expect(view.locator(".notice")).to_contain_text(words)
        assert str(server.cache) not in view.inner_text()
    _hand_in(page, "own-model", tmp_path / "net.pt2")
    _hand_in(page, "own-pictures", good["sixteen.png"])
    page.locator("#own-start").click()
    visitor.wait("#own-view .measure")
    assert "81 of 576" in view.inner_text()
    assert view.locator("figure picture img").count() == 1
    assert "net.pt2" in view.inner_text()
    visitor.shot("own-file")
    assert server.kept() == []
    assert visitor.complaints == []


def _hand_in(page: Page, where: str, file: Path) -> None:
    """Hand in a file of another name than the one before, and wait until it is there."""
    page.locator(f"#{where} input[type=file]").set_input_files(file)
    expect(page.locator(f"#{where}")).to_contain_text(file.stem)


def test_your_model_before_and_after_conversion(visit: Callable[..., Visitor], tmp_path: Path) -> None:
    """A network of timm's is measured, converted, and measured again: after it, not a bit changes."""
    visitor = visit()
    page = visitor.page
    good, _ = pictures(tmp_path)
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
    page.get_by_label("number input for Shifts up to").fill("1")
    page.get_by_label("number input for Pixels on each side, if").fill("32")
    _hand_in(page, "own-pictures", good["animated.gif"])
    page.locator("#own-start").click()
    visitor.wait("#own-view .halves")
    before, after = (half.inner_text() for half in page.locator("#own-view .half").all())
    assert "bit for bit" not in before
    assert "the same output for each of the 9 circular shifts tried, bit for bit" in after
    visitor.shot("own-timm")
    assert visitor.complaints == []


def test_narrow_windows_and_dark_ones(visit: Callable[..., Visitor]) -> None:
    """At 375 pixels nothing sticks out to the side; a system that is dark gets a dark page."""
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


def test_nothing_is_asked_of_anybody_else(visit: Callable[..., Visitor], server: Server) -> None:
    """Every request of all three tabs goes to the server on this machine; a page that tried another could not."""
    visitor = visit()
    visitor.open("Your model")
    outside = [url for url in visitor.requests if not url.startswith((server.url, "data:", "blob:"))]
    assert len(visitor.requests) > 10
    assert outside == []
    with pytest.raises(Error, match="Failed to fetch"):
        visitor.page.evaluate("fetch('http://127.0.0.1:9/')")
    assert any("Content Security Policy" in words for words in visitor.complaints)


def test_foreign_hosts_and_origins_are_refused(server: Server) -> None:
    """A name that somebody made lead here, and a page elsewhere that sends browsers here, get nothing."""
    here = f"127.0.0.1:{server.port}"
    status, page = server.ask("/")
    assert status == 200
    assert b"layer-stage" in page
    assert server.ask("/", Host=f"localhost:{server.port}")[0] == 200
    assert server.ask("/theme.css", Origin=f"http://{here}")[0] == 200
    names = ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "0.0.0.0", "me@127.0.0.1")
    for host in (*names, "", "[", "127.0.0.1:x", "127.0.0.1/"):
        status, body = server.ask("/", Host=host)
        assert status in (400, 403), host
        assert b"layer-stage" not in body
    origins = ("http://evil.example", "null", f"https://{here}", "http://127.0.0.1:1", f"http://{here}.evil.example")
    for origin in origins:
        for path, method in (("/", "GET"), ("/gradio_api/upload", "POST"), ("/gradio_api/queue/join", "POST")):
            assert server.ask(path, method, Origin=origin)[0] == 403


def test_paths_lead_to_no_other_file(server: Server, tmp_path: Path) -> None:
    """No path, however it is written, leads to a file of the disk; and nothing makes the server ask others."""
    secret = tmp_path / "secret.txt"
    secret.write_text("for nobody")
    (server.cache / "left.txt").write_text("for nobody")
    up = "../" * 12
    targets = [
        str(secret),
        f"{up}{str(secret)[1:]}",
        f"{server.cache}/{up}{str(secret)[1:]}",
        f"{server.cache}/left.txt",
    ]
    routes = (
        "/gradio_api/file=",
        "/file=",
        "/gradio_api/file/",
        "/static/",
        "/assets/",
        "/svelte/",
        "/gradio_api/stream/",
    )
    for target in targets:
        for route in routes:
            for written in (target, target.replace("/", "%2f"), target.replace("..", "%2e%2e")):
                status, body = server.ask(route + written)
                assert status >= 400, route + written
                assert b"for nobody" not in body
    (server.cache / "left.txt").unlink()
    for path in ("file=http://127.0.0.1:9/", "proxy=http://127.0.0.1:9/", "info", "process_recording", "deep_link"):
        assert server.ask(f"/gradio_api/{path}")[0] == 403
    for path in ("/config", "/monitoring", "/docs", "/openapi.json", "/login"):
        assert server.ask(path)[0] == 403


def test_the_server_takes_no_file_beyond_its_limit(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture that is too heavy gets words; the server itself refuses what is beyond all limits."""
    monkeypatch.setattr(uploads, "PICTURE_BYTES", 100)
    good, _ = pictures(tmp_path)
    with pytest.raises(ValueError, match=r"alpha.png has .* MiB; pictures may have"):
        uploads.take_picture(good["alpha.png"])
    assert f'"max_file_size":{uploads.FILE_BYTES}'.encode() in server.ask("/")[1]
