"""The server's port, and the guard in front of the app."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from shiftproof.app import request_guard, server


def test_only_the_paths_of_the_page_are_open() -> None:
    """The paths that the page needs are open, and no others."""
    for path in ("/", "/theme.css", "/assets/index-a1.js", "/static/fonts/x.woff2", "/gradio_api/queue/join"):
        assert request_guard.OPEN.fullmatch(path), path
    for path in (
        "/assets/../x",
        "/static/..",
        "/assets//etc",
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/proxy=x",
        "//",
    ):
        assert not request_guard.OPEN.fullmatch(path), path


def test_the_guard_lets_the_server_start_and_refuses_sockets(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    async def receive() -> Any:
        raise AssertionError

    async def send(message: Any) -> None:
        seen.append((message["type"], message["code"]))

    guarded = request_guard.RequestGuard(app, tmp_path, ())
    asyncio.run(guarded({"type": "lifespan"}, receive, send))
    asyncio.run(guarded({"type": "websocket", "path": "/", "headers": []}, receive, send))
    assert seen == ["lifespan", ("websocket.close", 1008)]


def test_the_next_free_port_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with server.listen(port) as found:
            assert port < found.getsockname()[1] < port + server.PORTS
            assert found.getsockname()[0] == "127.0.0.1"
            assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)  # or each answer waits for 40 ms
        monkeypatch.setattr(server, "PORTS", 1)
        with pytest.raises(OSError, match=f"no free port from {port} to {port}"):
            server.listen(port)
    with pytest.raises(ValueError, match=r"`--port` \(=70000\) must be from 0 to 65535"):
        server.listen(70_000)
