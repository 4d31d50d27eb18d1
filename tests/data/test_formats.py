"""Files of data sets: what is right is read, what is wrong is named, nothing is executed."""

import gzip
import pickle
import re
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shiftproof.data import formats


def cifar_bytes(labels: Sequence[tuple[int, ...]]) -> bytes:
    pixels = np.random.RandomState(0).randint(0, 256, (len(labels), formats.CIFAR_PIXELS)).astype(np.uint8)
    return b"".join(bytes(label) + row.tobytes() for label, row in zip(labels, pixels))


def idx_bytes(array: np.ndarray[Any, Any]) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


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
            with pytest.raises(ValueError, match=r"x: not a pickle of arrays that can be read safely .*it asks for"):
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


def line(pixel: float, label: float, count: int = 784) -> str:
    return " ".join([f"{pixel:.7e}"] * count + [f"{label:.7e}"]) + "\n"


def test_amat() -> None:
    images, labels = formats.amat([line(0, 3), "\n", line(0.5, 9), line(1, 0)], "x.amat", 3)
    assert images.shape == (3, 1, 28, 28)
    assert images[:, 0, 27, 27].tolist() == [0, 128, 255]
    assert labels.tolist() == [3, 9, 0]
    many, _ = formats.amat([line(0.25, 1)] * 2001, "x.amat", 2001)  # more than one block
    assert len(many) == 2001


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line(0, 1)], "x.amat: 1 images where 2 belong: the file is truncated"),
        ([], "x.amat: 0 images where 2 belong"),
        ([line(0, 1), line(0, 1, 783)], "x.amat: not a table of numbers"),
        ([line(0, 1, 783)] * 2, "x.amat: 784 numbers on a line where 784 pixels and a label belong"),
        ([line(0, 1), "<html>\n"], "x.amat: not a table of numbers"),
        ([line(0, 1), line(0, 10)], "x.amat: label 10 of image 1 must be one of 0..9"),
        ([line(0, 1), line(0, 1.5)], "x.amat: label 1.5 of image 1"),
        ([line(0, 1), line(1.5, 1)], "x.amat: pixels must lie in [0, 1]"),
        ([line(0, 1), line(float("nan"), 1)], "x.amat: pixels must lie in [0, 1]"),
    ],
)
def test_wrong_amat(lines: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        formats.amat(lines, "x.amat", 2)


GREY = np.linspace(0, 255, 64).astype(np.uint8).reshape(8, 8)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "I;16", "I", "F", "RGB", "RGBA", "P", "CMYK"])
def test_images_of_any_mode(mode: str, tmp_path: Path) -> None:
    """Grey modes become one channel, the others three; the values survive, in 8 bits."""
    if mode == "I;16":
        picture = Image.fromarray(GREY.astype(np.uint16) * 257)
    elif mode == "I":
        picture = Image.fromarray(GREY.astype(np.int32) * 257)
    elif mode == "F":
        picture = Image.fromarray(GREY.astype(np.float32) / 255)
    else:
        picture = Image.fromarray(GREY).convert(mode)
    path = tmp_path / "x.tif"
    picture.save(path)
    images = formats.read_images([path])
    assert images.shape == (1, 1 if mode in ("1", "L", "LA", "I;16", "I", "F") else 3, 8, 8)
    if mode == "1":
        assert set(images.flatten().tolist()) == {0, 255}
    else:
        assert (images == GREY).all()


def test_one_picture_in_colour_makes_all_colour(tmp_path: Path) -> None:
    Image.fromarray(GREY).save(tmp_path / "grey.png")
    Image.new("RGB", (8, 8), (255, 0, 7)).save(tmp_path / "red.png")
    images = formats.read_images([tmp_path / "grey.png", tmp_path / "red.png"])
    assert (images[0] == GREY).all()
    assert images[1, :, 3, 3].tolist() == [255, 0, 7]


def test_transparency_is_laid_on_black(tmp_path: Path) -> None:
    """Hidden colours do not show, be they hidden by an alpha channel or by an entry of the palette."""
    Image.new("RGBA", (2, 2), (200, 100, 50, 0)).save(tmp_path / "alpha.png")
    Image.new("LA", (2, 2), (200, 0)).save(tmp_path / "grey.png")
    palette = Image.new("P", (2, 2), 0)
    palette.putpalette([200, 100, 50])
    palette.save(tmp_path / "palette.png", transparency=0)
    for name in ("alpha", "grey", "palette"):
        assert formats.read_images([tmp_path / f"{name}.png"]).max() == 0


def test_orientation_and_first_frame(tmp_path: Path) -> None:
    """A photograph is turned as its camera says; of an animation the first frame counts."""
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    Image.new("L", (6, 4)).save(tmp_path / "turned.jpg", exif=exif)
    assert formats.read_images([tmp_path / "turned.jpg"]).shape == (1, 1, 6, 4)
    frames = [Image.new("L", (4, 4), level) for level in (10, 200)]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    assert np.unique(formats.read_images([tmp_path / "moving.gif"])).tolist() == [10]


def test_sizes(tmp_path: Path) -> None:
    """Without a size all images agree, or the odd one is named; with one, the central square is resized."""
    wide = np.zeros((4, 8), np.uint8)
    wide[:, 2:6] = np.arange(16, dtype=np.uint8).reshape(4, 4) * 4
    Image.fromarray(wide).save(tmp_path / "wide.png")
    Image.fromarray(GREY[:2, :2]).save(tmp_path / "small.png")
    paths = [tmp_path / "wide.png", tmp_path / "small.png"]
    with pytest.raises(ValueError, match=r"small.png: 2 x 2 pixels, but wide.png has 8 x 4: give a `size`"):
        formats.read_images(paths)
    images = formats.read_images(paths, 2)
    areas = wide[:, 2:6].reshape(2, 2, 2, 2).mean(axis=(1, 3))
    assert (images[0, 0] == areas).all()
    assert (images[1, 0] == GREY[:2, :2]).all()
    assert formats.read_images(paths, 6).shape == (2, 1, 6, 6)


@pytest.mark.filterwarnings("ignore")  # as in use, where warnings are no errors
def test_images_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not an image, cut off, too many bits, a decompression bomb: an error that names the file."""
    whole = tmp_path / "whole.png"
    Image.fromarray(np.random.RandomState(0).randint(0, 256, (64, 64)).astype(np.uint8)).save(whole)
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "cut.png").write_bytes(whole.read_bytes()[:2000])
    Image.fromarray(np.full((2, 2), 2.0, np.float32)).save(tmp_path / "float.tif")
    Image.fromarray(np.full((2, 2), 70000, np.int32)).save(tmp_path / "long.tif")
    for name in ("text.png", "empty.jpg", "cut.png", "float.tif", "long.tif", "missing.png"):
        with pytest.raises(ValueError, match=f"{name}: not an image that can be read"):
            formats.read_images([tmp_path / name])
    for limit in (3000, 1000):  # Pillow warns at the limit and refuses at twice the limit
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(ValueError, match=r"whole.png: not an image that can be read .*decompression bomb"):
            formats.read_images([whole])


def test_class_folders(tmp_path: Path) -> None:
    """One folder per class, in the order of names; hidden files are ignored; errors name the folder."""
    for name in ("b/1.png", "b/deep/0.png", "a/2.png", "a/.hidden.png", ".git/x.png", "a/.cache/y.png", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = formats.class_files(tmp_path)
    assert list(found) == ["a", "b"]
    assert [p.relative_to(tmp_path).as_posix() for p in found["b"]] == ["b/1.png", "b/deep/0.png"]
    assert [p.name for p in found["a"]] == ["2.png"]
    (tmp_path / "c").mkdir()
    with pytest.raises(ValueError, match=r"/c: no image in this class folder"):
        formats.class_files(tmp_path)
    with pytest.raises(ValueError, match=r"b: must have a sub-folder of images for each of at least 2 classes"):
        formats.class_files(tmp_path / "b")
    with pytest.raises(ValueError, match=r"notes.txt: not a folder"):
        formats.class_files(tmp_path / "notes.txt")


def test_corrupt_stream_of_gz_is_named() -> None:
    content = bytearray(gzip.compress(idx_bytes(np.random.RandomState(0).randint(0, 9, 999).astype(np.uint8))))
    content[40:60] = bytes(20)
    with pytest.raises(ValueError, match=r"^x.gz: not a whole .gz file") as caught:
        formats.idx_from_gzip(bytes(content), "x.gz", 1)
    assert isinstance(caught.value.__cause__, (zlib.error, OSError, EOFError))
