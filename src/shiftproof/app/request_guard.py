"""Refuses requests that do not come from the page in a browser on this machine."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# The paths that the page uses. gradio has more: they serve files, fetch URLs, run ffmpeg and describe the interface.
OPEN = re.compile(
    r"/|/(theme\.css|manifest\.json|favicon\.ico)|/(assets|static)(/[\w-][\w.-]*)+"
    r"|/gradio_api/(upload|upload_progress|queue/join|queue/data|heartbeat/\w+)",
    re.ASCII,
)
# The page needs inline code, and gradio evaluates its own. Nothing is loaded from, or sent to, any other host.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


class RequestGuard:
    """ASGI middleware: a request for another host, from another origin, or for a path outside `OPEN` gets a 403.

    The host check stops DNS rebinding, where a foreign name resolves to this machine. The origin check stops foreign
    pages that send their visitors' browsers here. Each response carries a content security policy, so that the browser
    contacts no other host.
    """

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name: value.decode("latin1") for name, value in scope["headers"]}
        is_open = scope["type"] == "http" and OPEN.fullmatch(scope["path"]) is not None
        if not is_open or not allowed(headers.get(b"host"), headers.get(b"origin")):
            await _refuse(scope, send)
            return

        async def respond(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        await self.app(scope, receive, respond)


def allowed(host: str | None, origin: str | None) -> bool:
    """Whether the host is a loopback address and the origin, if there is one, is that same host and port.

    >>> allowed("127.0.0.1:7860", None), allowed("127.0.0.1:7860", "http://127.0.0.1:7860")
    (True, True)
    >>> allowed("evil.example:7860", None), allowed("127.0.0.1:7860", "http://evil.example")
    (False, False)
    """
    if host is None or _name(host) not in LOOPBACK:
        return False
    return origin is None or origin.lower() == f"http://{host.lower()}"


def _name(host: str) -> str | None:
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises ValueError if it is not a port
    except ValueError:
        return None
    return parts.hostname if parts.username is None and not parts.path else None


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    body = b"Only a browser on the same machine may open this page.\n"
    about = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": [*about, *HEADERS]})
    await send({"type": "http.response.body", "body": body})
