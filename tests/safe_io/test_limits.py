"""What stands before every reader: limits on files, strict JSON, pickles that end."""

import collections
import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import tally
from helpers.hostile import PICKLES
from helpers.laws import effort
from shiftproof.safe_io import limits, pickles

keys = st.recursive(st.one_of(st.integers(), st.text(), st.binary()), lambda k: st.lists(k, max_size=3).map(tuple))
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), keys),
    lambda v: st.one_of(st.lists(v, max_size=4), st.dictionaries(keys, v, max_size=4)),
)


def test_content_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert limits.read_bounded(path, 5) == b"12345"
    with pytest.raises(ValueError, match=r"x: 5 bytes; at most 4 are read here"):
        limits.read_bounded(path, 4)
    with pytest.raises(FileNotFoundError):
        limits.read_bounded(tmp_path / "missing", 4)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_what_never_ends_is_no_file(tmp_path: Path) -> None:
    """A pipe would be waited for, a device read for ever; a link to a file is one."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")
    for name in ("pipe", "zero", "."):
        with pytest.raises(ValueError, match="not a regular file"):
            limits.read_bounded(tmp_path / name, 10)
    assert limits.read_bounded(tmp_path / "link", 10) == b"1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"NaN", "NaN is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b"1e999", "1e999 is too large"),
        (b'{"a": 1, "a": 2}', "a key occurs twice"),
        (b"[" * 101 + b"]" * 101, "nested deeper than 100 levels"),
        (b"[" * 10**6, "nested deeper than 100 levels"),
        (b'"\xff"', "can't decode"),
        (b'\xff\xfe"\0a\0"\0', "can't decode"),
        (b"9" * 5000, "Exceeds the limit"),
    ],
)
def test_json_is_strict(text: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        limits.parse_json(text)


def test_json() -> None:
    assert limits.parse_json(b'{"a": [1, 2.5, null, true, "\xc3\xa9"]}') == {"a": [1, 2.5, None, True, "é"]}
    assert limits.parse_json(b"[" * 100 + b"]" * 100)


@effort(60, 3000)
@given(value=plain, protocol=st.integers(0, 5))
def test_honest_pickles_pass(value: Any, protocol: int) -> None:
    """Whatever Python's own pickler writes of plain values, shared ones included."""
    for content in (value, [value, value, (value, value)]):
        stream = io.BytesIO(pickle.dumps(content, protocol) + b"rest")
        pickles.vet(stream)
        assert stream.read() == b"rest"
    tally.count("Files: damaged and hostile", "honest pickles that must pass")


def test_honest_objects_pass() -> None:
    named = collections.OrderedDict((f"layer{i}", np.arange(i)) for i in range(50))
    betas = (0.9, 0.999)
    for protocol in range(6):
        pickles.vet(
            io.BytesIO(pickle.dumps({"state": named, "groups": [{"betas": betas} for _ in range(50)]}, protocol))
        )
        pickles.vet(io.BytesIO(pickle.dumps({(i, (i, betas)): {i} for i in range(500)}, protocol)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("memo at two thousand million", "at place 2147483647"),
        ("memo in digits", "at place 4294967295"),
        ("key that doubles", "takes too long"),
        ("key that is deep", "takes too long"),
        ("set that doubles", "takes too long"),
        ("marks only", "pickle exhausted"),
    ],
)
def test_endless_pickles_are_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pickles.vet(io.BytesIO(PICKLES[name]))


def test_a_key_hidden_in_a_list_is_found() -> None:
    """OrderedDict([(key, 1)]) hashes what stands in a list, which may be filled after it was remembered."""
    doubled = b""
    for i in range(1, 60):
        doubled += b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86"
    attack = b"\x80\x02]q\x00)" + doubled + b"K\x01\x86a0ccollections\nOrderedDict\nh\x00\x85R."
    with pytest.raises(ValueError, match="takes too long"):
        pickles.vet(io.BytesIO(attack))


def test_too_many_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "LONGEST", 100)
    with pytest.raises(ValueError, match="more than 100 instructions"):
        pickles.vet(io.BytesIO(pickle.dumps(list(range(200)))))
