"""Downloads resume, and what cannot be downloaded is an error."""

from pathlib import Path

import numpy as np
import pytest

from helpers.data_files import Server
from helpers.data_fixtures import server as server
from shiftproof.data.download import download

LIMIT = 2**20


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_resumes(ranges: bool, server: Server, tmp_path: Path) -> None:
    """Where the server can continue, it is asked for the rest only; else the file comes whole, from its beginning."""
    content = np.random.RandomState(0).bytes(10000)
    server.files["file"], server.ranges = content, ranges
    part = tmp_path / "file.part"
    part.write_bytes(content[:4000])
    seen: list[tuple[str, int, int | None]] = []
    download(server.url + "file", part, LIMIT, lambda *step: seen.append(step))
    assert part.read_bytes() == content
    assert server.asked == [("file", "bytes=4000-")]
    assert seen[0] == ("file", 4000 if ranges else 0, 10000)
    assert seen[-1] == ("file", 10000, 10000)


def test_a_download_continues_while_it_makes_progress(server: Server, tmp_path: Path) -> None:
    """A connection that breaks again and again still brings the file, if every attempt brings a piece."""
    content = np.random.RandomState(0).bytes(10000)
    server.files["file"], server.cut = content, 3000
    download(server.url + "file", tmp_path / "part", LIMIT, lambda *_: None)
    assert (tmp_path / "part").read_bytes() == content
    assert [wanted for _, wanted in server.asked] == [None, "bytes=3000-", "bytes=6000-", "bytes=9000-"]
    server.ranges = False
    (tmp_path / "part").unlink()
    with pytest.raises(OSError, match="the connection ended after 3,000 of 10,000 bytes"):
        download(server.url + "file", tmp_path / "part", LIMIT, lambda *_: None)
    assert (tmp_path / "part").read_bytes() == content[:3000]


def test_a_part_longer_than_the_file_is_dropped(server: Server, tmp_path: Path) -> None:
    server.files["file"] = b"short"
    (tmp_path / "part").write_bytes(b"much longer")
    download(server.url + "file", tmp_path / "part", LIMIT, lambda *_: None)
    assert (tmp_path / "part").read_bytes() == b"short"


def test_downloads_that_cannot_be(server: Server, tmp_path: Path) -> None:
    """No such file, more than any set has, another range, no http: an OSError."""
    with pytest.raises(OSError, match="404"):
        download(server.url + "file", tmp_path / "part", LIMIT, lambda *_: None)
    server.files["file"] = bytes(100)
    with pytest.raises(OSError, match="more than 50 bytes"):
        download(server.url + "file", tmp_path / "part", 50, lambda *_: None)
    server.off = 1
    (tmp_path / "part").write_bytes(bytes(10))
    with pytest.raises(OSError, match="another range than the one asked for"):
        download(server.url + "file", tmp_path / "part", LIMIT, lambda *_: None)
    assert not (tmp_path / "part").exists()
    server.nonsense = True
    with pytest.raises(OSError, match="BadStatusLine nonsense"):
        download(server.url + "file", tmp_path / "part", LIMIT, lambda *_: None)
