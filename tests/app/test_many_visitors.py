"""Many visitors at the same time: all are served, none gets an error or what is another's."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from helpers.app_client import Client
from helpers.app_pictures import picture_files
from helpers.app_visitor import AppServer
from shiftproof.app import gradio_page


def visit_together(server: AppServer, visitors: int, rounds: int, visit: Callable[[Client], object]) -> list[object]:
    """What each of many visitors gets; in each round all begin at the same moment."""
    ready = threading.Barrier(visitors)

    def one(_: int) -> list[object]:
        ready.wait(180)
        with contextlib.closing((client := Client(server.url)).http):
            return [visit(client) for _ in range(rounds) if ready.wait(180) >= 0]

    with ThreadPoolExecutor(visitors) as pool:
        return [answer for answers in pool.map(one, range(visitors)) for answer in answers]


@pytest.mark.parametrize(("visitors", "rounds"), [(48, 1), pytest.param(200, 2, marks=pytest.mark.slow)])
def test_all_visitors_are_served(server: AppServer, tmp_path: Path, visitors: int, rounds: int) -> None:
    """Each uploads the same picture and sees the same as all others, also of methods with random weights."""
    good, _ = picture_files(tmp_path)
    content = good["alpha.png"].read_bytes()

    def visit(client: Client) -> object:
        number = client.find("receive")
        places = [client.components[k]["props"].get("label") for k in client.events[number]["inputs"]]
        done = client.ask(
            "receive", client.upload(content), **{f"_{places.index('Methods')}": ["max", "ghs", "lps", "lpf-adaptive"]}
        )
        assert done["success"], done
        message, stage, panels = (part for part in done["output"]["data"][2:])
        assert 'role="alert"' not in panels
        return str(message), stage, panels

    answers = Counter(visit_together(server, visitors, rounds, visit))
    assert list(answers.values()) == [visitors * rounds]
    assert server.kept() == []


@pytest.mark.parametrize("visitors", [24, pytest.param(200, marks=pytest.mark.slow)])
def test_a_full_queue_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visitors: int) -> None:
    """Whoever comes too late gets a 503 that says when to try again, and no other error; later all are served."""
    monkeypatch.setattr(gradio_page, "WAITING", 4)
    server = AppServer([], tmp_path)
    seen: Counter[int] = Counter()

    def visit(client: Client) -> object:
        number = client.find("show")
        while (answer := client.join(number, client.values(number))).status_code != 200:
            seen[answer.status_code] += 1
            assert "Queue is full" in answer.text
            time.sleep(int(answer.headers["retry-after"]))
        return client.outcome()["success"]

    try:
        assert visit_together(server, visitors, 1, visit) == [True] * visitors
    finally:
        server.stop()
    assert set(seen) == {503}
