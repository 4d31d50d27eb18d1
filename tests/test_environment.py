"""What produced a result."""

from pathlib import Path

import pytest

from shiftproof import environment


def test_processor_is_named_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(self: Path) -> str:
        raise OSError

    assert isinstance(environment._processor(), str)
    monkeypatch.setattr(Path, "read_text", unreadable)
    assert isinstance(environment._processor(), str)
