"""Pickles from anyone: those that take endless time or memory are refused before they are read.

The unpickler decides which classes and functions a pickle may name. Plain values alone can still do harm: a pickle can
name a place in its memo up to which the unpickler reserves memory, and it can use a tuple of tuples as a key. If these
are shared or nested often enough, the hash of the key never ends, or it uses up the stack.
"""

from __future__ import annotations

import io
import pickletools
from typing import IO, Any

LONGEST = 4 * 10**6  # instructions; no honest pickle here comes near
DEEPEST = 100  # tuples inside one another, in a key

_PUT = ("PUT", "BINPUT", "LONG_BINPUT")
_GET = ("GET", "BINGET", "LONG_BINGET")
_GROUPS = ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE", "LIST", "EMPTY_LIST", "FROZENSET")
_MARK: Any = object()


class _Rest:
    """The rest of a stream; asking for more than there is reserves no memory."""

    def __init__(self, stream: IO[bytes]) -> None:
        here = stream.tell()
        self._stream, self._end = stream, stream.seek(0, io.SEEK_END)
        stream.seek(here)

    def read(self, size: int) -> bytes:
        return self._stream.read(min(size, self._end - self._stream.tell()))

    def readline(self) -> bytes:
        return self._stream.readline()


def vet(stream: IO[bytes]) -> None:
    """Walk through the pickle at the stream's position without making its objects; ValueError if it would not end.

    The stack is simulated: a list stands for a tuple, a list or a frozenset with its items, None for anything else.
    """
    stack: list[Any] = []
    memo: dict[Any, Any] = {}
    budget = 1000
    rest: Any = _Rest(stream)
    for count, (opcode, argument, _) in enumerate(pickletools.genops(rest)):
        name, budget = opcode.name, budget + 10  # an honest key is short: this many parts, all keys together
        if count > LONGEST:
            raise ValueError(f"it has more than {LONGEST:,} instructions")
        if name in _PUT or name == "MEMOIZE":
            place = len(memo) if argument is None else argument
            if not 0 <= place <= count:
                raise ValueError(f"it stores {count} things at most, and one of them at place {place}")
            memo[place] = stack[-1]
        elif name in _GET:
            stack.append(memo[argument])
        elif name == "DUP":
            stack.append(stack[-1])
        else:
            taken = _take(stack, opcode)
            budget = _hashed(_keys(name, taken), budget)
            _put(stack, opcode, taken)


def _take(stack: list[Any], opcode: pickletools.OpcodeInfo) -> list[Any]:
    """What an instruction takes from the stack: everything above the last mark, and its arguments below it."""
    before = list(opcode.stack_before)
    taken: list[Any] = []
    if pickletools.markobject in before:
        while (top := stack.pop()) is not _MARK:
            taken.append(top)
        before = before[: before.index(pickletools.markobject)]
    taken += [stack.pop() for _ in before]
    return taken[::-1]


def _put(stack: list[Any], opcode: pickletools.OpcodeInfo, taken: list[Any]) -> None:
    if opcode.name in ("APPEND", "APPENDS"):
        if isinstance(taken[0], list):
            taken[0].extend(taken[1:])
        stack.append(taken[0])
    elif opcode.name in _GROUPS:
        stack.append(taken)
    else:
        stack.extend(_MARK if kind is pickletools.markobject else None for kind in opcode.stack_after)


def _keys(name: str, taken: list[Any]) -> list[Any]:
    """The arguments of an instruction that are hashed, or handed to a function that may hash them."""
    if name in ("SETITEM", "SETITEMS"):
        return taken[1::2]
    if name == "DICT":
        return taken[::2]
    return taken if name in ("ADDITEMS", "FROZENSET", "REDUCE", "NEWOBJ", "NEWOBJ_EX", "OBJ", "INST", "BUILD") else []


def _hashed(keys: list[Any], budget: int) -> int:
    """What is left of the budget after hashing the keys, part by part; a part that occurs twice is hashed twice."""
    todo = [(key, 0) for key in keys if key]
    while todo:
        node, depth = todo.pop()
        budget -= len(node)
        if budget < 0 or depth > DEEPEST:
            raise ValueError("it has a key of tuples in tuples that takes too long to look up")
        todo += [(child, depth + 1) for child in node if child]
    return budget
