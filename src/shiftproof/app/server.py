"""The web server of the page. It listens on the loopback address only."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

HOST = "127.0.0.1"
PORTS = 100  # the number of ports to try


def application(runs: Sequence[Path], data_dir: Path | None, cache: Path) -> ASGIApp:
    """The page as an ASGI application. Uploads are kept in `cache` until they are read."""
    # gradio reads these when it is imported: they turn off telemetry and every request to other hosts
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["GRADIO_ANALYTICS_CACHE_FREQUENCY"] = str(2**31)  # compute no usage statistics after each event
    os.environ["GRADIO_TEMP_DIR"] = str(cache)
    os.environ["HF_HUB_OFFLINE"] = "1"
    import gradio as gr
    from fastapi import FastAPI

    from shiftproof.app import gradio_page, uploads
    from shiftproof.app.networks import find_networks
    from shiftproof.app.request_guard import RequestGuard

    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    page = gradio_page.build(find_networks(runs), data_dir)
    # Instead of gradio's own route: that keeps equal files of all visitors as one, which the first reader deletes.
    server.add_route("/gradio_api/upload", uploads.receive, ["POST"])
    server.state.received = page.upload_file_set  # gradio deletes what nobody reads for an hour
    gr.mount_gradio_app(
        server,
        page,
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
        theme=gradio_page.theme(),
        css=gradio_page.asset("app.css"),
        head=f"<script>{gradio_page.asset('app.js')}</script>",
    )
    return RequestGuard(server, cache, page.fns)


def listen(port: int) -> socket.socket:
    """A socket on `port` of the loopback address, or on the next free port; 0 means any port."""
    if not 0 <= port <= 65535:
        raise ValueError(f"`--port` (={port}) must be from 0 to 65535.")
    for candidate in range(port, min(port + PORTS, 65536)):
        try:
            listening = socket.create_server((HOST, candidate))
        except OSError as error:
            reason = error
        else:  # answers leave at once; asyncio sees to it only for sockets that it opens itself
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listening
    raise OSError(f"no free port from {port} to {candidate}: {reason}. Choose another one with `--port`.")


async def serve(make: Callable[[], ASGIApp], listening: socket.socket, ready: Callable[[uvicorn.Server], None]) -> None:
    """Serve what `make` returns until Ctrl-C, or until `should_exit` of the server that `ready` receives is set.

    The application is made inside the running event loop. Otherwise gradio would start loops of its own.
    """
    app = make()
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready(self)

    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, ws="none", server_header=False)
    await Server(config).serve(sockets=[listening])
