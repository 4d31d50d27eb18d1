"""No request makes the app read, copy or fetch anything but what its visitor has uploaded."""

import io
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from helpers.app_client import Client, as_file
from helpers.app_visitor import AppServer
from shiftproof.app.request_guard import EVENT_BYTES

_watched: list[str] = []  # a name that is watched for
_opened: list[str] = []


def _note(event: str, args: tuple[Any, ...]) -> None:
    if _watched and event == "open" and _watched[0] in str(args[0]):
        _opened.append(str(args[0]))


@pytest.fixture(scope="module", autouse=True)
def watch() -> None:
    sys.addaudithook(_note)  # for good: a hook cannot be removed


@pytest.fixture(autouse=True)
def unwatched() -> Iterator[None]:
    yield
    _watched.clear()
    _opened.clear()


def picture(shade: int = 0) -> bytes:
    whole = io.BytesIO()
    Image.new("RGB", (8, 8), (shade, 40, 90)).save(whole, "PNG")
    return whole.getvalue()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A picture that nobody but its owner may read."""
    folder = tmp_path / "watched"
    folder.mkdir(mode=0o700)
    (folder / "secret.png").write_bytes(picture())
    return folder / "secret.png"


@pytest.fixture
def outside() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def hostile_files(server: AppServer, secret: Path, other: str, own: str, port: int) -> dict[str, dict[str, Any]]:
    """Files that are not the visitor's own, by what is wrong with them."""
    folder = Path(own).parent
    (folder / "link.png").symlink_to(secret)
    (folder / "linked").symlink_to(secret.parent)
    url = f"http://127.0.0.1:{port}/x.png"
    up = os.path.relpath(secret, folder)
    return {
        "absolute": as_file(str(secret)),
        "passwords": as_file("/etc/passwd"),
        "relative": as_file(os.path.relpath(secret)),
        "home": as_file("~/secret.png"),
        "climbing out": as_file(f"{folder}/{up}"),
        "climbing from the root": as_file(f"{folder}/{'../' * 20}{str(secret)[1:]}"),
        "link": as_file(str(folder / "link.png")),
        "linked folder": as_file(str(folder / "linked" / "secret.png")),
        "the upload of another visitor": as_file(other),
        "the folder of another visitor, climbing": as_file(f"{folder}/{os.path.relpath(other, folder)}"),
        "the folder of all uploads": as_file(str(server.cache)),
        "beside the visitor's folder": as_file(f"{folder.parents[1]}x/a.png"),
        "URL": as_file(url),
        "URL in capitals": as_file(url.replace("http", "HTTP")),
        "file URL": as_file(f"file://{secret}"),
        "own path, foreign URL": as_file(own, url=url),
        "own path, URL of a file": as_file(own, url=f"file://{secret}"),
        "own path, URL that only begins like ours": as_file(own, url=f"{server.url}.evil.example/gradio_api/file="),
        "stream": as_file(str(secret), is_stream=True),
        "only a URL": {"url": url},
        "no meta": {"path": str(secret)},
        "no string": as_file([str(secret)]),
        "nothing": as_file(None),
    }


def test_only_own_uploads_are_files(
    server: AppServer, client: Callable[[], Client], secret: Path, outside: socket.socket
) -> None:
    """Any other path, and every URL, is refused wherever it stands in an event; nothing is read, copied or fetched."""
    visitor, other = client(), client()
    own, foreign = visitor.upload(picture(), "watched.png"), other.upload(picture(), "watched.png")
    files = hostile_files(server, secret, foreign, own, outside.getsockname()[1])
    kept = sorted(server.cache.rglob("*"))
    _watched.append("watched")
    refused = 0
    for what, file in files.items():
        for number in visitor.events:
            values = visitor.values(number)
            for place in range(len(values)):
                sent = [*values[:place], file, *values[place + 1 :]]
                assert visitor.join(number, sent).status_code == 403, (what, number, place)
                refused += 1
        for number in (0, visitor.find("receive")):
            values = visitor.values(number)
            for nested in (file, [file], {"a": [{"b": file}]}, [as_file(own), file], {"value": file}):
                assert visitor.join(number, [nested] * len(values)).status_code == 403, (what, number)
                assert visitor.join(number, values, event_data=nested).status_code == 403, (what, number)
    assert refused > 1000
    assert _opened == []
    assert sorted(server.cache.rglob("*")) == kept
    with pytest.raises(BlockingIOError):
        outside.accept()
    done = visitor.ask("receive", own)  # the same request with the visitor's own file
    assert done["success"]
    assert _opened == [own] * len(_opened) != []
    assert not Path(own).exists()
    assert Path(foreign).exists()
    for path in (Path(foreign), *(Path(own).parent / name for name in ("link.png", "linked"))):
        path.unlink()


@pytest.mark.parametrize(
    "path",
    ["run/{}", "run/{}/", "api/{}", "api/{}/", "call/{}", "call/v2/{}", "queue/join/", "stream/{}", "component_server"],
)
def test_no_other_way_leads_in(client: Callable[[], Client], secret: Path, path: str) -> None:
    """The endpoints of gradio that take files and are not those of the page are closed."""
    visitor = client()
    _watched.append("watched")
    number = visitor.find("receive")
    data = [as_file(str(secret)), *visitor.values(number)[1:]]
    body = {"data": data, "fn_index": number, "session_hash": "x", "component_id": 1, "fn_name": "preprocess"}
    for name in ("receive", "predict", number):
        for root in ("/gradio_api/", "/", "//gradio_api/", "/gradio_api/../gradio_api/"):
            assert visitor.http.post(root + path.format(name), json=body).status_code == 403
    assert _opened == []


def test_an_upload_is_of_use_to_its_visitor_only(server: AppServer, client: Callable[..., Client]) -> None:
    """Equal files of two visitors are two files. Without a cookie nothing is taken. Names cannot leave the folder."""
    first, second = client(), client()
    one, same, two = first.upload(picture(7)), first.upload(picture(7)), second.upload(picture(7), "../../../a.png")
    assert len({one, same, two}) == 3
    assert all(Path(path).is_relative_to(server.cache) for path in (one, same, two))
    assert (
        first.join(first.find("receive"), [as_file(two), *first.values(first.find("receive"))[1:]]).status_code == 403
    )
    for visitor, path in ((first, one), (second, two), (first, same)):
        done = visitor.ask("receive", path)
        assert done["success"]
        assert "your picture" in str(done["output"]["data"][1])
    first.http.cookies.clear()
    assert first.http.post("/gradio_api/upload", files={"files": ("a.png", picture())}).status_code == 403
    assert first.join(0, first.values(0)).status_code == 403
    assert server.kept() == []


def test_a_session_is_of_use_to_its_visitor_only(client: Callable[[str], Client]) -> None:
    """Under the name of another visitor's session there is no picture of theirs, and no message to them."""
    owner, thief = client("known"), client("known")
    assert owner.ask("receive", owner.upload(picture(9)))["success"]
    assert owner.ask("show", _0="your picture")["success"]
    assert not thief.ask("show", _0="your picture")["success"]
    owner.session = thief.session = "another"
    assert owner.join(0, owner.values(0)).status_code == 200
    with pytest.raises(httpx.RemoteProtocolError):  # gradio breaks off: the thief has no such session
        thief.outcome()
    assert owner.outcome()["success"]


def test_what_is_no_event_of_the_page_is_refused(client: Callable[[], Client]) -> None:
    """Whatever is sent, the answer is a refusal, and the next visitor is served."""
    visitor = client()
    good = {"fn_index": 0, "data": visitor.values(0), "session_hash": "x"}
    wrong = [[], 5, None, {}, {**good, "fn_index": 999}, {**good, "fn_index": [0]}, {**good, "session_hash": None}]
    for body in wrong:
        assert visitor.http.post("/gradio_api/queue/join", json=body).status_code == 400, body
    for text in (b"", b"{", b"\xff", b"[" * 10_000, b'{"session_hash": "\\ud800"}', b" " * (EVENT_BYTES + 1)):
        answer = visitor.http.post("/gradio_api/queue/join", content=text)
        assert answer.status_code == 400, text[:20]
        assert "Traceback" not in answer.text
    assert visitor.http.get("/?page=secret&deep_link=x").status_code == 200
    visitor.session = ""  # under this name events once stopped gradio's queue for everybody
    assert visitor.ask("show")["success"]
    assert client().ask("show")["success"]
