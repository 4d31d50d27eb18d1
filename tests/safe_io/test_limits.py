"""What stands before every reader: limits on files, strict JSON."""

import os
from pathlib import Path

import pytest

from shiftproof.safe_io import limits


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
