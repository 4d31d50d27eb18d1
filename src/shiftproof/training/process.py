"""What a run asks of its process: threads, memory, signals, time."""

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
    """Let torch use `count` threads on the CPU; 0 changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def keep_memory() -> None:
    """Let glibc's malloc keep freed memory, for the whole process.

    Otherwise it returns large tensors to the system, which has to map their pages again in every step. That takes a
    third of the time of a network on maps of 224 x 224 pixels.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    trim_threshold, mmap_threshold = -1, -3  # as malloc.h numbers them
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_threshold, 2**30)
    libc.mallopt(trim_threshold, 2**31 - 1)


@contextlib.contextmanager
def stop_requests(wanted: bool) -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, so that a run can finish its step and save; a second signal kills."""
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
    """Counts seconds, beginning with `seconds`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._start = time.monotonic() - seconds

    def __call__(self) -> float:
        """The seconds so far."""
        return time.monotonic() - self._start


def peak_bytes() -> int | None:
    """The most memory this process has held, or None where the system does not tell."""
    try:
        import resource
    except ModuleNotFoundError:  # pragma: no cover
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
