"""One process per folder: a lock that ends with the process that holds it."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

_PATIENCE = 2.0  # seconds: the lock of a process that was just killed may take a moment to go


class BusyError(OSError):
    """Another process holds the folder."""


@contextlib.contextmanager
def locked_folder(folder: Path, needed: int) -> Iterator[None]:
    """Make a folder and hold it against other processes; temporary files of killed writes are removed.

    A folder that cannot be written, or a disk with fewer than `needed` bytes free, is an OSError at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=_PATIENCE)
    except Timeout:
        raise BusyError(f"{folder}: another process is at work there; wait for it, or choose another folder.") from None
    except NotImplementedError:  # a file system without locks
        pass
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):  # likewise
            raise
    try:
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise OSError(
                f"{folder}: {free / 2**20:.0f} MiB are free on this disk, {needed / 2**20:.0f} MiB are needed for "
                "checkpoints: make room, or choose another folder."
            )
        for left in folder.rglob(".*.tmp"):
            left.unlink(missing_ok=True)
        yield
    finally:
        lock.release()
