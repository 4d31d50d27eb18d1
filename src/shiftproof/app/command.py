"""`shiftproof app`: a server on this machine, for the browser of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shiftproof.app.guard import Application, Guard

if TYPE_CHECKING:
    import uvicorn

HOST = "127.0.0.1"
PORTS = 100  # tried one after the other
RUNS = (Path("runs"), Path("demo/runs"))  # looked into where nobody names folders


def application(runs: Sequence[Path], data_dir: Path | None, cache: Path) -> Application:
    """The whole page as an ASGI application; `cache` is where uploads lie until they are read.

    gradio is told before it is imported to ask and to tell nobody.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["GRADIO_ANALYTICS_CACHE_FREQUENCY"] = str(2**31)  # no statistics after every event, for nobody
    os.environ["GRADIO_TEMP_DIR"] = str(cache)
    os.environ["HF_HUB_OFFLINE"] = "1"
    import gradio as gr
    from fastapi import FastAPI

    from shiftproof.app import page, uploads
    from shiftproof.app.network import find_networks

    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    gr.mount_gradio_app(
        server,
        page.build(find_networks(runs), data_dir),
        path="/",
        server_name=HOST,
        footer_links=[],
        run_history=False,
        show_error=False,
        max_file_size=uploads.FILE_BYTES,
        ssr_mode=False,
        mcp_server=False,
        enable_monitoring=False,
        app_kwargs={"docs_url": None, "redoc_url": None, "openapi_url": None},
        theme=page.theme(),
        css=page.asset("app.css"),
        head=f"<script>{page.asset('app.js')}</script>",
    )
    return Guard(server)


def listen(port: int) -> socket.socket:
    """A socket on `port` of the loopback address, or on the next that is free; 0 is any."""
    if not 0 <= port <= 65535:
        raise ValueError(f"`port` (={port}) must be from 0 to 65535.")
    for candidate in range(port, min(port + PORTS, 65536)):
        try:
            return socket.create_server((HOST, candidate))
        except OSError as error:
            reason = error
    raise OSError(f"no free port from {port} to {candidate}: {reason}")


async def serve(
    make: Callable[[], Application], listening: socket.socket, ready: Callable[[uvicorn.Server], None]
) -> None:
    """Make an application and serve it until Ctrl-C, or until somebody sets `should_exit` of what `ready` is given.

    It is made here, where an event loop runs: gradio would otherwise leave several of its own behind.
    """
    app = make()
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready(self)

    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, ws="none", server_header=False)
    await Server(config).serve(sockets=[listening])


def run(
    port: int = 7860,
    runs: Sequence[Path] | None = None,
    data_dir: Path | None = None,
    browser: bool = True,
    as_json: bool = False,
) -> int:
    """`shiftproof app`: open the page and keep it open until Ctrl-C."""
    places = [place for place in RUNS if place.is_dir()] if runs is None else list(runs)
    listening = listen(port)
    url = f"http://{HOST}:{listening.getsockname()[1]}"

    def ready(server: object) -> None:
        print(json.dumps({"url": url}) if as_json else f"shiftproof app: {url} (Ctrl-C ends it)", flush=True)
        if browser:
            webbrowser.open(url)

    with listening, tempfile.TemporaryDirectory(prefix="shiftproof-app-", ignore_cleanup_errors=True) as cache:
        asyncio.run(serve(lambda: application(places, data_dir, Path(cache)), listening, ready))
    return 0
