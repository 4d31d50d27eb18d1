"""A visitor of the app without a browser: it sends what it likes."""

import json
import re
from typing import Any

import httpx


class Client:
    """A visitor with a cookie of its own. `events` and `components` are those of the page, by number."""

    def __init__(self, url: str, session: str = "mine") -> None:
        self.http = httpx.Client(base_url=url, timeout=180, trust_env=False)
        self.session = session
        self.messages: list[dict[str, Any]] = []
        page = self.http.get("/").text
        found = re.search(r"window.gradio_config = (\{.*?\});</script>", page, re.DOTALL)
        assert found is not None
        config = json.loads(found[1])
        self.events = {event["id"]: event for event in config["dependencies"]}
        self.components = {part["id"]: part for part in config["components"]}

    def find(self, name: str) -> int:
        """The number of the event that calls a function."""
        return int(next(number for number, event in self.events.items() if event["api_name"] == name))

    def values(self, number: int) -> list[Any]:
        """What the page sends with an event at first."""
        return [self.components[k]["props"].get("value") for k in self.events[number]["inputs"]]

    def upload(self, content: bytes, name: str = "a.png") -> str:
        """The path that the server gives to an upload."""
        answer = self.http.post("/gradio_api/upload", files={"files": (name, content)})
        assert answer.status_code == 200, answer.text
        (path,) = answer.json()
        return str(path)

    def join(self, number: int, values: list[Any], **others: Any) -> httpx.Response:
        """Send an event."""
        body = {"fn_index": number, "data": values, "session_hash": self.session, **others}
        return self.http.post("/gradio_api/queue/join", json=body)

    def outcome(self) -> dict[str, Any]:
        """How the only event of the session ended."""
        text = self.http.get("/gradio_api/queue/data", params={"session_hash": self.session}).text
        self.messages = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:")]
        return next(message for message in self.messages if message["msg"] == "process_completed")

    def ask(self, name: str, file: Any = None, **changes: Any) -> dict[str, Any]:
        """Send an event with its first values, but for a file and the `changes` by place, and wait for its end."""
        number = self.find(name)
        values = self.values(number)
        for place, value in changes.items():
            values[int(place[1:])] = value
        if file is not None:
            values[0] = as_file(file)
        answer = self.join(number, values)
        assert answer.status_code == 200, answer.text
        return self.outcome()


def as_file(path: Any, **others: Any) -> dict[str, Any]:
    """A file as the page sends it."""
    return {"path": path, "meta": {"_type": "gradio.FileData"}, **others}
