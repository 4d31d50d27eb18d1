"""`shiftproof app`: it opens the page, and Ctrl-C leaves nothing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shiftproof.app import server
from shiftproof.commands.main import main


def test_the_command_opens_the_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The address is printed, and opened unless `--no-browser` is given."""
    opened: list[str] = []
    asked: list[Any] = []

    async def serve(make: Any, listening: Any, ready: Any) -> None:
        make()
        ready(None)

    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(server, "application", lambda *a: asked.append(a))
    monkeypatch.setattr(server, "serve", serve)
    assert main(["app", "--port", "0"]) == 0
    assert opened[0] in capsys.readouterr().out
    assert main(["app", "--port", "0", "--no-browser", "--json", "--runs", "here"]) == 0
    assert json.loads(capsys.readouterr().out)["url"].startswith("http://127.0.0.1:")
    assert len(opened) == 1
    assert asked[1][0] == [Path("here")]


def test_without_gradio_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert main(["app", "--port", "0", "--no-browser"]) == 2
    assert "`shiftproof app` needs gradio: install it with `pip install 'shiftproof[app]'`" in capsys.readouterr().err


def test_ctrl_c_ends_the_server_and_leaves_nothing(tmp_path: Path) -> None:
    """The exit code is 130, and the folder of uploads is gone."""
    code = "import sys; from shiftproof.commands.main import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "app", "--port", "0", "--no-browser", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # the caller of the tests may ignore it
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["url"].startswith("http://127.0.0.1:")
    assert any(p.name.startswith("shiftproof-app-") for p in tmp_path.iterdir())
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 130
    assert errors == "shiftproof: stopped.\n"
    assert not any(p.name.startswith("shiftproof-app-") for p in tmp_path.iterdir())
