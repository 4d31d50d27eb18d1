"""A running app with two finished runs, and browsers that visit it."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from helpers.app_client import Client
from helpers.app_visitor import SWITCHES, AppServer, Visitor, finished_run
from shiftproof.app import shift_scores


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    runs = tmp_path_factory.mktemp("runs")
    for method in ("strided", "ghs"):
        finished_run(runs / f"digits-{method}", method)
    (runs / "begun").mkdir()
    (runs / "begun" / "config.json").write_text((runs / "digits-ghs" / "config.json").read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shift_scores, "SHIFTS", 121)  # every third shift each way, to save time
        served = AppServer([runs], tmp_path_factory.mktemp("cache"))
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


@pytest.fixture
def visit(browser: Browser, server: AppServer) -> Iterator[Callable[..., Visitor]]:
    visitors: list[Visitor] = []

    def enter(**options: Any) -> Visitor:
        visitors.append(Visitor(browser, server, **options))
        return visitors[-1]

    yield enter
    for visitor in visitors:
        visitor.context.close()


@pytest.fixture
def client(server: AppServer) -> Iterator[Callable[..., Client]]:
    """Visitors without a browser."""
    clients: list[Client] = []

    def enter(session: str = "mine") -> Client:
        clients.append(Client(server.url, session))
        return clients[-1]

    yield enter
    for entered in clients:
        entered.http.close()
