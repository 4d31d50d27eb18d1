"""Who may talk to the server, and about what: the browser of this machine, on the page itself, about the page."""

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
# what the page asks for. gradio has more: it would hand out files, fetch addresses, run ffmpeg, describe its interface
OPEN = re.compile(
    r"/|/(theme\.css|manifest\.json|favicon\.ico)|/(assets|static)(/[\w-][\w.-]*)+"
    r"|/gradio_api/(upload|upload_progress|queue/join|queue/data|heartbeat/\w+)",
    re.ASCII,
)
# the page needs inline code and gradio evaluates its own; nothing comes from, or goes, anywhere else
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


class Guard:
    """ASGI middleware: requests for another host, from a page of another origin, or beyond `OPEN`, get a 403.

    A page elsewhere that makes a name of its own lead here (DNS rebinding) is known by the host it asks for; a page
    elsewhere that sends its visitors' browsers here is known by its origin. Answers carry a policy that keeps the
    browser from asking anybody else.
    """

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name: value.decode("latin1") for name, value in scope["headers"]}
        known = scope["type"] == "http" and OPEN.fullmatch(scope["path"]) is not None
        if not known or not allowed(headers.get(b"host"), headers.get(b"origin")):
            await _refuse(scope, send)
            return

        async def answer(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        await self.app(scope, receive, answer)


def allowed(host: str | None, origin: str | None) -> bool:
    """Whether a request has a loopback host and, where its origin is told, comes from that same host and port.

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
        _ = parts.port  # a port that is none is a ValueError
    except ValueError:
        return None
    return parts.hostname if parts.username is None and not parts.path else None


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    body = b"This page answers to the browser of its own machine only.\n"
    kind = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": [*kind, *HEADERS]})
    await send({"type": "http.response.body", "body": body})
