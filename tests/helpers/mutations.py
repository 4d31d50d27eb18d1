"""Damage to files, as hypothesis draws it: cuts, flipped bits, enormous numbers, words that parsers dislike."""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

NUMBERS = [
    struct.pack(form, value)
    for form, values in {
        "<I": (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF),
        ">I": (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF),
        "<Q": (2**31, 2**40, 2**63 - 1, 2**64 - 1),
        ">Q": (2**40, 2**63 - 1),
    }.items()
    for value in values
]
WORDS = [
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1", b"null", b"true", b"0.5", b'""', b"[]", b"{}"),
    *(b'{"a":', b"[", b"]", b"}", b'"', b"\\", b"\n", b"\r\n", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"=", b".", b","),
    *(b"[" * 3000, b"9" * 5000, b"../", b"/etc/passwd", b"__import__('os')", b"inf", b"nan", b"1e-999"),
]


@dataclass(frozen=True)
class Edit:
    """One change, at a place that is taken modulo the length."""

    kind: str
    at: int
    text: bytes = b""
    length: int = 0

    def __call__(self, content: bytes) -> bytes:
        at = self.at % (len(content) + 1)
        head, tail = content[:at], content[at:]
        if self.kind == "cut":
            return head
        if self.kind == "flip":
            return head + bytes([tail[0] ^ (1 << self.length % 8)]) + tail[1:] if tail else head
        if self.kind == "overwrite":
            return head + self.text + tail[len(self.text) :]
        if self.kind == "insert":
            return head + self.text + tail
        if self.kind == "remove":
            return head + tail[self.length :]
        assert self.kind == "repeat"
        return head + tail[: self.length] * 2 + tail[self.length :]


places = st.one_of(st.integers(0, 64), st.integers(0, 2**20))
lengths = st.one_of(st.integers(0, 16), st.integers(0, 4096))
texts = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(WORDS), st.binary(max_size=8))
edits = st.one_of(
    st.builds(Edit, st.just("flip"), places, length=st.integers(0, 7)),
    st.builds(Edit, st.sampled_from(["overwrite", "insert"]), places, texts),
    st.builds(Edit, st.sampled_from(["remove", "repeat"]), places, length=lengths),
    st.builds(Edit, st.just("cut"), places),
)


def damaged(content: bytes, wrap: Callable[[bytes], bytes]) -> st.SearchStrategy[bytes]:
    """`content` after one to four edits, packed again by `wrap`: with sums and lengths that fit."""

    def apply(changes: list[Edit]) -> bytes:
        out = content
        for change in changes:
            out = change(out)
        return wrap(out)

    return st.lists(edits, min_size=1, max_size=4).map(apply)
