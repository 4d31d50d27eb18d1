"""Progress on standard error."""

import io
import sys

import pytest

from shiftproof import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_on_a_terminal_and_a_line_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    with progress.reporting("fetching", bytes_=True) as report:
        for done in (0, 1, 2):
            report("x.gz", done, 2_000_000)
    assert plain.getvalue() == "fetching: x.gz (2.0 MB)\n"
    for counts_bytes in (False, True):
        shown = Terminal()
        monkeypatch.setattr(sys, "stderr", shown)
        with progress.reporting("fetching", bytes_=counts_bytes) as report:
            report("x.gz", 1, 2)
            report("x.gz", 2, 2)
        assert "x.gz" in shown.getvalue()
        assert "\x1b[" in shown.getvalue()
    with progress.hushed(True), progress.reporting() as report:
        monkeypatch.setattr(sys, "stderr", quiet := io.StringIO())
        report("x.gz", 1, 2)
    assert quiet.getvalue() == ""
