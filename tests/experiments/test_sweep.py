"""Sweeps: every run ends in a record, and no run is made twice."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from helpers.short_runs import count
from helpers.tiny_runs import change_the_default, sweep_words
from shiftproof.commands.main import main
from shiftproof.experiments import catalogue, records, sweep
from shiftproof.training import loop
from shiftproof.training.config import Config


def test_a_sweep_repeats_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run ends in a record; the second time there is nothing to do; a run that fails does not stop the others."""
    assert main(sweep_words(tmp_path, "--methods", "strided", "lpf")) == 0
    printed = capsys.readouterr()
    assert "2 runs, 0 on record, 2 to do" in printed.err
    assert "2 records" in printed.out
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "records").iterdir()}
    monkeypatch.setattr(sweep, "perform", lambda *_, **__: pytest.fail("it ran again"))
    assert main(sweep_words(tmp_path, "--methods", "strided", "lpf", "--json")) == 0
    printed = capsys.readouterr()
    assert "2 on record, 0 to do" in printed.err
    assert len(json.loads(printed.out)["records"]) == 2
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "records").iterdir()}

    def fails(*_: Any, **__: Any) -> None:
        raise ValueError("no luck")

    monkeypatch.setattr(sweep, "perform", fails)
    assert main(sweep_words(tmp_path, "--methods", "strided", "avg", "max", "--json")) == 1
    assert list(json.loads(capsys.readouterr().out)["failed"].values()) == ["no luck", "no luck"]
    assert main(sweep_words(tmp_path, "--engine", "local", "--address", "x")) == 2
    assert main(sweep_words(tmp_path, "--engine", "rya")) == 2


def on_record(record: records.Record, config: Config, folder: Path) -> Path:
    """A record of a run that was never made."""
    name = records.make_name(config.data.name, config.model.name, config)
    made = {"config": config.to_dict(), "key": records.run_key(config, SETTINGS), "name": name}
    return records.write(record | made, folder)


SETTINGS = catalogue.settings("digits", "smoke")


def test_each_record_is_read_once(
    record: records.Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However many runs are asked for; those that the sweep writes itself are not read at all."""
    configs = catalogue.configs("digits", "smoke", seeds=range(5))
    for config in configs[:12]:
        on_record(record, config, tmp_path)
    on_record(record, catalogue.configs("table1", "smoke")[0], tmp_path)  # of another table
    read, count = records.read, Counter[str]()

    def counted(path: Path) -> records.Record:
        count[path.name] += 1
        return read(path)

    def performed(config: Config, **_: Any) -> records.Record:
        name = records.make_name(config.data.name, config.model.name, config)
        return record | {"config": config.to_dict(), "key": records.run_key(config, SETTINGS), "name": name}

    monkeypatch.setattr(records, "read", counted)
    monkeypatch.setattr(sweep, "perform", performed)
    words = ["sweep", "digits", "--preset", "smoke", "--seeds", "0", "1", "2", "3", "4", "--records", str(tmp_path)]
    assert main([*words, "--runs", str(tmp_path / "runs")]) == 0
    printed = capsys.readouterr()
    assert "20 runs, 12 on record, 8 to do" in printed.err
    assert "20 records" in printed.out
    assert len(count) == 13
    assert set(count.values()) == {1}


def test_a_record_that_another_process_adds_is_seen(
    record: records.Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its file name holds the key, and is looked at before the run is started."""
    configs = catalogue.configs("digits", "smoke", methods=["strided", "lpf"])
    recorded = sweep.RecordedRuns(tmp_path)
    assert recorded.find(configs[1], SETTINGS) is None
    trained: list[str] = []

    def train(config: Config, *_: Any, **__: Any) -> None:
        trained.append(config.model.method)
        on_record(record, configs[1], tmp_path)  # meanwhile, elsewhere
        raise ValueError("enough")

    monkeypatch.setattr(loop, "train", train)
    failed = sweep.complete(configs, settings=SETTINGS, runs=tmp_path / "runs", recorded=recorded, data_dir=None)
    assert trained == ["strided"]
    assert list(failed) == [catalogue.run_name(configs[0])]
    assert f"{catalogue.run_name(configs[1])}: on record by now" in capsys.readouterr().err
    found = recorded.find(configs[1], SETTINGS)
    assert found is not None
    assert found[0].exists()


def test_a_changed_default_finds_no_wrong_record(
    record: records.Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of the old default is that of the old options, and not that of the new default."""
    (old,) = catalogue.configs("digits", "smoke", methods=["ghs"])
    path = on_record(record, old, tmp_path)
    change_the_default(monkeypatch)
    recorded = sweep.RecordedRuns(tmp_path)
    (new,) = catalogue.configs("digits", "smoke", methods=["ghs"])
    assert recorded.find(new, SETTINGS) is None
    explicit = {"model.options": {"kernel": old.model.options["kernel"]}}
    (same,) = catalogue.configs("digits", "smoke", methods=["ghs"], changes=explicit)
    found = recorded.find(same, SETTINGS)
    assert found is not None
    assert found[0] == path


def test_a_kernel_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its text is put on record in full; another text of the same kernel is the same run."""
    words = sweep_words(tmp_path, "--methods", "ghs", "--json")
    assert main([*words, "--set", "model.options.kernel=local(order=1)"]) == 0
    (path,) = json.loads(capsys.readouterr().out)["records"]
    found = records.read(Path(path))
    assert found["config"]["model"]["options"]["kernel"] == "local(order=1, width=1.0)"
    assert found["metrics"]["consistency"]["all_pairs"]["exact"]
    assert main([*words, "--set", "model.options.kernel=Local(width=1, order=1)"]) == 0
    printed = capsys.readouterr()
    assert "1 runs, 1 on record, 0 to do" in printed.err
    assert json.loads(printed.out)["records"] == [path]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--set", "model.options.kernel=local(order=99)"],
            "`--set model.options.kernel='local(order=99)'`: `order` (=99) must be at most 64",
        ),
        (
            ["--set", "model.options.kernel=loca"],
            "`--set model.options.kernel='loca'` must be one of 'hermite', 'local'",
        ),
        (["--set", "model.options.taps=3"], "`--set model.options.taps=3`: method 'ghs' has no option `taps`"),
        (["--models", "nope"], "must be one of 'resnet8'"),
        (["--dataset", "nope"], "`--dataset` (='nope') must be one of 'cifar10'"),
        (["--set", "optim.lr=-1"], "`--set optim.lr=-1.0` must be at least 0"),
        (["--methods", "gsh"], "`--methods` (='gsh') must be one of"),
        (["--preset", "lap"], "`--preset` (='lap') must be one of"),
        (["--engine", "rya"], "`--engine` (='rya') must be one of 'local', 'ray'. Did you mean 'ray'?"),
        (["--jobs", "0"], "`--jobs` (=0) must be at least 1"),
        (["--address", "x"], "`--address` (='x') is that of a Ray cluster: `--engine` must be 'ray', not 'local'."),
    ],
)
def test_what_cannot_be_run_is_said_in_the_words_of_the_command(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*sweep_words(tmp_path, "--methods", "ghs"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.counted
def test_a_killed_sweep_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SIGKILL after the first record, two workers and all: the next sweep makes only what is missing."""
    words = sweep_words(tmp_path, "--methods", "strided", "max", "avg", "lpf", "--jobs", "2")
    process = subprocess.Popen([sys.executable, "-m", "shiftproof", *words], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not list((tmp_path / "records").glob("*.json")):
        assert process.poll() is None or list((tmp_path / "records").glob("*.json"))
        assert time.monotonic() < until
        time.sleep(0.05)
    process.kill()
    process.wait()
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "records").glob("*.json")}
    assert len(before) >= 1
    time.sleep(1.0)  # the workers notice within half a second
    assert main(words) == 0
    after = {p: p.stat().st_mtime_ns for p in (tmp_path / "records").glob("*.json")}
    assert len(after) == 4
    assert before.items() <= after.items()
    count(runs=1, kills=1, resumes=1)


def test_a_package_that_no_run_can_do_without_ends_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The extra is named once, instead of a failure for every run."""
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert main(sweep_words(tmp_path, "--methods", "strided", "lpf")) == 2
    said = capsys.readouterr().err
    assert "pip install 'shiftproof[train]'" in said
    assert "FAILED" not in said


@pytest.mark.filterwarnings("ignore")
def test_ray_gets_the_same_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A local Ray, two smoke runs, their records here; the same weights as without Ray."""
    pytest.importorskip("ray")
    assert main(sweep_words(tmp_path, "--methods", "strided", "lpf", "--engine", "ray", "--json")) == 0
    paths = json.loads(capsys.readouterr().out)["records"]
    assert len(paths) == 2
    assert main(sweep_words(tmp_path / "here", "--methods", "lpf", "--json")) == 0
    (mine,) = json.loads(capsys.readouterr().out)["records"]
    digests = {records.read(Path(p))["model"]["sha256"] for p in paths}
    assert records.read(Path(mine))["model"]["sha256"] in digests
