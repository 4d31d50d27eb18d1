"""Argument checks with uniform messages: the argument in backticks, the value, the rule, the remedy."""

from __future__ import annotations

import contextlib
import difflib
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def shown(value: object, limit: int = 80) -> str:
    """`value` for a message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def one_line(error: BaseException, limit: int = 400) -> str:
    """What an error of other code says, in one line of a readable length; its class where it says nothing."""
    return " ".join(str(error).split())[:limit] or type(error).__name__


@contextlib.contextmanager
def renaming(pattern: str, new: str | Callable[[re.Match[str]], str]) -> Iterator[None]:
    """Let the message of a ValueError speak of other names: `new` in place of each match of `pattern`."""
    try:
        yield
    except ValueError as error:
        raise ValueError(re.sub(pattern, new, str(error))) from error


def choice(name: str, value: object, known: Iterable[str]) -> str:
    """Return `value` if it is one of the `known` words."""
    words = list(known)
    if not isinstance(value, str) or value not in words:
        listed = ", ".join(repr(word) for word in words)
        near = difflib.get_close_matches(str(value), words, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"`{name}` (={shown(value)}) must be one of {listed}.{hint}")
    return value


def integer(name: str, value: object, minimum: int = 1) -> int:
    """Return `value` as an int of at least `minimum`. Floats and booleans are errors."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"`{name}` (={shown(value)}) must be an integer, not {type(value).__name__}.")
    number = int(operator.index(value))
    if number < minimum:
        raise ValueError(f"`{name}` (={number}) must be at least {minimum}.")
    return number


def positive(name: str, value: object) -> float:
    """Return `value` as a finite float above zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"`{name}` (={shown(value)}) must be a number, not {type(value).__name__}.")
    number = float(value)
    if not math.isfinite(number) or number <= 0:
        raise ValueError(f"`{name}` (={number}) must be positive and finite.")
    return number


def per_axis(name: str, value: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return one integer of at least 1 per axis. A single integer is repeated."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != ndim:
            raise ValueError(f"`{name}` (={shown(value)}) must have one entry per axis ({ndim}), not {len(value)}.")
        return tuple(integer(name, v) for v in value)
    return (integer(name, value),) * ndim


def floating(name: str, x: Tensor) -> Tensor:
    """Return `x` if it is a real floating tensor."""
    import torch

    if not isinstance(x, torch.Tensor):
        raise TypeError(f"`{name}` must be a torch.Tensor, not {type(x).__name__}.")
    if not x.is_floating_point():
        raise TypeError(
            f"`{name}` (dtype {x.dtype}) must be a real floating tensor: convert it first, "
            f"for 8-bit images `{name}.float() / 255`."
        )
    return x


def maps(name: str, x: Tensor, ndim: int) -> Tensor:
    """Return `x` if it is a floating batch of maps (B, C, d1..dn); only B may be zero."""
    floating(name, x)
    if x.dim() != ndim + 2:
        axes = ", ".join(["B", "C", *("HW" if ndim == 2 else ["W"] if ndim == 1 else ["D", "H", "W"])])
        remedy = f" Add the batch axis with `{name}[None]`." if x.dim() == ndim + 1 else ""
        raise ValueError(
            f"`{name}` (shape {tuple(x.shape)}) must have {ndim + 2} dimensions ({axes}), not {x.dim()}.{remedy}"
        )
    if any(d == 0 for d in x.shape[1:]):
        raise ValueError(
            f"`{name}` (shape {tuple(x.shape)}) must not have a zero-sized axis; only the batch may be empty."
        )
    return x


def dimensions(ndim: object) -> int:
    """Return `ndim` if it is 1, 2 or 3, for which torch has operators."""
    if ndim not in (1, 2, 3):
        raise ValueError(f"`ndim` (={shown(ndim)}) must be 1, 2 or 3.")
    return integer("ndim", ndim)
