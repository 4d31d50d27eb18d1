"""Evaluation of runs, records, sweeps: from a name to a number that can be traced back."""

import dataclasses
import functools
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import shiftproof
from helpers import workers
from helpers.short_runs import count
from shiftproof import environment
from shiftproof.commands.main import main
from shiftproof.experiments import catalogue, evaluate, records, sweep
from shiftproof.training.config import configure
from shiftproof.training.loop import train

TINY = {"data.limit": 64, "optim.batch_size": 32, "optim.epochs": 1, "run.threads": 1, "run.tensorboard": False}
PAIRS = [f"--set={k}={json.dumps(v)}" for k, v in TINY.items()]
QUICK = evaluate.Settings(parts=("accuracy", "consistency"), limit=6, shift_images=2)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    train(configure("smoke", dataset="digits", method="ghs", changes=TINY), out, quiet=True)
    return out


@pytest.fixture(scope="module")
def record(finished: Path) -> records.Record:
    return evaluate.evaluate(evaluate.from_run(finished), QUICK)


def test_a_run_is_evaluated_and_put_on_record(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All parts, printed with intervals, drawn, and written; a GHS network is exact over all shifts."""
    arguments = ["evaluate", str(finished), "--limit", "8", "--shift-images", "2", "--records", str(tmp_path)]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    lines = {line.split("  ")[0].strip(): line for line in printed.out.splitlines()}
    assert lines["circular"].split()[1:] == ["64", "100.00", "100.00", "100.00", "0", "equal", "bits"]
    assert "±" in lines["clean"]
    assert "±" in lines["8 x 8 erased per batch"]
    sentences = " ".join(printed.out.split())  # the longer a time, the earlier its line breaks
    assert "times the strided network" in sentences
    assert "Aliasing, 32 to 16 pixels" in sentences
    assert "digits-resnet20-ghs-smoke-seed0: accuracy: clean" in printed.err
    (path,) = tmp_path.glob("*.json")
    found = records.read(path)
    assert found["seed"] == 0
    assert set(found["metrics"]) == {"accuracy", "consistency", "robustness", "aliasing", "efficiency"}
    shifts = found["metrics"]["consistency"]["all_pairs"]
    assert shifts["exact"]
    assert shifts["largest_change"] == 0.0
    assert shifts["shifts"] == 64
    assert found["metrics"]["efficiency"]["latency_ratio"] > 0
    assert found["training"]["steps"] == 2
    data = {"name": "digits", "part": "test", "source": "scikit-learn", "images": 8, "size": [1, 8, 8]}
    assert found["dataset"] == data | {"checksum": found["dataset"]["checksum"]}
    for kind in ("shifts", "aliasing"):
        with Image.open(path.with_name(f"{path.stem}-{kind}.png")) as picture:
            assert min(picture.size) > 500
    assert main([*arguments, "--json", "--parts", "accuracy", "--weights", "final"]) == 0
    final = json.loads(capsys.readouterr().out)
    assert final["settings"]["weights"] == "final"
    assert final["key"] != found["key"]
    assert len(list(tmp_path.glob("*.json"))) == 2  # another way of evaluating is another record


def test_the_held_out_images(finished: Path) -> None:
    """`on="validation"` evaluates on all images that the run held out, though it trained on few."""
    subject = evaluate.from_run(finished, on="validation")
    own = evaluate.from_run(finished).dataset
    assert len(subject.dataset.test.labels) == round(0.1 * len(own.train.labels)) > 64
    settings = evaluate.Settings(parts=("accuracy",), on="validation")
    assert evaluate.evaluate(subject, settings)["dataset"]["part"] == "validation"


MINE = """
import torch
def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
"""


def test_a_network_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_to_evaluate.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ["evaluate", "mine_to_evaluate:make", "--dataset", "digits", "--parts", "accuracy", "efficiency"]
    assert main([*arguments, "--limit", "20"]) == 0
    (path,) = Path("records").glob("*.json")
    found = records.read(path)
    assert found["config"] is None
    assert found["model"]["source"] == "module"
    assert found["model"]["parameters"] == 650


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "neither the folder of a run nor"),
        (["mine_to_evaluate:make"], "`--dataset` must say"),
        (["RUN", "--weights", "worst"], "must be best or final"),
        (["RUN", "--dataset", "digitz"], "Did you mean 'digits'"),
        (["RUN", "--parts", "acuracy"], "Did you mean 'accuracy'"),
        (["EMPTY"], "no run was begun there"),
        (["RUN", "--on", "train"], "must be one of 'test', 'validation'"),
        (["RUN", "--on", "validation", "--dataset", "mnist"], "has no validation images of its own"),
    ],
)
def test_what_cannot_be_evaluated_is_said(
    arguments: list[str], message: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(finished) if a == "RUN" else str(tmp_path) if a == "EMPTY" else a for a in arguments]
    assert main(["evaluate", *words]) == 2
    assert message in capsys.readouterr().err


def test_weights_that_do_not_fit(finished: Path, tmp_path: Path) -> None:
    for name in ("config.json", "best.safetensors", "result.json"):
        (tmp_path / name).write_bytes((finished / name).read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["model"]["name"] = "resnet56"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="does not fit the configuration beside it"):
        evaluate.from_run(tmp_path)


def test_an_unfinished_run_is_not_evaluated(finished: Path, tmp_path: Path) -> None:
    """Its best weights so far are not those of the run, and a record of them would pass for it."""
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(ValueError, match="the run is not finished"):
        evaluate.from_run(tmp_path / "run")


def test_records_do_not_overwrite_one_another(finished: Path, record: records.Record) -> None:
    """Other weights of a network of one's own, or other data, are another record."""
    subject = evaluate.from_run(finished)
    quick = evaluate.Settings(parts=("accuracy",), limit=4)

    def key(**changes: Any) -> str:
        return str(evaluate.evaluate(dataclasses.replace(subject, **changes), quick)["key"])

    def mine(seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))

    stranger: dict[str, Any] = {"config": None, "training": None, "baseline": None, "name": "mine"}
    others = dataclasses.replace(subject.dataset, checksum="0" * 64)
    keys = [
        key(),
        key(foreign=True),
        key(foreign=True, dataset=others),
        key(model=mine(0), **stranger),
        key(model=mine(1), **stranger),
        key(model=mine(1), dataset=others, **stranger),
    ]
    assert len(set(keys)) == 6


def test_records_come_back(record: records.Record, tmp_path: Path) -> None:
    path = records.write(record, tmp_path)
    assert records.read(path) == json.loads(json.dumps(record))
    assert path.name == f"{record['name']}-{record['key'][:8]}.json"
    assert record["machine"]["torch"] == torch.__version__


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("metrics"), "'metrics' is a required property"),
        (lambda r: r.update(schema="shiftproof.record/9"), "this version reads 'shiftproof.record/1'"),
        (lambda r: r.update(extra=1), "Additional properties are not allowed"),
        (lambda r: r["dataset"].update(images=0), "at dataset/images: 0 is less than the minimum"),
        (lambda r: r.update(key="../../x"), "at key"),
        (lambda r: r.update(name="../x"), "at name"),
        (lambda r: r["metrics"].update(guess={}), "at metrics"),
    ],
)
def test_what_is_no_record_is_refused(change: Any, message: str, record: records.Record, tmp_path: Path) -> None:
    broken = json.loads(json.dumps(record))
    change(broken)
    path = tmp_path / "record.json"
    path.write_text(json.dumps(broken))
    with pytest.raises(ValueError) as error:
        records.read(path)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100000])
def test_garbage_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a record"):
        records.read(path)


def test_the_identity_of_a_record() -> None:
    """Threads, checkpoints and logs do not belong to it; everything that can change the number does."""
    config = configure("smoke").to_dict()
    key = records.identity(config, "resnet20", "digits", {})
    assert key == records.identity(configure("smoke", changes={"run.keep": 5}).to_dict(), "resnet20", "digits", {})
    others = [
        records.identity(configure("smoke", changes={"optim.lr": 0.2}).to_dict(), "resnet20", "digits", {}),
        records.identity(configure("smoke", seed=1).to_dict(), "resnet20", "digits", {}),
        records.identity(config, "resnet20", "mnist", {}),
        records.identity(config, "resnet20", "digits", {"limit": 3}),
        records.identity(None, "resnet20", "digits", {}),
    ]
    assert len({key, *others}) == 6


def test_records_command(record: records.Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = records.write(record, tmp_path)
    assert main(["records", "list", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "1 records" in printed
    assert "100.00" in printed
    assert main(["records", "show", str(path)]) == 0
    assert "circular shift" in capsys.readouterr().out
    assert main(["records", "show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["key"] == record["key"]
    assert main(["records", "list", "--json", str(tmp_path)]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1
    assert main(["records", "check", str(tmp_path)]) == 0
    assert "1 records, 0 wrong" in capsys.readouterr().out
    (tmp_path / "other.json").write_text("{}")
    assert main(["records", "check", str(tmp_path), "--json"]) == 1
    assert list(json.loads(capsys.readouterr().out)["wrong"]) == [str(tmp_path / "other.json")]
    assert main(["records", "list", str(tmp_path / "nothing")]) == 2
    assert "no such file or folder" in capsys.readouterr().err


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


def test_a_table_is_a_list_of_runs() -> None:
    """Seed by seed; presets for small machines train the small network unless asked."""
    paper = catalogue.configs("table1", "paper")
    assert len(paper) == 10 * 4 * 6
    assert [c.run.seed for c in paper] == sorted(c.run.seed for c in paper)
    laptop = catalogue.configs("table4", "laptop")
    assert {c.model.name for c in laptop} == {"resnet20"}
    assert "cifar10-resnet20-da-laptop-seed0" in catalogue.run_name(laptop[0])
    assert len({catalogue.run_name(c) for c in paper + laptop}) == len(paper) + len(laptop)
    few = catalogue.configs("table3", "smoke", models=["resnet18"], methods=["lpf"], seeds=[4, 5], dataset="digits")
    assert [(c.model.name, c.model.method, c.run.seed, c.data.name) for c in few] == [
        ("resnet18", "lpf", 4, "digits"),
        ("resnet18", "lpf", 5, "digits"),
    ]
    with pytest.raises(ValueError, match="Did you mean 'table1'"):
        catalogue.configs("tabel1", "smoke")


def arguments(tmp_path: Path, *more: str) -> list[str]:
    places = ["--runs", str(tmp_path / "runs"), "--records", str(tmp_path / "records")]
    return ["sweep", "table1", "--preset", "smoke", "--dataset", "digits", *places, *PAIRS, *more]


def test_a_sweep_repeats_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run ends in a record; the second time there is nothing to do; a run that fails does not stop the others."""
    assert main(arguments(tmp_path, "--methods", "strided", "lpf")) == 0
    printed = capsys.readouterr()
    assert "2 runs, 0 on record, 2 to do" in printed.err
    assert "2 records" in printed.out
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "records").iterdir()}
    monkeypatch.setattr(sweep, "perform", lambda *_, **__: pytest.fail("it ran again"))
    assert main(arguments(tmp_path, "--methods", "strided", "lpf", "--json")) == 0
    printed = capsys.readouterr()
    assert "2 on record, 0 to do" in printed.err
    assert len(json.loads(printed.out)["records"]) == 2
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "records").iterdir()}

    def fails(*_: Any, **__: Any) -> None:
        raise ValueError("no luck")

    monkeypatch.setattr(sweep, "perform", fails)
    assert main(arguments(tmp_path, "--methods", "strided", "avg", "max", "--json")) == 1
    assert list(json.loads(capsys.readouterr().out)["failed"].values()) == ["no luck", "no luck"]
    assert main(arguments(tmp_path, "--engine", "local", "--address", "x")) == 2
    assert main(arguments(tmp_path, "--engine", "rya")) == 2


@pytest.mark.counted
def test_a_killed_sweep_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SIGKILL after the first record, two workers and all: the next sweep makes only what is missing."""
    words = arguments(tmp_path, "--methods", "strided", "max", "avg", "lpf", "--jobs", "2")
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


def test_a_worker_that_dies_does_not_end_the_others(tmp_path: Path) -> None:
    """What it left undone is done by new ones."""
    one = functools.partial(workers.dies_once, folder=tmp_path)
    found: dict[Any, Any] = dict(sweep._in_processes(one, [0, 1, 2], 1))  # type: ignore[list-item]
    assert found == {0: {"run": 0}, 1: {"run": 1}, 2: {"run": 2}}


def test_a_worker_that_is_stopped_takes_no_other_run(tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of a terminal: a worker ends there and then, and others do what is left."""
    one = functools.partial(workers.is_stopped, folder=tmp_path)
    found: dict[Any, Any] = dict(sweep._in_processes(one, [0, 1, 2], 1))  # type: ignore[list-item]
    assert [isinstance(found[run], Exception) for run in (0, 1, 2)] == [True, True, False]
    assert len({(tmp_path / run).read_text() for run in "012"}) == 3


def test_a_run_that_fails_in_any_way_is_reported() -> None:
    def fails(_: Any) -> dict[str, Any]:
        raise RuntimeError("out of memory")

    ((_, outcome),) = sweep._in_turn(fails, [configure("smoke")])
    assert str(outcome) == "out of memory"


def test_a_package_that_no_run_can_do_without_ends_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The extra is named once, instead of a failure for every run."""
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert main(arguments(tmp_path, "--methods", "strided", "lpf")) == 2
    said = capsys.readouterr().err
    assert "pip install 'shiftproof[train]'" in said
    assert "FAILED" not in said


@pytest.mark.filterwarnings("ignore")
def test_ray_gets_the_same_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A local Ray, two smoke runs, their records here; the same weights as without Ray."""
    pytest.importorskip("ray")
    assert main(arguments(tmp_path, "--methods", "strided", "lpf", "--engine", "ray", "--json")) == 0
    paths = json.loads(capsys.readouterr().out)["records"]
    assert len(paths) == 2
    assert main(arguments(tmp_path / "here", "--methods", "lpf", "--json")) == 0
    (mine,) = json.loads(capsys.readouterr().out)["records"]
    digests = {records.read(Path(p))["model"]["sha256"] for p in paths}
    assert records.read(Path(mine))["model"]["sha256"] in digests
