"""Files of data sets: what is right is read, what is wrong is named, nothing is executed."""

import gzip
import pickle
import re
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.data_files import amat_line, cifar_bytes, idx_bytes
from shiftproof.data import formats


def test_cifar_binary() -> None:
    """A record is its labels, of which the last one counts, and the planes R, G, B, row by row."""
    for classes, labels in ((10, [(3,), (9,)]), (100, [(0, 99), (19, 7)])):
        content = cifar_bytes(labels)
        images, found = formats.cifar(content, "x.bin", classes)
        assert found.tolist() == [label[-1] for label in labels]
        assert images.shape == (2, 3, 32, 32)
        start = len(content) // 2 + len(labels[0])
        assert images[1, 2, 5, 7] == content[start + 2 * 1024 + 5 * 32 + 7]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (cifar_bytes([(1,)])[:-1], "x.bin: 3,072 bytes are not a whole number of records of 3073 bytes"),
        (b"", "x.bin: 0 bytes"),
        (cifar_bytes([(1,), (10,)]), "x.bin: label 10 of image 1 must be one of 0..9."),
    ],
)
def test_wrong_cifar_binaries(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        formats.cifar(content, "x.bin", 10)


@pytest.mark.parametrize("encoded", [False, True])
def test_pickles_become_the_binary_file(encoded: bool) -> None:
    """A pickled batch and the binary file are the same bytes, whichever Python wrote the pickle."""
    content = cifar_bytes([(4, 44), (5, 55)])
    rows = np.frombuffer(content, np.uint8).reshape(2, -1)[:, 2:].copy()
    key = str if encoded else str.encode
    batch = {
        key("data"): rows,
        key("coarse_labels"): [4, 5],
        key("fine_labels"): [44, 55],
        key("filenames"): [b"a.png", b"b.png"],
    }
    assert formats.cifar_from_pickle(pickle.dumps(batch, protocol=2), "train", 100) == content
    # as Python 2 wrote it: plain strings, and numpy.core
    assert formats.cifar_from_pickle(python2(rows), "test", 10) == cifar_from(rows, [4, 5])


def cifar_from(rows: np.ndarray[Any, Any], labels: list[int]) -> bytes:
    return b"".join(bytes([label]) + row.tobytes() for label, row in zip(labels, rows))


def python2(rows: np.ndarray[Any, Any]) -> bytes:
    """A pickle of protocol 2 with Python 2's strings, spelled out."""

    def text(word: bytes) -> bytes:
        return b"U" + bytes([len(word)]) + word

    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    dtype = (
        b"cnumpy\ndtype\n"
        + text(b"u1")
        + b"K\x00K\x01\x87R(K\x03"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    raw = b"T" + struct.pack("<i", rows.size) + rows.tobytes()
    state = b"(K\x01K" + bytes([len(rows)]) + b"M\x00\x0c\x86" + dtype + b"\x89" + raw + b"tb"
    return b"\x80\x02}(" + text(b"data") + array + state + text(b"labels") + b"](K\x04K\x05eu."


class Hostile:
    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> Any:
        return self.call, self.arguments


def test_hostile_pickles_execute_nothing(tmp_path: Path) -> None:
    """Whatever a pickle asks for, other than arrays: an error, and nothing has happened."""
    mark = tmp_path / "executed"
    for hostile in (
        Hostile(mark.touch),
        Hostile(eval, f"open({str(mark)!r}, 'w')"),
        {"data": Hostile(exec, f"open({str(mark)!r}, 'w')"), "labels": []},
        Hostile(np.load, str(mark)),
    ):
        for protocol in (0, 2, 5):
            with pytest.raises(ValueError, match=r"x: not a pickle of arrays that can be read safely .*it names"):
                formats.cifar_from_pickle(pickle.dumps(hostile, protocol), "x", 10)
    assert not mark.exists()


def test_pickles_change_nothing_here() -> None:
    """A pickle cannot set attributes on what stands in for numpy."""
    for module, name in formats._STAND_INS:
        attack = f"c{module}\n{name}\n(N}}Vshape\nI7\nstb.".encode()  # BUILD on the class itself, with slots
        with pytest.raises(ValueError, match="x: "):
            formats.cifar_from_pickle(attack, "x", 10)
    assert formats._Array.shape == ()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([1, 2], "must hold a dictionary, not list"),
        ({"data": [1], "labels": [1]}, "must hold `data` and `labels`"),
        ({"data": np.zeros((1, 3072), np.uint8)}, "must hold `data` and `labels`"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}, "`data` must be 1 rows, one per label, of 3072 bytes"),
        ({"data": np.zeros((1, 3072), np.int8), "labels": [1]}, "`data` must be 1 rows"),
        ({"data": np.zeros((3072, 1), np.uint8).T, "labels": [1]}, None),
        ({"data": np.zeros((3072, 2), np.uint8).T, "labels": [1, 1]}, "`data` must be 2 rows"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [10]}, "labels must be integers in 0..9"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [1.5]}, "labels must be integers in 0..9"),
    ],
)
def test_wrong_pickles(batch: object, message: str | None) -> None:
    content = pickle.dumps(batch, protocol=2)
    if message is None:
        assert len(formats.cifar_from_pickle(content, "x", 10)) == 3073
        return
    with pytest.raises(ValueError, match=re.escape(message)):
        formats.cifar_from_pickle(content, "x", 10)
    with pytest.raises(ValueError, match="x: not a pickle"):
        formats.cifar_from_pickle(content[:-3], "x", 10)


def test_lists_of_labels_of_different_length() -> None:
    batch = {"data": np.zeros((1, 3072), np.uint8), "coarse_labels": [1], "fine_labels": [1, 2]}
    with pytest.raises(ValueError, match="x: the lists of labels differ in length"):
        formats.cifar_from_pickle(pickle.dumps(batch, protocol=2), "x", 100)


def test_idx() -> None:
    """The array comes back, from the file and from the packed file."""
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    content = idx_bytes(array)
    assert (formats.idx(content, "x", 3) == array).all()
    assert formats.idx_from_gzip(gzip.compress(content), "x.gz", 3) == content


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c[:-1], "x: 39 bytes where its header promises 40: the file is truncated"),
        (lambda c: c + b"\0", "x: 41 bytes where its header promises 40: the file is followed by something else"),
        (lambda c: c[:7], "x: not an idx file of bytes with 3 axes"),
        (lambda c: b"", "x: not an idx file"),
        (lambda c: b"\0\0\x0d\x03" + c[4:], "x: not an idx file of bytes with 3 axes (it begins with '00000d03')"),
        (lambda c: b"\0\0\x08\x01" + c[4:], "x: not an idx file of bytes with 3 axes"),
    ],
)
def test_wrong_idx(change: Callable[[bytes], bytes], message: str) -> None:
    content = change(idx_bytes(np.zeros((2, 3, 4), np.uint8)))
    with pytest.raises(ValueError, match=re.escape(message)):
        formats.idx(content, "x", 3)


def test_wrong_gz() -> None:
    """A packed file that is cut, damaged, or holds more than it says is not unpacked past what its header promises."""
    content = idx_bytes(np.zeros((2, 3, 4), np.uint8))
    packed = gzip.compress(content)
    damaged = packed[:-8] + bytes(4) + packed[-4:]
    for wrong in (packed[:-9], damaged, b"no gz at all", b""):
        with pytest.raises(ValueError, match=r"^x.gz: not "):
            formats.idx_from_gzip(wrong, "x.gz", 3)
    bomb = gzip.compress(content + bytes(10**7))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"x.gz: unpacks to more than the 40 bytes its header promises"):
        formats.idx_from_gzip(bomb, "x.gz", 3)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()
    huge = struct.pack(">BBBBI", 0, 0, 8, 1, 2**32 - 1) + bytes(10**6)
    with pytest.raises(ValueError, match=r"x.gz: its header promises 4,294,967,303 bytes, more than any"):
        formats.idx_from_gzip(gzip.compress(huge), "x.gz", 1)


def test_amat() -> None:
    images, labels = formats.amat([amat_line(0, 3), "\n", amat_line(0.5, 9), amat_line(1, 0)], "x.amat", 3)
    assert images.shape == (3, 1, 28, 28)
    assert images[:, 0, 27, 27].tolist() == [0, 128, 255]
    assert labels.tolist() == [3, 9, 0]
    many, _ = formats.amat([amat_line(0.25, 1)] * 2001, "x.amat", 2001)  # more than one block
    assert len(many) == 2001


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([amat_line(0, 1)], "x.amat: 1 images; it should have 2: the file is truncated"),
        ([], "x.amat: 0 images; it should have 2"),
        ([amat_line(0, 1), amat_line(0, 1, 783)], "x.amat: not a table of numbers"),
        ([amat_line(0, 1, 783)] * 2, "x.amat: 784 numbers on a line; it should have 784 pixels and a label"),
        ([amat_line(0, 1), "<html>\n"], "x.amat: not a table of numbers"),
        ([amat_line(0, 1), amat_line(0, 10)], "x.amat: label 10 of image 1 must be one of 0..9"),
        ([amat_line(0, 1), amat_line(0, 1.5)], "x.amat: label 1.5 of image 1"),
        ([amat_line(0, 1), amat_line(1.5, 1)], "x.amat: pixels must lie in [0, 1]"),
        ([amat_line(0, 1), amat_line(float("nan"), 1)], "x.amat: pixels must lie in [0, 1]"),
    ],
)
def test_wrong_amat(lines: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        formats.amat(lines, "x.amat", 2)


def test_corrupt_stream_of_gz_is_named() -> None:
    content = bytearray(gzip.compress(idx_bytes(np.random.RandomState(0).randint(0, 9, 999).astype(np.uint8))))
    content[40:60] = bytes(20)
    with pytest.raises(ValueError, match=r"^x.gz: not a whole .gz file") as caught:
        formats.idx_from_gzip(bytes(content), "x.gz", 1)
    assert isinstance(caught.value.__cause__, (zlib.error, OSError, EOFError))
