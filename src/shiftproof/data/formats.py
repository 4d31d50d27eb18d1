"""The files of data sets as arrays: CIFAR's binaries and pickles, idx, .amat.

Nothing in a file is executed or trusted; every error begins with the file's name.
Letters: N images, C channels, H x W pixels.
"""

from __future__ import annotations

import gzip
import io
import math
import pickle
import zlib
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftproof.safe_io import pickles

Bytes = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

CIFAR_PIXELS = 3 * 32 * 32
CIFAR_LABELS = {10: ("labels",), 100: ("coarse_labels", "fine_labels")}  # the last one is the class
AMAT_PIXELS = 28 * 28
LARGEST_FILE = 2**30  # bytes; no file of any set here is larger


def checked_labels(labels: npt.NDArray[Any], classes: int, name: object) -> Labels:
    """Labels as int64, if each is one of 0..classes - 1."""
    wrong = np.flatnonzero(~np.isin(labels, np.arange(classes)))
    if wrong.size:
        raise ValueError(f"{name}: label {labels[wrong[0]]:g} of image {wrong[0]} must be one of 0..{classes - 1}.")
    return labels.astype(np.int64)


def cifar(content: bytes, name: object, classes: int) -> tuple[Bytes, Labels]:
    """Images (N, 3, 32, 32) and labels (N,) of a CIFAR binary: label bytes, then the planes R, G and B, per image."""
    leading = len(CIFAR_LABELS[classes])
    width = leading + CIFAR_PIXELS
    if not content or len(content) % width:
        raise ValueError(
            f"{name}: {len(content):,} bytes are not a whole number of records of {width} bytes: "
            f"the file is truncated, or not CIFAR-{classes} in its binary version."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, width)
    labels = checked_labels(records[:, leading - 1], classes, name)
    return records[:, leading:].reshape(-1, 3, 32, 32).copy(), labels


class _StandIn:
    """Stands in for what a pickle names, so that no other code runs on its input; it takes no state."""

    def __setstate__(self, state: Any) -> None:
        pass


class _Array(_StandIn):
    """What a pickle says about a numpy array."""

    shape: Any = ()
    dtype: Any = None
    fortran: Any = False
    content: Any = b""

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.dtype, self.fortran, self.content = state


class _Dtype(_StandIn):
    """What a pickle says about a numpy dtype."""

    def __init__(self, code: object = None, *_: object) -> None:
        self.code = code


class _Encoded(_StandIn):
    """`_codecs.encode(text, "latin1")`: how protocol 2 writes bytes."""

    def __new__(cls, text: str, *_: object) -> bytes:  # type: ignore[misc]
        return text.encode("latin1")


# only classes: a pickle can call them, and their `__setstate__` keeps it from setting attributes
_STAND_INS: dict[tuple[str, str], type[_StandIn]] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Encoded,
}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type[_StandIn]:
        try:
            return _STAND_INS[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, and only arrays are allowed") from None


def cifar_from_pickle(content: bytes, name: object, classes: int) -> bytes:
    """The binary version of one pickled batch of CIFAR: the same bytes as the official binary file."""
    try:
        pickles.vet(io.BytesIO(content))
        batch = _Restricted(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a broken pickle can raise nearly anything
        raise ValueError(f"{name}: not a pickle of arrays that can be read safely ({error}).") from error
    if not isinstance(batch, dict):
        raise ValueError(f"{name}: must hold a dictionary, not {type(batch).__name__}.")
    entries = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in batch.items()}
    data = entries.get("data")
    columns: list[Any] = [entries.get(key) for key in CIFAR_LABELS[classes]]
    if not isinstance(data, _Array) or not all(isinstance(column, list) for column in columns):
        raise ValueError(f"{name}: must hold `data` and {' and '.join(f'`{k}`' for k in CIFAR_LABELS[classes])}.")
    count = len(columns[0])
    if (
        getattr(data.dtype, "code", None) not in ("u1", b"u1")
        or data.shape != (count, CIFAR_PIXELS)
        or data.fortran
        or not isinstance(data.content, bytes)
        or len(data.content) != count * CIFAR_PIXELS
    ):
        raise ValueError(f"{name}: `data` must be {count} rows, one per label, of {CIFAR_PIXELS} bytes.")
    if not all(type(v) is int and 0 <= v < classes for column in columns for v in column):
        raise ValueError(f"{name}: labels must be integers in 0..{classes - 1}.")
    if any(len(column) != count for column in columns):
        raise ValueError(f"{name}: the lists of labels differ in length.")
    pixels = np.frombuffer(data.content, np.uint8).reshape(count, CIFAR_PIXELS)
    return np.concatenate([np.array(columns, np.uint8).T, pixels], axis=1).tobytes()


def idx(content: bytes, name: object, ndim: int) -> Bytes:
    """The array of bytes in an idx file: magic number, one length per axis (big-endian), the bytes."""
    size = _idx_size(content[: 4 + 4 * ndim], name, ndim)
    if len(content) != size:
        state = "truncated" if len(content) < size else "followed by something else"
        raise ValueError(f"{name}: {len(content):,} bytes where its header promises {size:,}: the file is {state}.")
    shape = np.frombuffer(content, ">u4", ndim, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * ndim).reshape(shape.astype(np.int64)).copy()


def _idx_size(header: bytes, name: object, ndim: int) -> int:
    if header[:4] != bytes([0, 0, 8, ndim]) or len(header) < 4 + 4 * ndim:
        raise ValueError(f"{name}: not an idx file of bytes with {ndim} axes (it begins with {header[:4].hex()!r}).")
    return len(header) + math.prod(int(d) for d in np.frombuffer(header, ">u4", offset=4))


def idx_from_gzip(content: bytes, name: object, ndim: int) -> bytes:
    """The idx file in a .gz file; at most one byte more than its header promises is unpacked."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            header = file.read(4 + 4 * ndim)
            size = _idx_size(header, name, ndim)
            if size > LARGEST_FILE:
                raise ValueError(f"{name}: its header promises {size:,} bytes, more than any data set here has.")
            rest = file.read(size - len(header) + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{name}: not a whole .gz file ({error}).") from error
    if len(header) + len(rest) > size:
        raise ValueError(f"{name}: unpacks to more than the {size:,} bytes its header promises.")
    return header + rest


def amat(lines: Iterable[str], name: object, rows: int) -> tuple[Bytes, Labels]:
    """Images (N, 1, 28, 28) and labels (N,) of a text file: on each line 784 numbers in [0, 1], then the label."""
    images, labels = [], []
    filled = (line for line in lines if line.strip())
    while block := list(islice(filled, 1000)):
        try:
            table = np.loadtxt(block, np.float32, comments=None, ndmin=2)
        except ValueError as error:
            raise ValueError(f"{name}: not a table of numbers ({error}).") from error
        if table.shape[1] != AMAT_PIXELS + 1:
            raise ValueError(
                f"{name}: {table.shape[1]} numbers on a line; it should have {AMAT_PIXELS} pixels and a label."
            )
        pixels = table[:, :-1]
        if not ((pixels >= 0) & (pixels <= 1)).all():
            raise ValueError(f"{name}: pixels must lie in [0, 1].")
        images.append(np.rint(pixels * 255).astype(np.uint8).reshape(-1, 1, 28, 28))
        labels.append(checked_labels(table[:, -1], 10, name))
    count = sum(map(len, labels))
    if count != rows:
        raise ValueError(f"{name}: {count:,} images; it should have {rows:,}: the file is truncated or another one.")
    return np.concatenate(images), np.concatenate(labels)
