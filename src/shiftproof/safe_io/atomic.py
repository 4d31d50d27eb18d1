"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def atomic_write(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, whole, even after a crash.

    The bytes go to a temporary name in the same folder, `.NAME.PID.tmp`, and reach the disk before it is renamed. A
    process killed in between leaves that name, which nothing reads. An OSError names `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:  # the error of a failed write names no file
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
    """Make sure that a folder exists and that files can be made in it; OSError if not."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
