"""Manners of the command line: help with examples, quiet, completion, pipes, progress."""

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from shiftproof import progress
from shiftproof.commands.main import COMMANDS, main, parser


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_that_parse(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "--json" in text
    assert "--quiet" in text
    _, _, after = text.partition("examples:\n")
    lines = [line.strip() for line in after.partition("\n\n")[0].splitlines()]
    assert lines
    for line in lines:
        program, *words = shlex.split(line.partition(" > ")[0])
        assert program == "shiftproof"
        assert parser().parse_args(words).command == name


def test_completion_works_in_bash(capsys: pytest.CaptureFixture[str]) -> None:
    """A shell that reads the script completes commands and options."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = "COMP_WORDS=({}); COMP_CWORD={}; _shtab_shiftproof 2>/dev/null; echo ${{COMPREPLY[@]}}"
    for words, wanted in (("shiftproof re", "reproduce report records"), ("shiftproof sweep --se", "--set --seeds")):
        text = f"{script}\n{ask.format(words, len(words.split()) - 1)}"
        done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
        assert set(done.stdout.split()) >= set(wanted.split())
    assert main(["completion", "ksh"]) == 2
    assert "`SHELL` (='ksh') must be one of" in capsys.readouterr().err


def test_quiet_says_only_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where runs are trained and evaluated on the way."""
    words = ["sweep", "digits", "--preset", "smoke", "--methods", "strided", "--set", "optim.epochs=1", "--json"]
    words += ["--set", "optim.batch_size=512", "--runs", str(tmp_path / "runs"), "--records", str(tmp_path / "records")]
    assert main([*words, "--quiet"]) == 0
    quiet = capsys.readouterr()
    assert quiet.err == ""
    assert len(json.loads(quiet.out)["records"]) == 1
    assert main(words) == 0
    assert "1 on record" in capsys.readouterr().err  # and it is not quiet for ever


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    code = "import sys; from shiftproof.commands.main import main; sys.exit(main(['completion', 'bash']))"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


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
