"""Files are written whole or not at all."""

import os
from pathlib import Path

import pytest

from helpers.data_files import everything
from helpers.data_fixtures import server as server
from helpers.data_fixtures import small as small
from shiftproof.safe_io.atomic import atomic_write


def test_a_write_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "file"
    atomic_write(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        atomic_write(path, b"new")
    assert everything(tmp_path) == {"new/file": b"old"}
