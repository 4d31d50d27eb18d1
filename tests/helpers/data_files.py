"""Small files of the data sets, archives of them, and a server that offers them."""

import dataclasses
import hashlib
import http.server
import io
import struct
import tarfile
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shiftproof.data import formats
from shiftproof.data.sources import SOURCES, Download
from shiftproof.safe_io.atomic import atomic_write

Sets = dict[str, dict[str, bytes]]  # the files of every set, by name
IMAGES = {"cifar10": 12, "cifar100": 5, "mnist": 30, "mnist-rot": 5}


def cifar_bytes(labels: Sequence[tuple[int, ...]]) -> bytes:
    pixels = np.random.RandomState(0).randint(0, 256, (len(labels), formats.CIFAR_PIXELS)).astype(np.uint8)
    return b"".join(bytes(label) + row.tobytes() for label, row in zip(labels, pixels))


def idx_bytes(array: np.ndarray[Any, Any]) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def amat_line(pixel: float, label: float, count: int = 784) -> str:
    return " ".join([f"{pixel:.7e}"] * count + [f"{label:.7e}"]) + "\n"


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def small_files() -> Sets:
    """Every set of the catalogue with a handful of images."""
    random = np.random.RandomState(1)
    digits = {n: random.randint(0, 256, (n, 28, 28)).astype(np.uint8) for n in (20, 10)}
    batches = [f"data_batch_{k}.bin" for k in range(1, 6)]
    names = [file.name for file in SOURCES["mnist"].files]
    mnist = [idx_bytes(a) for n in (20, 10) for a in (digits[n], np.arange(n, dtype=np.uint8) % 10)]
    rotated_names = [file.name for file in SOURCES["mnist-rot"].files]
    return {
        "cifar10": {name: cifar_bytes([(i,), (i + 1,)]) for i, name in enumerate([*batches, "test_batch.bin"])},
        "cifar100": {"train.bin": cifar_bytes([(1, 2), (3, 99), (0, 1)]), "test.bin": cifar_bytes([(1, 50), (2, 51)])},
        "mnist": dict(zip(names, mnist)),
        "mnist-rot": {
            rotated_names[0]: (amat_line(0.2, 1) + amat_line(0.2, 3)).encode(),
            rotated_names[1]: (amat_line(0.4, 7) * 3).encode(),
        },
    }


def archive(members: dict[str, bytes], kind: str = "tar.gz") -> bytes:
    """An archive with a folder in front of each name, as the official ones have."""
    packed = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(packed, "w") as file:
            for name, content in members.items():
                file.writestr(f"folder/{name}", content)
        return packed.getvalue()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name if "/" in name else f"folder/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


class Server:
    """Files over http on this machine, with ranges or without; `cut` ends a connection after so many bytes.

    `off` announces another range than the one asked for, `nonsense` is no http at all.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.ranges, self.cut, self.off, self.nonsense = True, 0, 0, False
        self.asked: list[tuple[str, str | None]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        name, wanted = request.path[1:], request.headers["Range"]
        self.asked.append((name, wanted))
        if name not in self.files:
            request.send_error(404)
            return
        if self.nonsense:
            request.wfile.write(b"nonsense\r\n\r\n")
            return
        content, start = self.files[name], 0
        if wanted and self.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                request.send_error(416)
                return
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start + self.off}-{len(content) - 1}/{len(content)}")
        request.send_header("Content-Length", str(len(content) - start))
        request.end_headers()
        request.wfile.write(content[start : start + self.cut if self.cut else None])

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def offer(monkeypatch: pytest.MonkeyPatch, server: Server, name: str, files: dict[str, bytes], *bases: str) -> None:
    """Let the official source of a set be `files` on the server."""
    server.files.update(files)
    downloads = tuple(
        Download(file, None if name == "mnist-rot" else md5(content), tuple(b + file for b in bases or [server.url]))
        for file, content in files.items()
    )
    monkeypatch.setitem(SOURCES, name, dataclasses.replace(SOURCES[name], downloads=downloads))


def put(root: Path, name: str, files: dict[str, bytes]) -> None:
    for file, content in files.items():
        atomic_write(root / SOURCES[name].folder / file, content)


def everything(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def stored(name: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{SOURCES[name].folder}/{file}": content for file, content in files.items()}
