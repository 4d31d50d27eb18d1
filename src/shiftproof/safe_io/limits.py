"""Bounded reading of files, and JSON exactly as its standard defines it."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any

DEPTH = 100  # levels of nesting in JSON


def read_bounded(path: Path, largest: int) -> bytes:
    """The bytes of a file; ValueError if it is not a regular file or has more than `largest` bytes."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path}: not a regular file.")
    with path.open("rb") as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise ValueError(f"{path}: {found.st_size:,} bytes; at most {largest:,} are read here.")
    return data


def parse_json(data: bytes) -> Any:
    """The value of a JSON text in UTF-8.

    A ValueError where Python reads more than JSON has (NaN, infinite numbers, a key twice), and beyond `DEPTH` levels:
    code that works on the value would run out of stack.
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
    raise ValueError(f"{word} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is too large for a number")
    return number


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("a key occurs twice")
    return out
