"""`shiftproof data`: get, import and list."""

import gzip
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.data_files import Server, Sets, amat_line, archive, everything, offer, put, stored
from helpers.data_fixtures import server as server
from helpers.data_fixtures import small as small
from shiftproof.commands.main import parser
from shiftproof.safe_io.atomic import atomic_write


def command(*words: object) -> int:
    """`shiftproof data WORDS`, with errors as they are raised."""
    options = parser().parse_args(["data", *map(str, words)])
    return int(options.run(options))


def layouts(small: Sets) -> Sets:
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
def test_import(layout: str, small: Sets, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every official layout becomes the same files of the store."""
    name = SET_OF.get(layout, "mnist-rot")
    for path, content in layouts(small)[layout].items():
        atomic_write(tmp_path / "in" / path, content)
    atomic_write(tmp_path / "in" / "other.bin", b"unknown")
    assert command("import", tmp_path / "in", "--data-dir", tmp_path / "root") == 0
    assert everything(tmp_path / "root") == stored(name, small[name])
    assert f"{name}: complete" in capsys.readouterr().out
    assert command("import", tmp_path / "in", "--data-dir", tmp_path / "root", "--json") == 0
    assert json.loads(capsys.readouterr().out)["sets"][0]["state"] == "complete"


def test_import_takes_what_is_good_and_names_what_is_not(
    small: Sets, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
        "mnist_all_rotation_normalized_float_test.amat": amat_line(0, 1).encode(),
    }
    for path, content in files.items():
        atomic_write(tmp_path / "in" / path, content)
    with pytest.raises(ValueError) as caught:
        command("import", tmp_path / "in", "--data-dir", tmp_path / "root")
    for message in (
        "train.bin: 9,221 bytes where train.bin has 9,222",
        "data_batch_1: not a pickle of arrays",
        "data_batch_2.bin: md5",
        "t10k-labels-idx1-ubyte.gz: not a whole .gz file",
        "float_test.amat: 1 images; it should have 3",
    ):
        assert message in str(caught.value)
    assert not mark.exists()
    assert everything(tmp_path / "root") == stored("cifar100", {"test.bin": files["test.bin"]})
    assert "cifar100: incomplete" in capsys.readouterr().out


def test_import_of_nothing(small: Sets, tmp_path: Path) -> None:
    """An unknown folder is an error, and files that lie too deep are not looked for."""
    deep = tmp_path / "a" / "b" / "c" / "d" / "e"
    atomic_write(deep / "test.bin", small["cifar100"]["test.bin"])
    with pytest.raises(ValueError, match="no official file of a known data set in it or 4 folders below"):
        command("import", tmp_path, "--data-dir", tmp_path / "root")
    with pytest.raises(ValueError, match="gone: not a folder"):
        command("import", tmp_path / "gone", "--data-dir", tmp_path / "root")
    assert command("import", tmp_path / "a", "--data-dir", tmp_path / "root") == 0


def test_list(small: Sets, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Complete, incomplete, damaged, missing, rebuilt: what is there, by file."""
    put(tmp_path, "mnist", small["mnist"])
    put(tmp_path, "cifar10", {**small["cifar10"], "data_batch_3.bin": b"short"})
    put(tmp_path, "cifar100", {"test.bin": small["cifar100"]["test.bin"]})
    assert command("list", "--data-dir", tmp_path, "--json") == 0
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
    assert command("list", "--data-dir", tmp_path) == 0
    out = capsys.readouterr().out
    assert "train.bin is missing" in out
    assert "data_batch_3.bin is damaged" in out
    assert command("list", "--data-dir", tmp_path / "empty", "--json") == 0
    empty = json.loads(capsys.readouterr().out)["sets"]
    assert [item["state"] for item in empty] == ["missing"] * 4 + ["complete"]
    assert not (tmp_path / "empty").exists()


def test_get_prints_lines_or_json(
    small: Sets,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    offer(monkeypatch, server, "cifar100", {"x.tar.gz": archive(small["cifar100"])})
    assert command("get", "cifar100", "digits", "--data-dir", tmp_path) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == ["cifar100: official source", "digits: bundled with scikit-learn"]
    assert said.err.splitlines() == ["fetching: x.tar.gz (0.0 MB)"]
    assert command("get", "cifar100", "--data-dir", tmp_path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["sets"] == {"cifar100": "already there"}
    with pytest.raises(ValueError, match=r"`NAME` \(='cifar'\) must be one of"):
        command("get", "cifar100", "cifar", "--data-dir", tmp_path)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ModuleNotFoundError, match="sklearn"):  # which the command line turns into the extra
        command("get", "digits", "--data-dir", tmp_path)


def test_get_draws_a_bar_on_a_terminal(
    small: Sets,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    offer(monkeypatch, server, "cifar100", {"x.tar.gz": archive(small["cifar100"])})
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert command("get", "cifar100", "--data-dir", tmp_path, "--json") == 0
    captured = capsys.readouterr()
    assert "x.tar.gz" in captured.err
    assert json.loads(captured.out)["sets"] == {"cifar100": "official source"}
