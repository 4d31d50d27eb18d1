"""Dataclass fields that carry their help text and check their values."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Sequence
from typing import Any

from shiftproof import checks


def setting(default: Any, text: str, *, least: float | None = None, words: Sequence[str] = ()) -> Any:
    """A field of a `Checked` dataclass: its default, its help text, and the values it allows."""
    meta = {"help": text, "least": least, "words": tuple(words)}
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=meta)
    return dataclasses.field(default=default, metadata=meta)


class Checked:
    """A dataclass that checks the type and range of its settings when it is made."""

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            if f.metadata:
                value = _typed(f.name, getattr(self, f.name), hints[f.name])
                object.__setattr__(self, f.name, value)
                if f.metadata["words"]:
                    checks.choice(f.name, value, f.metadata["words"])
                least = f.metadata["least"]
                numbers = value if isinstance(value, list) else [value]
                if least is not None and any(v is not None and not v >= least for v in numbers):
                    raise ValueError(f"`{f.name}` (={checks.shown(value)}) must be at least {least}.")


def _typed(name: str, value: Any, hint: Any) -> Any:
    """`value` if it is of the annotated type; whole numbers are accepted as floats."""
    if isinstance(hint, types.UnionType):
        if value is None:
            return None
        (hint,) = (h for h in typing.get_args(hint) if h is not types.NoneType)
    kind = typing.get_origin(hint) or hint
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind is float and isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"`{name}` (={value}) must be finite.")
    wrong = not isinstance(value, kind) or (kind is not bool and isinstance(value, bool))
    if kind is list:
        wrong = wrong or any(isinstance(v, bool) or not isinstance(v, typing.get_args(hint)[0]) for v in value)
    if wrong:
        raise ValueError(f"`{name}` (={checks.shown(value)}) must be of type {kind.__name__}.")
    return value
