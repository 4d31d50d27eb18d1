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
    """In a step, before a write, in it, before and after the rename, before a checkpoint is removed, in the log, at the end."""
    command, log = training(tmp_path / "run"), tmp_path / "log"
    counts = {"step": 3, "write": 4, "half": 4, "rename": 4, "renamed": 4, "removal": 1, "log": 2}
    faults = [Fault("write"), *(Fault(place, counts[place]) for place in PLACES)]
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


def test_a_stop_at_the_end_of_an_epoch_and_a_kill_after_it(
    whole: tuple[dict[str, Any], float], tmp_path: Path
) -> None:
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
def test_a_full_disk(
    where: str, file: str, real: bool, whole: tuple[dict[str, Any], float], tmp_path: Path
) -> None:
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
