"""A process of its own that reads files: watched, with a ceiling on its memory, ended where it hangs."""

import importlib
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOM = 2**31  # bytes of address space beyond what the process has when it begins
PATIENCE = 60.0  # seconds; a guard against hanging, no measure of speed

_PROCESSES = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "subprocess.Popen")
_SOCKETS = ("socket.connect", "socket.bind", "socket.getaddrinfo")
_CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.chmod", "os.truncate")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass
class Outcome:
    """What became of one call: its value, or its error; what it did to the world; how much memory it took."""

    kind: str = "value"  # or the name of the error's class, or `killed`, `hung`
    expected: bool = True  # whether the error is a ValueError or an OSError
    message: str = ""
    causes: str = ""  # the errors behind the error
    deeds: list[str] = field(default_factory=list)  # processes, sockets, files written outside the folder
    peak: int = 0  # bytes of memory beyond those before the call


class Sandbox:
    """Calls functions by the names of their module and their own, each with a path."""

    def __init__(self) -> None:
        self._process: Any = None
        self.warm: set[str] = set()  # what was called once at least, with its imports

    def call(self, module: str, function: str, path: Path) -> Outcome:
        """What `module.function(path)` does; it may write in the folder of `path`, and nowhere else."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        self._pipe.send((module, function, str(path)))
        try:
            if self._pipe.poll(PATIENCE):
                return self._pipe.recv()  # type: ignore[no-any-return]
            outcome = Outcome("hung", False)
        except (EOFError, ConnectionResetError):
            self._process.join()
            outcome = Outcome("killed", False, f"exit code {self._process.exitcode}")
        self.close()
        return outcome

    def close(self) -> None:
        """End the process; the next call starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None
            self.warm.clear()


def _serve(pipe: Connection) -> None:
    import resource

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")  # as in use, where they are no errors
    deeds: list[str] = []
    place = [""]
    sys.addaudithook(lambda event, args: _watch(event, args, place[0], deeds))
    known: dict[str, Callable[..., None]] = {}
    while True:
        module, function, path = pipe.recv()
        name = f"{module}.{function}"
        if name not in known:
            known[name] = getattr(importlib.import_module(module), function)
        place[0] = os.path.realpath(os.path.dirname(path))
        os.chdir(place[0])
        resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + ROOM, resource.RLIM_INFINITY))
        deeds.clear()
        Path("/proc/self/clear_refs").write_text("5")
        before = _memory("VmRSS")
        outcome = _outcome(known[name], Path(path))
        outcome.peak = max(0, _memory("VmHWM") - before)
        outcome.deeds = [deed for deed in deeds if "/proc/self/clear_refs" not in deed]
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        pipe.send(outcome)


def _outcome(function: Callable[..., None], path: Path) -> Outcome:
    try:
        function(path)
    except BaseException as error:
        causes: list[str] = []
        behind = error.__cause__ or error.__context__
        while behind is not None and len(causes) < 20:
            causes.append(f"{type(behind).__name__}: {str(behind)[:200]}")
            behind = behind.__cause__ or behind.__context__
        expected = isinstance(error, (ValueError, OSError))
        return Outcome(type(error).__name__, expected, str(error)[:2000], "; ".join(causes))
    return Outcome()


def _watch(event: str, args: tuple[Any, ...], place: str, deeds: list[str]) -> None:
    if event in _PROCESSES or event in _SOCKETS:
        deeds.append(f"{event} {args!r}"[:300])
    elif event == "open":
        path, mode, flags = args
        writes = bool(flags & _WRITING) if isinstance(flags, int) else any(c in (mode or "") for c in "wax+")
        if writes and isinstance(path, (str, bytes)) and not _inside(os.fsdecode(path), place):
            deeds.append(f"{event} {args!r}"[:300])
    elif event in _CHANGES and not all(_inside(os.fsdecode(a), place) for a in args if isinstance(a, (str, bytes))):
        deeds.append(f"{event} {args!r}"[:300])


def _inside(path: str, place: str) -> bool:
    return path == os.devnull or os.path.join(os.path.realpath(path), "").startswith(os.path.join(place, ""))


def _memory(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(key)
