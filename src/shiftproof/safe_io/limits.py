"""Files from anyone, read with a limit; JSON as its standard has it."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any

DEPTH = 100  # how far JSON may be nested


def content(path: Path, largest: int) -> bytes:
    """The bytes of a file; one that is no regular file or larger than `largest` bytes is a ValueError."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path}: not a regular file.")
    with path.open("rb") as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise ValueError(f"{path}: {found.st_size:,} bytes, and {largest:,} are the most that is read.")
    return data


def parse_json(data: bytes) -> Any:
    """The value of a JSON text in UTF-8.

    A ValueError where Python would read more than JSON has (NaN, infinite numbers, a key twice), and beyond a `DEPTH`
    at which what works on the value would run out of stack.
    """
    try:
        value = json.loads(
            data.decode(), parse_constant=_refused, parse_float=_finite, object_pairs_hook=_without_duplicates
        )
    except RecursionError:
        raise ValueError(f"nested deeper than {DEPTH} levels") from None
    level = [value]
    for _ in range(DEPTH):
        inside = (v.values() if isinstance(v, dict) else v for v in level if isinstance(v, (dict, list)))
        level = [child for children in inside for child in children]
        if not level:
            return value
    raise ValueError(f"nested deeper than {DEPTH} levels")


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is too large a number")
    return number


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("a key stands there twice")
    return out
