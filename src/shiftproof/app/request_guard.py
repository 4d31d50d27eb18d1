"""Refuses requests that do not come from the page in a browser on this machine."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shiftproof.app.visitors import Visitor, find_visitor, new_cookie

LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)
# The paths that the page uses. gradio has more: they serve files, fetch URLs, run ffmpeg and describe the interface.
API, JOIN = "/gradio_api/", "/gradio_api/queue/join"
OPEN = re.compile(
    r"/|/(theme\.css|manifest\.json|favicon\.ico)|/(assets|static)(/[\w-][\w.-]*)+"
    r"|/gradio_api/(upload|upload_progress|queue/join|queue/data|heartbeat/\w+)",
    re.ASCII,
)
EVENT_BYTES = 2**16  # the values of a tab's controls; uploads do not come this way
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
    contacts no other host. Events reach gradio with the files and the session of the visitor who sends them, see
    `visitors`; `events` has their numbers.
    """

    def __init__(self, app: ASGIApp, uploads: Path, events: Collection[int]) -> None:
        self.app, self.uploads, self.events = app, uploads.resolve(), tuple(events)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = list(HEADERS)

        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                busy = [(b"retry-after", b"1")] if message["status"] == 503 else []
                message["headers"] = [*message.get("headers", []), *headers, *busy]
            await send(message)

        try:
            visitor = self._visitor(Request(scope))
            if not scope["path"].startswith(API):
                scope["query_string"] = b""  # by which gradio chooses other pages
                if visitor is None:
                    headers.append((b"set-cookie", new_cookie().encode()))
            elif visitor is None:
                raise PermissionError("Reload the page, and let the browser keep its cookie.")
            else:
                visitor.claim(scope)
                if scope["path"] == JOIN:
                    receive = _again(visitor.event(await _body(receive), self.events), receive)
        except (ValueError, RecursionError, PermissionError) as error:
            status = 403 if isinstance(error, PermissionError) else 400
            await PlainTextResponse(f"{error}\n", status)(scope, receive, respond)
        else:
            await self.app(scope, receive, respond)

    def _visitor(self, request: Request) -> Visitor | None:
        host, origin = request.headers.get("host"), request.headers.get("origin")
        if not OPEN.fullmatch(request.scope["path"]) or not allowed(host, origin):
            raise PermissionError("Only a browser on the same machine may open this page.")
        return find_visitor(request.cookies, f"http://{host}", self.uploads)


def allowed(host: str | None, origin: str | None) -> bool:
    """Whether the host is a loopback address and the origin, if there is one, is that same host and port.

    >>> allowed("127.0.0.1:7860", None), allowed("127.0.0.1:7860", "http://127.0.0.1:7860")
    (True, True)
    >>> allowed("evil.example:7860", None), allowed("127.0.0.1:7860", "http://evil.example")
    (False, False)
    """
    is_here = host is not None and LOOPBACK.fullmatch(host) is not None
    return is_here and (origin is None or origin.lower() == f"http://{host}".lower())


async def _body(receive: Receive) -> bytes:
    """The body of a request; one that is too long raises `ValueError`."""
    body, more = b"", True
    while more:
        message = await receive()  # without a body if the client has left
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > EVENT_BYTES:
            raise ValueError(f"An event may have up to {EVENT_BYTES:,} bytes.")
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    """A request whose body is read already: first the body, then what else the client sends."""
    bodies = [body]

    async def read() -> Message:
        return {"type": "http.request", "body": bodies.pop()} if bodies else await receive()

    return read
