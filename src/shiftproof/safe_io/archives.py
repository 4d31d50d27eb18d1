"""Archives from anyone: members found by name, never unpacked to their own paths, never beyond a limit."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, cast

from shiftproof.safe_io.limits import read_bounded

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")


def read_members(path: Path, name: str, wanted: Collection[str], limit: int) -> Iterator[tuple[str, bytes]]:
    """The `wanted` files that the file `path`, known as `name`, holds: members of an archive, or the file itself.

    Members are found by the last part of their name, regular files only; the paths in an archive are never used. At
    most `limit` bytes are unpacked of a tar archive, and of each member of a zip archive; each name is read once.
    """
    if not name.endswith(ARCHIVES):
        if name in wanted:
            yield name, read_bounded(path, limit)
        return
    found: set[str] = set()
    try:
        for member, data in (_read_zip if name.endswith(".zip") else _read_tar)(path, wanted, limit):
            if member in found:
                raise ValueError(f"it holds {member} twice")
            found.add(member)
            yield member, data
    except OverflowError as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:  # a damaged archive can raise nearly anything
        raise ValueError(f"{path}: not a whole archive ({error}).") from error


class _Bounded(io.RawIOBase):
    """A stream that raises after `limit` bytes, so that nothing reads through a bomb or keeps it."""

    def __init__(self, stream: io.BufferedIOBase, limit: int) -> None:
        self._stream, self._limit, self._done = stream, limit, 0

    def read(self, size: int = -1, /) -> bytes:
        left = self._limit - self._done
        data = self._stream.read(left + 1 if size < 0 else min(size, left + 1))
        self._done += len(data)
        if self._done > self._limit:
            raise OverflowError(f"unpacks to more than {self._limit:,} bytes, and no data set here does.")
        return data


def _read_tar(path: Path, wanted: Collection[str], limit: int) -> Iterator[tuple[str, bytes]]:
    # the kinds in use: what tarfile guesses would include xz, which may ask for any amount of memory
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    stream = gzip.GzipFile(path) if packed else path.open("rb")
    with stream, tarfile.open(fileobj=cast(IO[bytes], _Bounded(stream, limit)), mode="r|") as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            if member.isreg() and not member.issparse() and name in wanted:
                _check_size(name, member.size, limit)
                data = archive.extractfile(member)
                assert data is not None  # of a regular file
                yield name, data.read()


def _read_zip(path: Path, wanted: Collection[str], limit: int) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = PurePosixPath(member.filename).name
            if not member.is_dir() and name in wanted:
                _check_size(name, member.file_size, limit)
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others take any memory
                    raise ValueError(f"{name} is packed in a way that is not read here")
                with archive.open(member) as file:
                    yield name, file.read(limit)


def _check_size(name: str, size: int, limit: int) -> None:
    if size > limit:
        raise OverflowError(f"{name} has {size:,} bytes, and no file of a data set here has more than {limit:,}.")
