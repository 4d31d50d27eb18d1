"""The app in a thread, and a browser page that visits it.

Screenshots go to the folder `$SHIFTPROOF_ARTIFACTS`, or `.artifacts/app`.
"""

import asyncio
import http.client
import json
import os
import queue
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from shiftproof.app import server
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


class AppServer:
    """The app in a thread, and its address."""

    def __init__(self, runs: list[Path], cache: Path) -> None:
        self.cache = cache
        self.socket = server.listen(0)
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        started: queue.Queue[Any] = queue.Queue()
        made = server.serve(lambda: server.application(runs, None, cache), self.socket, started.put)
        self.thread = threading.Thread(target=asyncio.run, args=[made])
        self.thread.start()
        self.server = started.get(timeout=PATIENCE / 1000)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE / 1000)
        self.socket.close()

    def kept(self) -> list[Path]:
        """Files in the server's folder that are not empty."""
        return [p for p in self.cache.rglob("*") if p.is_file() and p.stat().st_size]

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
        """Send a request exactly as given; a browser would normalise it."""
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
    """Write the folder of a finished run, with untrained weights."""
    config = configure("smoke", method=method, dataset="digits")
    dataset, _, _ = load_data(config)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    write_tensors(folder / "best.safetensors", build_model(config, dataset).state_dict(), describe(config, dataset))
    (folder / "result.json").write_text("{}")


class Visitor:
    """A page in its own browser context, with its requests and its errors."""

    def __init__(self, browser: Browser, server: AppServer, **options: Any) -> None:
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
        self.shows(tab, rows, columns)

    def shows(self, tab: str, rows: float, columns: float) -> None:
        """Wait until the page shows this shift."""
        words = "({})".format(", ".join(f"{v:+g}" if v else "0" for v in (rows, columns)))
        expect(self.page.locator(f"#{tab}-stage .where b")).to_have_text(words)

    def difference(self, method: str) -> tuple[str, bool]:
        """The AD that a panel shows, and whether it says equal bits."""
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
        """Elements beyond the right edge of the window, except in tables that scroll."""
        return self.page.evaluate(  # type: ignore[no-any-return]
            """() => [document.documentElement, ...document.querySelectorAll('.gradio-container *')]
            .filter(e => e.checkVisibility() && !e.closest('.wide table'))
            .filter(e => e.scrollWidth > 0 && e.getBoundingClientRect().right > window.innerWidth + 1)
            .map(e => `${e.tagName} ${e.className}`)"""
        )


def choose_file(page: Page, where: str, file: Path) -> None:
    """Upload a file with another name than the last one, and wait until it is listed."""
    page.locator(f"#{where} input[type=file]").set_input_files(file)
    expect(page.locator(f"#{where}")).to_contain_text(file.stem)
