"""Who sends a request. Each browser is one visitor, whose files and sessions are of no use to any other.

gradio reads any file, and fetches any URL, that an event names: it checks paths only in apps that it starts itself, and
then accepts the uploads of everybody. So events are checked here before gradio sees them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.types import Scope

COOKIE = "shiftproof-visitor"
FIELDS = ("data", "event_data", "fn_index", "trigger_id")  # of an event, besides the name of its session
_SECRET = re.compile(r"[\w-]{43}", re.ASCII)


def new_cookie() -> str:
    """The `Set-Cookie` header that makes a browser a visitor until it is closed."""
    return f"{COOKIE}={secrets.token_urlsafe(32)}; Path=/; HttpOnly; SameSite=Lax"


def find_visitor(cookies: Mapping[str, str], address: str, uploads: Path) -> Visitor | None:
    """The visitor with these cookies; None if there is no such cookie."""
    secret = cookies.get(COOKIE, "")
    return Visitor(secret, address, uploads) if _SECRET.fullmatch(secret) else None


@dataclass(frozen=True)
class Visitor:
    """The secret in a browser's cookie, the address of the page, and the folder of all visitors' uploads."""

    secret: str
    address: str
    uploads: Path

    @property
    def folder(self) -> Path:
        """The folder of this visitor's uploads."""
        return self.uploads / self.own("uploads")

    def own(self, name: str) -> str:
        """A name that nobody can make without the visitor's cookie."""
        return hashlib.sha256(f"{self.secret} {name}".encode()).hexdigest()

    def claim(self, scope: Scope) -> None:
        """Make the sessions and uploads that a request names the visitor's own, and store `folder` in its state."""
        head, beat, session = scope["path"].partition("/heartbeat/")
        scope["path"] = head + beat + (self.own(session) if beat else "")
        query = parse_qsl(scope["query_string"].decode("latin1"), keep_blank_values=True)
        scope["query_string"] = urlencode([(key, self.own(value)) for key, value in query]).encode()
        scope["state"] = {**scope.get("state", {}), "folder": self.folder}

    def event(self, body: bytes, numbers: Collection[int]) -> bytes:
        """The body of an event with a session and files of this visitor only.

        A file of anybody else, a file by URL, and a body that is no event of the page are errors.
        """
        event = json.loads(body)
        session = event.get("session_hash") if isinstance(event, dict) else None
        if not isinstance(session, str) or event.get("fn_index") not in numbers:
            raise ValueError("This is no event of the page.")
        kept = {field: self._checked(event[field]) for field in FIELDS if field in event}
        return json.dumps({**kept, "session_hash": self.own(session)}).encode()

    def _checked(self, value: Any) -> Any:
        """A JSON value with each file in it reduced to its path: gradio uses nothing that was not checked."""
        if isinstance(value, list):
            return [self._checked(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "path" not in value and "url" not in value:
            return {key: self._checked(item) for key, item in value.items()}
        path, url = value.get("path"), value.get("url")
        if not self._is_own(path) or (url is not None and not self._is_local(url)):
            raise PermissionError("Only files that you uploaded yourself can be used.")
        return {"path": path, "meta": {"_type": "gradio.FileData"}}

    def _is_own(self, path: Any) -> bool:
        """Whether a path leads into the visitor's folder, with neither links nor `..` on the way."""
        return isinstance(path, str) and path.startswith(f"{self.folder}{os.sep}") and os.path.realpath(path) == path

    def _is_local(self, url: Any) -> bool:
        """Whether a URL is the address that the page gives to an upload. The server answers no such address."""
        return isinstance(url, str) and url.startswith(f"{self.address}/gradio_api/file=")
