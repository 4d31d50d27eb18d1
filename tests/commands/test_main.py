"""The entry point: help with examples, quiet, completion, pipes, missing extras, Ctrl-C."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from shiftproof.commands.main import COMMANDS, main, parser


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
    """The script completes commands and options."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = "COMP_WORDS=({}); COMP_CWORD={}; _shtab_shiftproof 2>/dev/null; echo ${{COMPREPLY[@]}}"
    for words, wanted in (("shiftproof re", "reproduce report records"), ("shiftproof sweep --se", "--set --seeds")):
        text = f"{script}\n{ask.format(words, len(words.split()) - 1)}"
        done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
        assert set(done.stdout.split()) >= set(wanted.split())
    assert main(["completion", "ksh"]) == 2
    assert "`SHELL` (='ksh') must be one of" in capsys.readouterr().err


def test_quiet_prints_only_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Even if the command trains and evaluates runs."""
    words = ["sweep", "digits", "--preset", "smoke", "--methods", "strided", "--set", "optim.epochs=1", "--json"]
    words += ["--set", "optim.batch_size=512", "--runs", str(tmp_path / "runs"), "--records", str(tmp_path / "records")]
    assert main([*words, "--quiet"]) == 0
    quiet = capsys.readouterr()
    assert quiet.err == ""
    assert len(json.loads(quiet.out)["records"]) == 1
    assert main(words) == 0
    assert "1 on record" in capsys.readouterr().err  # later commands are not quiet


def test_a_closed_pipe_is_no_error() -> None:
    code = "import sys; from shiftproof.commands.main import main; sys.exit(main(['completion', 'bash']))"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


def test_missing_extra_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The message says which extra to install."""
    code = (
        "import sys\nsys.modules['matplotlib'] = None\n"
        "from shiftproof.commands.main import main\nsys.exit(main(['cameraman']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "`shiftproof cameraman` needs matplotlib" in done.stderr
    assert "pip install 'shiftproof[report]'" in done.stderr


def test_a_missing_module_of_the_package_is_a_bug_not_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise ModuleNotFoundError("no", name="shiftproof.nothing")

    monkeypatch.setattr("shiftproof.commands.cameraman.run", broken)
    with pytest.raises(ModuleNotFoundError):
        main(["cameraman"])


def test_version_and_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code in ((["--version"], 0), ([], 2), (["camera"], 2)):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == code
    done = subprocess.run([sys.executable, "-m", "shiftproof", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("shiftproof ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train --seed x", "`--seed` (='x') must be a whole number. See `shiftproof train --help`."),
        ("train --seed", "`--seed` must be followed by a value. See `shiftproof train --help`."),
        ("cameraman --shift 1", "`--shift` must be followed by 2 values. See `shiftproof cameraman --help`."),
        ("measure a b --kinds", "`--kinds` must be followed by a value. See `shiftproof measure --help`."),
        ("train --resume=3", "`--resume` (='3') must stand without a value. See `shiftproof train --help`."),
        ("train --se 1", "`--se` must be written in full: --set, --seed. See `shiftproof train --help`."),
        (
            "train --sede 1",
            "`--sede` is no argument of `shiftproof train`. Did you mean `--seed`? See `shiftproof train --",
        ),
        ("data import a b", "`b` is no argument of `shiftproof data import`. See `shiftproof data import --help`."),
        ("measure", "MODEL, IMAGES must be given. See `shiftproof measure --help`."),
        ("", "COMMAND must be given. See `shiftproof --help`."),
        ("mesure", "Did you mean 'measure'? See `shiftproof --help`."),
        ("data fetch", "`ACTION` (='fetch') must be one of 'get', 'import', 'list'. See `shiftproof data --help`."),
    ],
)
def test_a_wrong_command_line_is_explained_in_one_line(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The option, the value, the rule, and where to read on; no usage before it."""
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("shiftproof: ")
    assert message in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train --config no.toml", "`--config` (=no.toml) does not exist. Expected: settings as TOML"),
        ("cameraman --image ./no.png", "`--image` (=no.png) does not exist. Expected: an image of your own"),
        ("convert torch.nn:Identity --weights no.pt", "`--weights` (=no.pt) does not exist. Expected: a state_dict"),
        ("measure torch.nn:Identity a.png --weights no.pt", "`--weights` (=no.pt) does not exist. Expected: a state_"),
        (
            "evaluate torch.nn:Identity --dataset digits --weights no.pt",
            "`--weights` (=no.pt) does not exist. Expected",
        ),
        ("measure ./no.onnx a.png", "`MODEL` (=no.onnx) does not exist. Expected: model.pt2, model.onnx, module:fac"),
        ("measure no.PT2 a.png", "`MODEL` (=no.PT2) does not exist. Expected: model.pt2, model.onnx, module:factory"),
        ("measure some/folder/model.py a.png", "`MODEL` (=some/folder/model.py) does not exist. Expected: model.pt2"),
        (
            "convert no.pt2",
            "`SOURCE` (=no.pt2) does not exist. Expected: module:factory of the network, timm:NAME or cifar:NAME.",
        ),
        ("convert some/folder", "`SOURCE` (=some/folder) does not exist. Expected: module:factory of the network"),
        ("evaluate runs/no", "`RUN_OR_MODEL` (=runs/no) does not exist. Expected: the folder of a run, module:factory"),
        ("evaluate no.onnx --dataset digits", "`RUN_OR_MODEL` (=no.onnx) does not exist. Expected: the folder of a"),
    ],
)
def test_a_file_that_does_not_exist_is_said_to_be_what(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which argument named it, and what belongs there; also where the file would be a network."""
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"shiftproof: {message}")


def test_a_missing_file_that_no_argument_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shiftproof.commands.cameraman.run", lambda _: Path("inner.bin").read_bytes())
    assert main(["cameraman"]) == 2
    assert capsys.readouterr().err == "shiftproof: inner.bin: no such file.\n"


def test_ctrl_c_while_starting(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shiftproof.commands.main.parser", interrupted)
    assert main(["train"]) == 130
    assert capsys.readouterr().err == "shiftproof: stopped.\n"
