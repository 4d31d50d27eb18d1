"""Where a number comes from: the commit, and the processor."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

import shiftproof
from shiftproof import environment


def test_the_commit_is_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package installed inside the checkout of another project does not take that one's commit for its own."""
    asked: list[tuple[str, ...]] = []

    def git(_: Path, *words: str) -> str | None:
        asked.append(words)
        return None if words[0] == "ls-files" else "somebody else's"

    monkeypatch.setattr(environment, "_git", git)
    assert environment.code.__wrapped__()["commit"] is None
    assert asked[0][0] == "ls-files"


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    assert environment.code.__wrapped__() == {"version": shiftproof.__version__, "commit": None, "changed": None}


def test_processor_is_named_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(self: Path) -> str:
        raise OSError

    assert isinstance(environment._processor(), str)
    monkeypatch.setattr(Path, "read_text", unreadable)
    assert isinstance(environment._processor(), str)
