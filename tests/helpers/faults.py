"""The command line in processes of their own, each with a misfortune that it will meet.

They are forked from one server that has imported torch and has run nothing: it has one thread, so that a fork is safe,
and a run takes a second instead of five.
"""

import contextlib
import itertools
import multiprocessing
import os
import pathlib
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from shiftproof.commands.main import main
from shiftproof.experiments import sweep
from shiftproof.training import loop
from shiftproof.training.journal import Journal

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "shiftproof.experiments.sweep",
        "shiftproof.training.loop",
        "sklearn.datasets",
        "safetensors.torch",
        "torch._dynamo",
    ]
)
PATIENCE = 120.0  # seconds; a guard against hanging, no measure of speed
PLACES = ("step", "write", "half", "rename", "renamed", "removal", "log")


@dataclass(frozen=True)
class Fault:
    """What happens when a run comes to a place for the so-manieth time.

    The deed: a signal to itself, a file that fills the disk, or None: none of its files may grow beyond a kilobyte.
    """

    place: str  # `clock`, `claim` of the folder, or one of `PLACES`: `half` of a file, `log` in half a line, ...
    count: int = 1
    deed: signal.Signals | Path | None = signal.SIGKILL
    file: str = ""  # of the files written or removed, those with this in their name


class Child:
    """A process that runs `shiftproof WORDS` with some variables of the environment; what it prints goes to a file."""

    def __init__(
        self, words: Sequence[str], log: Path, *faults: Fault | None, variables: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        self._process = CONTEXT.Process(target=_live, args=(list(words), log, faults, dict(variables or {})))
        self._process.start()
        _alive.append(self)

    @property
    def said(self) -> str:
        """What it has printed so far."""
        return self.log.read_text() if self.log.exists() else ""

    def send(self, number: signal.Signals, after: float = 0.0) -> None:
        """A signal after so many seconds, to it and its own children; nothing, if it has ended."""
        self._process.join(after)
        if self._process.is_alive():
            assert self._process.pid is not None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def end(self) -> None:
        """Whatever it does, even nothing, it does it no longer."""
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def wait(self) -> int:
        """Its exit code, or minus the signal that ended it."""
        self._process.join(PATIENCE)
        if self._process.exitcode is None:
            raise TimeoutError(self.said)
        return self._process.exitcode

    def until(self, ready: Callable[[], Any]) -> None:
        """Wait for something that it will do."""
        end = time.monotonic() + PATIENCE
        while not ready():
            assert self._process.is_alive(), self.said
            assert time.monotonic() < end, self.said
            time.sleep(0.02)

    def ended(self) -> bool:
        """Whether it has come to its end."""
        return not self._process.is_alive()

    def stopped(self) -> bool:
        """Whether SIGSTOP holds it."""
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


_alive: list[Child] = []


def end_all() -> None:
    """No process outlives the test that began it."""
    while _alive:
        _alive.pop().end()


def _live(words: list[str], log: Path, faults: tuple[Fault | None, ...], variables: dict[str, str]) -> None:
    os.setsid()
    os.environ.update(variables)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where the tests are
    loop._LOG_EVERY = 1
    sweep._PAUSE = 0.1
    for fault in filter(None, faults):
        _plant(fault)
    try:
        code = main(words)
    except BaseException:
        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    os._exit(code)


def _plant(fault: Fault) -> None:
    left = fault.count

    def here() -> bool:
        nonlocal left
        left -= 1
        return left == 0

    def before(owner: Any, name: str, ready: Callable[..., bool], more: Callable[..., None] = lambda *_: None) -> None:
        original = getattr(owner, name)

        def patched(*a: Any, **k: Any) -> Any:
            if ready(*a) and here():
                more(*a)
                _do(fault.deed)
            return original(*a, **k)

        setattr(owner, name, patched)

    def after(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def patched(*a: Any, **k: Any) -> Any:
            value = original(*a, **k)
            if here():
                _do(fault.deed)
            return value

        setattr(owner, name, patched)

    def meant(file: int) -> bool:
        return stat.S_ISREG(os.fstat(file).st_mode) and fault.file in os.readlink(f"/proc/self/fd/{file}")

    def begin(journal: Journal, *_: Any) -> None:
        journal._file.write('{"event": "st')
        journal._file.flush()

    match fault.place:
        case "clock":
            _jump()
        case "claim":
            before(loop, "locked_folder", lambda *_: True)
        case "step":
            before(torch.optim.SGD, "step", lambda *_: True)
        case "write":
            before(os, "fsync", meant)
        case "half":
            before(os, "fsync", meant, lambda file: os.ftruncate(file, os.fstat(file).st_size // 2))
        case "rename":
            before(pathlib.Path, "replace", lambda *_: True)
        case "renamed":
            after(pathlib.Path, "replace")
        case "removal":
            before(pathlib.Path, "unlink", lambda path: path.name.startswith("step-") and fault.file in path.name)
        case "log":
            before(Journal, "write", lambda *_: True, begin)
        case place:
            raise ValueError(place)


def _do(deed: signal.Signals | Path | None) -> None:
    if isinstance(deed, signal.Signals):
        os.kill(os.getpid(), deed)
    elif deed is None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**10, resource.RLIM_INFINITY))
    else:
        with contextlib.suppress(OSError), deed.open("wb", buffering=0) as file:
            while file.write(bytes(2**12)):
                pass


def _jump() -> None:
    """Every look at the clock on the wall finds it hours ahead, or hours back."""
    original, jumps = time.time, itertools.cycle((-4, 9, 0, -7, 5))
    time.time = lambda: original() + 3600 * next(jumps)


@contextlib.contextmanager
def disk(folder: Path, size: int) -> Iterator[Path | None]:
    """A disk of so many bytes, mounted on `folder`; None where that is not allowed."""
    folder.mkdir()
    mount, words = shutil.which("mount"), ["-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if mount is None or subprocess.run([mount, *words], capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def protect(folder: Path) -> None:
    """Make a mounted disk read-only."""
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
