"""Downloads over HTTP that resume where they stopped."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from pathlib import Path, PurePosixPath

from shiftproof.progress import ProgressCallback

TIMEOUT = 20.0  # seconds, to connect and for each answer


def download(url: str, part: Path, limit: int, report: ProgressCallback) -> None:
    """Fetch `url`, at most `limit` bytes, into the file `part`, resuming where an earlier attempt stopped.

    A server that cannot resume sends the file from its beginning. An attempt that fails after it brought new bytes is
    repeated; otherwise it is an OSError, and `part` stays for the next time.
    """
    while True:
        before = _size(part)
        try:
            return _attempt(url, part, limit, report)
        except OSError:
            if _size(part) <= before:
                raise


def _attempt(url: str, part: Path, limit: int, report: ProgressCallback) -> None:
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
            total = start + int(length) if length.isdigit() else None
            done, what = start, PurePosixPath(url).name
            with part.open("ab" if start else "wb") as file:
                report(what, done, total)
                while chunk := answer.read(2**18):
                    done += len(chunk)
                    if done > limit:
                        raise OSError(f"more than {limit:,} bytes: this is another file")
                    file.write(chunk)
                    report(what, done, total)
            if total is not None and done < total:
                raise OSError(f"the connection ended after {done:,} of {total:,} bytes")
    except urllib.error.HTTPError as error:
        if error.code != 416 or not start:
            raise
        part.unlink()  # longer than the file: begin again
        _attempt(url, part, limit, report)
    except http.client.HTTPException as error:
        raise OSError(f"{type(error).__name__} {error}") from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
