"""What a run asks of its process: threads, memory that is kept, a way to be stopped, how much memory it took."""

from __future__ import annotations

import contextlib
import ctypes
import platform
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """`count` threads for torch on the CPU, or as many as there are for 0."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def keep_memory() -> None:
    """Let glibc's malloc keep what is freed, for this whole process.

    Otherwise it gives large tensors back to the system, which has to make their pages anew in every step: a third of
    the time of a network that works on maps of 224 x 224 pixels.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    trim_threshold, mmap_threshold = -1, -3  # as malloc.h numbers them
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_threshold, 2**30)
    libc.mallopt(trim_threshold, 2**31 - 1)


@contextlib.contextmanager
def stop_requests(wanted: bool) -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, so that a step is finished and a checkpoint written; a second one kills."""
    stop = threading.Event()
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield stop
        return

    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, _: Any) -> None:
        signal.signal(number, before[signal.Signals(number)])
        stop.set()

    for s in before:
        signal.signal(s, handle)
    try:
        yield stop
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


class Stopwatch:
    """Counts on from `seconds`; a clock that is set back takes none of them away."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds, self._seen = seconds, time.monotonic()

    def __call__(self) -> float:
        """The seconds so far."""
        now = time.monotonic()
        self._seconds += max(0.0, now - self._seen)
        self._seen = now
        return self._seconds


def peak_bytes() -> int | None:
    """The most memory this process has held, where the system tells."""
    try:
        import resource
    except ModuleNotFoundError:  # pragma: no cover
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
