"""Progress of long operations on standard error: bars on a terminal, lines elsewhere, nothing if quiet."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

ProgressCallback = Callable[[str, float, "int | None"], None]  # (what, done, total if it is known)

_quiet = False


@contextlib.contextmanager
def hushed(quiet: bool) -> Iterator[None]:
    """Print no progress inside this block if `quiet`. Errors are not affected."""
    global _quiet
    before, _quiet = _quiet, _quiet or quiet
    try:
        yield
    finally:
        _quiet = before


def quiet() -> bool:
    """Whether progress is switched off."""
    return _quiet


def say(text: str) -> None:
    """Print one line, unless quiet."""
    if not _quiet:
        print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Print one line, even if quiet."""
    print(f"shiftproof: WARNING: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def reporting(title: str = "", *, bytes_: bool = False) -> Iterator[ProgressCallback]:
    """Yield a function of (what, done, total). It shows a bar for each `what` on a terminal, a line elsewhere.

    `title` is printed before each line; `bytes_` means that `done` and `total` count bytes.
    """
    if _quiet or not sys.stderr.isatty():
        seen = set()

        def line(what: str, done: float, total: int | None) -> None:
            if what not in seen:
                size = f" ({total / 1e6:.1f} MB)" if bytes_ and total is not None else ""
                say(f"{title}: {what}{size}" if title else f"{what}{size}")
            seen.add(what)

        yield line
        return
    from rich import progress
    from rich.console import Console

    columns: list[Any] = [progress.TextColumn("{task.description}"), progress.BarColumn()]
    columns += (
        [progress.DownloadColumn(), progress.TransferSpeedColumn()] if bytes_ else [progress.TaskProgressColumn()]
    )
    with progress.Progress(
        *columns, progress.TimeRemainingColumn(), console=Console(stderr=True), transient=not bytes_
    ) as bars:
        tasks: dict[str, progress.TaskID] = {}

        def bar(what: str, done: float, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield bar
