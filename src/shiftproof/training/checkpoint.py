"""Checkpoints that survive a kill at any moment.

A checkpoint is one safetensors file: tensors as they are, the rest as JSON in its header, with a digest over both. It
is written to another name, flushed to the disk and renamed: under its own name it is whole, or it is not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from shiftproof.data.store import atomic_write

_HEADER = "shiftproof"
_PATTERN = "step-*.safetensors"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Tensors and a JSON-able state into one file; the file is replaced as a whole or not at all."""
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    text = json.dumps(state, sort_keys=True)
    save = importlib.import_module("safetensors.torch").save
    # one entry: several would come in any order, and equal states should be equal files
    header = json.dumps({"digest": tensor_digest(plain, text), "state": text})
    atomic_write(path, save(plain, {_HEADER: header}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote; a file that is not exactly that is a ValueError. Nothing in it is executed."""
    safetensors = importlib.import_module("safetensors")
    try:
        with safetensors.safe_open(path, "pt") as file:
            meta = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(meta[_HEADER])
        if tensor_digest(tensors, header["state"]) != header["digest"]:
            raise ValueError("its contents do not match its digest")
        state = json.loads(header["state"])
        if not isinstance(state, dict):
            raise ValueError(f"its state is a {type(state).__name__}")
        return tensors, state
    except (OSError, MemoryError):
        raise  # says nothing about the file
    except Exception as error:  # the reader has its own kinds, and a damaged header has them all
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"{path}: not a checkpoint that can be read: {reason}") from None


def tensor_digest(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """sha256 over a text and over names, types, shapes and bytes of tensors."""
    out = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        t = tensors[name].detach().cpu().contiguous()
        out.update(f"{name} {t.dtype} {tuple(t.shape)}".encode())
        out.update(t.reshape(-1).view(torch.uint8).numpy().data)
    return out.hexdigest()


class Checkpoints:
    """The newest checkpoints of a run, in a folder of their own."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder
        self.keep = keep

    def files(self) -> list[Path]:
        """All checkpoints, the newest first."""
        return sorted(self.folder.glob(_PATTERN), reverse=True)

    def save(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Write the checkpoint of a step, then remove the oldest beyond those to keep."""
        write_tensors(self.folder / f"step-{step:09d}.safetensors", tensors, state)
        self._clear()

    def _clear(self) -> None:
        for old in self.files()[self.keep :]:
            old.unlink(missing_ok=True)

    def newest(self, complain: Callable[[str], None]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest checkpoint that can be read, or None; those that cannot are named to `complain` and set aside."""
        files = self.files()
        for path in files:
            try:
                found = read_tensors(path)
                self._clear()  # a kill may have come between a write and the removal
                return found
            except ValueError as error:
                left = "Falling back to the one before" if path != files[-1] else "None is left: beginning anew"
                complain(f"{error}. {left}.")
                path.replace(path.with_suffix(".damaged"))
        return None


class BusyError(OSError):
    """A folder that another process holds."""


def _lock(file: IO[str], folder: Path) -> None:
    """Hold a file against other processes, where the system has such locks; a process just killed may take a moment."""
    try:
        import fcntl
    except ModuleNotFoundError:  # pragma: no cover
        return None
    for _ in range(20):
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.1)
        except OSError:  # a file system that knows no locks
            return None
    raise BusyError(f"{folder}: another process is at work there; wait for it, or choose another folder.")


@contextlib.contextmanager
def claimed(folder: Path, needed: int) -> Iterator[None]:
    """Make a run's folder and hold it against other processes; leftovers of a killed write are cleared.

    A folder that cannot be written, or a disk with fewer than `needed` bytes free, is an error at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a+") as lock:
        _lock(lock, folder)
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise OSError(
                f"{folder}: {free / 2**20:.0f} MiB are free on this disk, {needed / 2**20:.0f} MiB are needed for "
                "checkpoints: make room, or choose another folder."
            )
        for left in folder.rglob(".*.tmp"):
            left.unlink(missing_ok=True)
        yield
