"""Training and sweeps meet misfortunes: killed, stopped, without room, and nothing is lost."""

import json
import os
import random
import secrets
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import tally
from faults import PLACES, Child, Fault, disk, protect
from shiftproof.reports import records
from shiftproof.training.checkpoint import read_tensors, tensor_digest

SECTION = "Training: faults"
SOAK = os.environ.get("SHIFTPROOF_PROFILE") == "soak"
SETTINGS = {
    "data.limit": 72,
    "optim.batch_size": 30,  # 30 + 30 + 12
    "optim.epochs": 3,
    "run.threads": 1,
    "run.tensorboard": False,
    "run.checkpoint_minutes": 0,
    "augment.crop": 1,
}
# what may differ between two runs that are the same
TIMES = ("seconds", "speed", "peak_bytes", "created")
KILLED = -signal.SIGKILL


def words(command: str, *more: str, **changes: Any) -> list[str]:
    pairs = (SETTINGS | {k.replace("__", "."): v for k, v in changes.items()}).items()
    return [command, *more, "--preset", "smoke", *(f"--set={k}={json.dumps(v)}" for k, v in pairs)]


def training(out: Path, **changes: Any) -> list[str]:
    return words("train", "--dataset=digits", "--method=ghs", "--resume", f"--out={out}", **changes)


def sweeping(out: Path) -> list[str]:
    places = [f"--runs={out / 'runs'}", f"--records={out / 'records'}"]
    return words("sweep", "digits", "--methods", "strided", "ghs", "--seeds", "0", "1", *places, optim__epochs=1)


def timeless(value: Any) -> Any:
    """Without what differs from one time to the next."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in TIMES}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def end(out: Path) -> dict[str, Any]:
    """All that a run leaves."""
    assert not list(out.rglob(".*.tmp"))
    return {
        "weights": [(out / f"{name}.safetensors").read_bytes() for name in ("final", "best")],
        "result": timeless(json.loads((out / "result.json").read_text())),
        "log": [timeless(json.loads(line)) for line in (out / "log.jsonl").read_text().splitlines()],
        "checkpoints": {p.name: tensor_digest(read_tensors(p)[0]) for p in (out / "checkpoints").iterdir()},
    }


def ends(out: Path) -> dict[str, Any]:
    """All that a sweep leaves."""
    return {p.name: timeless(records.read(p)) for p in (out / "records").iterdir()} | {
        p.name: end(p) for p in (out / "runs").iterdir()
    }


def finish(command: list[str], log: Path) -> str:
    """Run it, or go on with it, to its end."""
    child = Child(command, log)
    assert child.wait() == 0, child.said
    return child.said


def count(**numbers: int) -> None:
    for what, number in numbers.items():
        tally.count(SECTION, what.replace("_", " "), number)


def same(found: dict[str, Any], expected: dict[str, Any], story: object) -> None:
    """Bit for bit, or the story of what went before."""
    different = [key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)]
    assert not different, f"{different} differ after {story}"
    count(bit_identical_ends=1, losses=0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def whole(place: Path) -> tuple[dict[str, Any], float]:
    """A run that nothing disturbs, and how long it lives."""
    finish(training(place / "warm"), place / "log")
    started = time.monotonic()
    finish(training(place / "whole"), place / "log")
    found = end(place / "whole")
    assert [line["step"] for line in found["log"]] == [1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9]
    return found, time.monotonic() - started


@pytest.fixture(scope="module")
def whole_sweep(place: Path) -> tuple[dict[str, Any], float]:
    started = time.monotonic()
    finish(sweeping(place / "sweep"), place / "log")
    found = ends(place / "sweep")
    assert len(found) == 8
    return found, time.monotonic() - started


def killed_again_and_again(command: list[str], log: Path, life: float, luck: random.Random) -> list[Any]:
    """Up to three kills, half of them at a time and half at a place; what was done."""
    story: list[Any] = []
    for _ in range(luck.randint(1, 3)):
        fault = None if luck.random() < 0.5 else Fault(luck.choice(PLACES), luck.randint(1, 16))
        delay = luck.uniform(0, life)
        child = Child(command, log, fault)
        if fault is None:
            child.send(signal.SIGKILL, delay)
        code = child.wait()
        story.append((code, fault or f"{delay:.3f} s"))
        assert code in (0, KILLED), (story, child.said)
    finish(command, log)
    count(kills=sum(code == KILLED for code, _ in story), resumes=len(story), runs=1)
    return story


def lucky(number: int) -> tuple[random.Random, int]:
    """The same luck in every `make test`, another in every `make soak`."""
    seed = secrets.randbits(32) if SOAK else number
    return random.Random(seed), seed


@pytest.mark.parametrize("number", [0, 1, 2, *(pytest.param(i, marks=pytest.mark.slow) for i in range(3, 100))])
def test_a_run_that_is_killed_anywhere_loses_nothing(
    number: int, whole: tuple[dict[str, Any], float], tmp_path: Path
) -> None:
    """SIGKILL at any time, any number of times: weights, result, log and checkpoints are those of a whole run."""
    luck, seed = lucky(number)
    story = killed_again_and_again(training(tmp_path / "run"), tmp_path / "log", whole[1], luck)
    same(end(tmp_path / "run"), whole[0], (seed, story))


def test_a_run_that_is_killed_everywhere_loses_nothing(whole: tuple[dict[str, Any], float], tmp_path: Path) -> None:
    """In a step, around a write and in it, before an old checkpoint is removed, in the log, and at the end."""
    command, log = training(tmp_path / "run"), tmp_path / "log"
    counts = {"step": 3, "write": 4, "half": 4, "rename": 4, "renamed": 4, "removal": 1, "log": 2}
    faults = [Fault("write"), *(Fault(place, counts[place]) for place in PLACES), Fault("removal", file="000000007")]
    faults += [Fault(place, file=file) for file in ("final.", "result.") for place in ("write", "half")]
    for fault in faults:
        child = Child(command, log, fault)
        assert child.wait() == KILLED, (fault, child.said)
    finish(command, log)
    count(kills=len(faults), resumes=len(faults), runs=1)
    same(end(tmp_path / "run"), whole[0], faults)


@pytest.mark.parametrize("number", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 10))])
def test_a_sweep_that_is_killed_anywhere_loses_nothing(
    number: int, whole_sweep: tuple[dict[str, Any], float], tmp_path: Path
) -> None:
    """Every record is there once, the same apart from times, and so is every run."""
    luck, seed = lucky(number)
    story = killed_again_and_again(sweeping(tmp_path), tmp_path / "log", whole_sweep[1], luck)
    same(ends(tmp_path), whole_sweep[0], (seed, story))


@pytest.mark.parametrize("number", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 10))])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_at_any_time(name: str, number: int, whole: tuple[dict[str, Any], float], tmp_path: Path) -> None:
    """No traceback, exit code 130; SIGTERM before the first step ends it as it ends every process."""
    luck, seed = lucky(number)
    command, signal_, delay = training(tmp_path / "run"), signal.Signals[name], luck.uniform(0, whole[1])
    child = Child(command, tmp_path / "log")
    child.send(signal_, delay)
    code = child.wait()
    allowed = {0, 130} | ({-signal.SIGTERM} if name == "SIGTERM" else set())
    assert code in allowed, (seed, delay, child.said)
    assert "Traceback" not in child.said
    finish(command, tmp_path / "log")
    count(**{f"{name}_at_a_random_time": 1}, resumes=1, runs=1)
    same(end(tmp_path / "run"), whole[0], (seed, name, delay))


def test_a_stop_at_the_end_of_an_epoch_and_a_kill_after_it(whole: tuple[dict[str, Any], float], tmp_path: Path) -> None:
    """The line of the epoch is written before its checkpoint: it stands in the log once."""
    command, log = training(tmp_path / "run"), tmp_path / "log"
    child = Child(command, log, Fault("step", 3, signal.SIGTERM))
    assert child.wait() == 130, child.said
    assert "stopped in epoch 1; go on with --resume" in child.said
    assert Child(command, log, Fault("write", file="step-")).wait() == KILLED
    finish(command, log)
    count(kills=1, resumes=2, runs=1)
    same(end(tmp_path / "run"), whole[0], "a stop and a kill")


@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize(("where", "file"), [("write", "step-000000002"), ("write", "final"), ("log", "")])
def test_a_full_disk(where: str, file: str, real: bool, whole: tuple[dict[str, Any], float], tmp_path: Path) -> None:
    """The message names the file and the remedy; with room again, the run goes on to the same end."""
    with disk(tmp_path / "disk", 2**24) as folder:
        if folder is None and real:
            pytest.skip("needs the right to mount a disk")
        out, filler = tmp_path / "disk" / "run", tmp_path / "disk" / "filler"
        child = Child(training(out), tmp_path / "log", Fault(where, 1, filler if real else None, file))
        assert child.wait() == 2, child.said
        last = child.said.splitlines()[-1]
        assert last.startswith(f"shiftproof: {out}/")
        assert last.endswith("make room and go on with --resume.")
        assert "Traceback" not in child.said
        filler.unlink(missing_ok=True)
        finish(training(out), tmp_path / "log")
        count(full_disks=1, resumes=1, runs=1)
        same(end(out), whole[0], (where, file, real))


@pytest.mark.parametrize("kind", ["mounted read-only", "below a file"])
@pytest.mark.parametrize("command", [training, sweeping])
def test_a_folder_that_cannot_be_written(command: Any, kind: str, tmp_path: Path) -> None:
    """One line, before anything is trained."""
    with disk(tmp_path / "disk", 2**24) as folder:
        if kind == "below a file":
            (tmp_path / "disk" / "file").touch()
            out = tmp_path / "disk" / "file" / "run"
        elif folder is None:
            pytest.skip("needs the right to mount a disk")
        else:
            out = folder / "run"
            protect(folder)
        child = Child(command(out), tmp_path / "log", Fault("step", 1))
        assert child.wait() == 2, child.said
        assert child.said.splitlines()[-1].startswith("shiftproof: [Errno ")
        assert str(out) in child.said.splitlines()[-1]
        assert "Traceback" not in child.said
        assert "FAILED" not in child.said
        count(folders_that_cannot_be_written=1)


def test_records_that_cannot_be_written(tmp_path: Path) -> None:
    """Found before the first run, not after it."""
    (tmp_path / "records").touch()
    child = Child(sweeping(tmp_path), tmp_path / "log", Fault("step", 1))
    assert child.wait() == 2, child.said
    assert child.said.splitlines()[-1] == f"shiftproof: [Errno 17] File exists: '{tmp_path / 'records'}'"
    count(folders_that_cannot_be_written=1)


def test_a_clock_that_jumps(
    whole: tuple[dict[str, Any], float], whole_sweep: tuple[dict[str, Any], float], tmp_path: Path
) -> None:
    """By hours, back and forth, at every look: the same ends, and no time is negative."""
    child = Child(training(tmp_path / "run"), tmp_path / "log", jumps=True)
    assert child.wait() == 0, child.said
    child = Child(sweeping(tmp_path), tmp_path / "log", jumps=True)
    assert child.wait() == 0, child.said
    same(end(tmp_path / "run"), whole[0], "jumps")
    same(ends(tmp_path), whole_sweep[0], "jumps")
    for path in [*tmp_path.rglob("result.json"), *tmp_path.rglob("records/*.json")]:
        assert json.loads(path.read_text())["seconds"] >= 0
    for path in tmp_path.rglob("log.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        times = [line["seconds"] for line in lines if "seconds" in line]
        assert times == sorted(times)
        assert all(line["speed"] > 0 for line in lines if "speed" in line)
    count(clocks_that_jump=2, runs=2)


def pictures(folder: Path) -> list[str]:
    """A data set of files, and the words that name it."""
    luck = random.Random(0)
    for kind in ("cats", "dogs"):
        (folder / kind).mkdir(parents=True)
        for i in range(20):
            Image.frombytes("L", (8, 8), luck.randbytes(64)).save(folder / kind / f"{i}.png")
    return ["--folder", str(folder)]


def test_pictures_that_change_under_a_run(tmp_path: Path) -> None:
    """They are read once: a run that goes on is not touched. One that is taken up again on others is refused."""
    source, log = tmp_path / "pictures", tmp_path / "log"
    more = ["--dataset=folder", "--method=ghs", "--resume", *pictures(source)]
    command = words("train", *more, f"--out={tmp_path / 'run'}", data__limit=24)
    finish(words("train", *more, f"--out={tmp_path / 'whole'}", data__limit=24), log)
    child = Child(command, log, Fault("step", 2, signal.SIGSTOP))
    child.until(child.stopped)
    shutil.copytree(source, tmp_path / "before")
    (source / "cats" / "3.png").write_bytes((source / "dogs" / "4.png").read_bytes())
    child.send(signal.SIGCONT)
    assert child.wait() == 0, child.said
    same(end(tmp_path / "run"), end(tmp_path / "whole"), "a picture that changed")

    (tmp_path / "run" / "result.json").unlink()
    child = Child(command, log)
    assert child.wait() == 2, child.said
    assert "the images of folder are not those the run was begun with" in child.said
    shutil.rmtree(source)
    shutil.copytree(tmp_path / "before", source)
    finish(command, log)
    count(pictures_that_change=2, resumes=1, runs=2)
    same(end(tmp_path / "run"), end(tmp_path / "whole"), "pictures as they were")


def test_a_folder_belongs_to_one_run(whole: tuple[dict[str, Any], float], tmp_path: Path) -> None:
    """A second process is refused and the first one not disturbed; what a killed one held is free."""
    out, log = tmp_path / "run", tmp_path / "log"
    first = Child(training(out), tmp_path / "first", Fault("step", 3, signal.SIGSTOP))
    first.until(first.stopped)
    second = Child(training(out), log)
    assert second.wait() == 2, second.said
    assert (
        second.said.splitlines()[-1] == f"shiftproof: {out}: another process is at work there; wait for it, or choose another folder."
    )
    first.send(signal.SIGCONT)
    assert first.wait() == 0, first.said
    same(end(out), whole[0], "a second process")

    first = Child(training(tmp_path / "other"), log, Fault("step", 3, signal.SIGSTOP))
    first.until(first.stopped)
    first.send(signal.SIGKILL)
    assert first.wait() == KILLED
    finish(training(tmp_path / "other"), log)
    same(end(tmp_path / "other"), whole[0], "a lock that is left")
    count(second_processes_in_a_folder=1, kills=1, resumes=1, runs=2)


def test_two_sweeps_share_a_folder(whole_sweep: tuple[dict[str, Any], float], tmp_path: Path) -> None:
    """A run that another sweep is at is left to it; both end well, with every record."""
    first = Child(sweeping(tmp_path), tmp_path / "first", Fault("step", 2, signal.SIGSTOP))
    first.until(first.stopped)
    second = Child(sweeping(tmp_path), tmp_path / "second")
    second.until(lambda: "another process is at work there" in second.said)
    second.until(lambda: len(list((tmp_path / "records").glob("*.json"))) == 3)
    first.send(signal.SIGCONT)
    assert (first.wait(), second.wait()) == (0, 0), first.said + second.said
    same(ends(tmp_path), whole_sweep[0], "two sweeps")
    count(second_processes_in_a_folder=1, runs=2)
