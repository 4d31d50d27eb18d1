"""The store of data sets: the folder it lies in, and how a file gets into it whole or not at all."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import os
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, cast

from shiftproof.progress import Report
from shiftproof.safe_io import limits

TIMEOUT = 20.0  # seconds, to connect and for each answer
LIMIT = 2**30  # bytes; no file of any set here is larger
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")


def data_root(root: Path | None = None) -> Path:
    """The folder of the store: `root`, else the environment's `SHIFTPROOF_DATA`, else the platform's cache folder."""
    if root is not None:
        return Path(root)
    named = os.environ.get("SHIFTPROOF_DATA")
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        cache = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    else:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "shiftproof"


def md5(content: bytes) -> str:
    """The md5 sum of `content`, as the makers of the sets publish it."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def file_md5(path: Path) -> str:
    """The md5 sum of a file, read in pieces."""
    total = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            total.update(chunk)
    return total.hexdigest()


def atomic_write(path: Path, content: bytes) -> None:
    """Write `content` to `path` so that a reader sees the old file or the new one, whole, even after a crash.

    The bytes go to a temporary name beside it, `.NAME.PID.tmp`, and reach the disk before it is renamed. A process
    killed in between leaves that name behind, which nobody reads. An OSError names `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:  # a write that fails knows no name
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        part.unlink(missing_ok=True)
    if os.name == "posix":  # the new name reaches the disk with its folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def writable(folder: Path) -> None:
    """Make a folder, if it is not there, and a file in it that is gone again; OSError where that cannot be."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def download(url: str, part: Path, report: Report) -> None:
    """Fetch `url` into the file `part`, going on where an earlier attempt stopped.

    A server that cannot continue sends the file from its beginning. An attempt that fails after it brought new bytes
    is repeated; otherwise OSError, and `part` stays for the next time.
    """
    while True:
        before = _size(part)
        try:
            return _attempt(url, part, report)
        except OSError:
            if _size(part) <= before:
                raise


def _attempt(url: str, part: Path, report: Report) -> None:
    start = _size(part)
    request = urllib.request.Request(url, headers={"User-Agent": "shiftproof"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            if answer.status != 206:
                start = 0
            elif not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                part.unlink()
                raise OSError("the server answered with another range than the one asked for")
            length = answer.headers.get("Content-Length", "")
            _receive(url, answer, part, start, start + int(length) if length.isdigit() else None, report)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not start:
            raise
        part.unlink()  # longer than the file: begin again
        _attempt(url, part, report)
    except http.client.HTTPException as error:
        raise OSError(f"{type(error).__name__} {error}") from error


def _receive(
    url: str, answer: http.client.HTTPResponse, part: Path, start: int, total: int | None, report: Report
) -> None:
    done, what = start, PurePosixPath(url).name
    with part.open("ab" if start else "wb") as file:
        report(what, done, total)
        while chunk := answer.read(2**18):
            done += len(chunk)
            if done > LIMIT:
                raise OSError(f"more than {LIMIT:,} bytes: not the file that is looked for")
            file.write(chunk)
            report(what, done, total)
    if total is not None and done < total:
        raise OSError(f"the connection ended after {done:,} of {total:,} bytes")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def contents(path: Path, name: str, wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """The `wanted` files that the file `path`, known as `name`, holds: members of an archive, or itself.

    Members are found by their last name, regular files only; the paths inside an archive are never used. Of a tar
    archive, and of each member of a zip archive, no more than `LIMIT` bytes are unpacked; each name is read once.
    """
    if not name.endswith(ARCHIVES):
        if name in wanted:
            yield name, limits.content(path, LIMIT)
        return
    found: set[str] = set()
    members = _zipped(path, wanted) if name.endswith(".zip") else _tarred(path, wanted)
    while True:
        try:
            member, content = next(members)
            if member in found:
                raise ValueError(f"{member} stands there twice")
        except StopIteration:
            return
        except OverflowError as error:
            raise ValueError(f"{path}: {error}") from error
        except Exception as error:  # the readers of archives stumble over damaged ones in many ways
            raise ValueError(f"{path}: not a whole archive ({error}).") from error
        found.add(member)
        yield member, content


class _Counted(io.RawIOBase):
    """A stream that ends in an error after `LIMIT` bytes, so that nothing reads through a bomb, or keeps it."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream, self._done = stream, 0

    def read(self, size: int = -1, /) -> bytes:
        left = LIMIT - self._done
        content = self._stream.read(left + 1 if size < 0 else min(size, left + 1))
        self._done += len(content)
        if self._done > LIMIT:
            raise OverflowError(f"unpacks to more than {LIMIT:,} bytes, and no data set here does.")
        return content


def _tarred(path: Path, wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
    # the kinds in use: what tarfile guesses would include xz, which may ask for any amount of memory
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    stream = gzip.GzipFile(path) if packed else path.open("rb")
    with stream, tarfile.open(fileobj=cast(IO[bytes], _Counted(stream)), mode="r|") as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            if member.isreg() and not member.issparse() and name in wanted:
                _bounded(name, member.size)
                content = archive.extractfile(member)
                assert content is not None
                yield name, content.read()


def _zipped(path: Path, wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = PurePosixPath(member.filename).name
            if not member.is_dir() and name in wanted:
                _bounded(name, member.file_size)
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others take any memory
                    raise ValueError(f"{name} is packed in a way that is not read here")
                with archive.open(member) as file:
                    yield name, file.read(LIMIT)


def _bounded(name: str, size: int) -> None:
    if size > LIMIT:
        raise OverflowError(f"{name} has {size:,} bytes, and no file of a data set here has more than {LIMIT:,}.")
