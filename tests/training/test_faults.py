"""Training and sweeps meet misfortunes: killed, stopped, without room, and nothing is lost."""

import json
import os
import random
import secrets
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from helpers.faults import PATIENCE, PLACES, Child, Fault, disk, end_all, protect
from helpers.short_runs import SOAK, Whole, count, end, ends, finish, same, sweeping, training, words
from shiftproof.training.checkpoint import Checkpoints, read_tensors

KILLED = -signal.SIGKILL
pytestmark = [pytest.mark.counted, pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux")]


@pytest.fixture(autouse=True)
def nobody_left() -> Iterator[None]:
    yield
    end_all()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def whole(place: Path) -> Whole:
    """A run that nothing disturbs, and how long it lives."""
    finish(training(place / "warm"), place / "log")
    started = time.monotonic()
    finish(training(place / "whole"), place / "log")
    found = end(place / "whole")
    assert [line["step"] for line in found["log"]] == [1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9]
    return found, time.monotonic() - started


@pytest.fixture(scope="module")
def whole_sweep(place: Path) -> Whole:
    started = time.monotonic()
    finish(sweeping(place / "sweep"), place / "log")
    found = ends(place / "sweep")
    assert len(found) == (8 if SOAK else 4)
    return found, time.monotonic() - started


def killed_again_and_again(command: list[str], out: Path, life: float, luck: random.Random) -> list[Any]:
    """One kill at least and up to three, at a time or at a place; what was done."""
    story: list[Any] = []
    kills, wanted, log = 0, luck.randint(1, 3), out.with_name("log")
    while kills < wanted:
        fault = None if luck.random() < 0.5 else Fault(luck.choice(PLACES), luck.randint(1, 12))
        delay = luck.uniform(0, life)
        child = Child(command, log, fault)
        if fault is None:
            child.send(signal.SIGKILL, delay)
        code = child.wait()
        story.append((code, fault or f"{delay:.3f} s"))
        assert code in (0, KILLED), (story, child.said)
        kills += code == KILLED
        if code == 0 and kills:
            break
        if code == 0:  # the end came first: once more, from the beginning
            shutil.rmtree(out)
            life *= 0.7
    finish(command, log)
    count(kills=kills, resumes=kills, runs=1)
    return story


def lucky(number: int) -> tuple[random.Random, int]:
    """The same luck in every `make test`, another in every `make soak`."""
    seed = secrets.randbits(32) if SOAK else number
    return random.Random(seed), seed


@pytest.mark.parametrize("number", [0, 1, 2, *(pytest.param(i, marks=pytest.mark.slow) for i in range(3, 100))])
def test_a_run_that_is_killed_anywhere_loses_nothing(number: int, whole: Whole, tmp_path: Path) -> None:
    """SIGKILL at any time, any number of times: weights, result, log and checkpoints are those of a whole run."""
    luck, seed = lucky(number)
    story = killed_again_and_again(training(tmp_path / "run"), tmp_path / "run", whole[1], luck)
    same(end(tmp_path / "run"), whole[0], (seed, story))


def test_a_run_that_is_killed_everywhere_loses_nothing(whole: Whole, tmp_path: Path) -> None:
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
def test_a_sweep_that_is_killed_anywhere_loses_nothing(number: int, whole_sweep: Whole, tmp_path: Path) -> None:
    """Every record is there once, the same apart from times, and so is every run."""
    luck, seed = lucky(number)
    story = killed_again_and_again(sweeping(tmp_path / "sweep"), tmp_path / "sweep", whole_sweep[1], luck)
    same(ends(tmp_path / "sweep"), whole_sweep[0], (seed, story))


@pytest.mark.parametrize("number", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 10))])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_at_any_time(name: str, number: int, whole: Whole, tmp_path: Path) -> None:
    """No traceback, exit code 130; SIGTERM before the first step ends it as it ends every process."""
    luck, seed = lucky(number)
    command, delay = training(tmp_path / "run"), luck.uniform(0, whole[1])
    child = Child(command, tmp_path / "log")
    child.send(signal.Signals[name], delay)
    code = child.wait()
    assert code in (0, 130, -signal.SIGTERM if name == "SIGTERM" else 130), (seed, delay, code, child.said)
    assert "Traceback" not in child.said, (seed, delay)
    finish(command, tmp_path / "log")
    count(**{f"{name}_at_a_random_time": 1}, resumes=1, runs=1)
    same(end(tmp_path / "run"), whole[0], (seed, name, delay))


@pytest.mark.slow
def test_ctrl_c_in_a_sweep_of_several_processes(whole_sweep: Whole, tmp_path: Path) -> None:
    """All of them hear it; each leaves a checkpoint, and none a traceback."""
    child = Child(sweeping(tmp_path, "--jobs=2"), tmp_path / "log")
    child.until(lambda: list(tmp_path.rglob("checkpoints/*.safetensors")))
    child.send(signal.SIGINT)
    assert child.wait() == 130, child.said
    assert "Traceback" not in child.said
    finish(sweeping(tmp_path), tmp_path / "log")
    count(SIGINT_at_a_random_time=1, resumes=1, runs=1)
    found = ends(tmp_path)
    assert all(found[name] == value for name, value in whole_sweep[0].items() if name.endswith(".json"))


def test_a_stop_at_the_end_of_an_epoch_and_a_kill_after_it(whole: Whole, tmp_path: Path) -> None:
    """The line of the epoch is written before its checkpoint: it stands in the log once."""
    command, log = training(tmp_path / "run"), tmp_path / "log"
    child = Child(command, log, Fault("step", 3, signal.SIGTERM))
    assert child.wait() == 130, child.said
    assert "stopped in epoch 1; continue with --resume" in child.said
    assert Child(command, log, Fault("write", file="step-")).wait() == KILLED
    finish(command, log)
    count(kills=1, resumes=2, runs=1)
    same(end(tmp_path / "run"), whole[0], "a stop and a kill")


@pytest.mark.parametrize(
    ("where", "file", "real"),
    [
        ("write", "step-000000002", True),
        ("write", "final", True),
        ("log", "", False),
        *(pytest.param("write", name, False, marks=pytest.mark.slow) for name in ("step-000000002", "best", "final")),
        *(pytest.param(name, "", True, marks=pytest.mark.slow) for name in ("step", "log")),
    ],
)
def test_a_full_disk(where: str, file: str, real: bool, whole: Whole, tmp_path: Path) -> None:
    """The message names the file and the remedy; with room again, the run goes on to the same end."""
    with disk(tmp_path / "disk", 2**24) as folder:
        if folder is None and real:
            pytest.skip("needs the right to mount a disk")
        out, filler = tmp_path / "disk" / "run", tmp_path / "disk" / "filler"
        child = Child(training(out), tmp_path / "log", Fault(where, 1, filler if real else None, file))
        assert child.wait() == 2, child.said
        last = child.said.splitlines()[-1]
        assert last.startswith(f"shiftproof: {out}/")
        assert last.endswith("make room and continue with --resume.")
        assert "Traceback" not in child.said
        filler.unlink(missing_ok=True)
        finish(training(out), tmp_path / "log")
        count(full_disks=1, resumes=1, runs=1)
        same(end(out), whole[0], (where, file, real))


def newest_checkpoint(out: Path) -> tuple[str, bytes]:
    """Its name and its bytes, once it is seen to be whole; nothing before the first one is written."""
    files = Checkpoints(out / "checkpoints").files()
    for path in files:
        read_tensors(path)
    return (files[0].name, files[0].read_bytes()) if files else ("", b"")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(10))
def test_a_disk_that_fills_up_again_and_again(number: int, whole: Whole, tmp_path: Path) -> None:
    """Wherever it happens: one clear line, and the newest checkpoint stays and is whole; the run goes on from it."""
    luck, seed = lucky(number)
    with disk(tmp_path / "disk", 2**25) as folder:
        out, filler = tmp_path / "disk" / "run", tmp_path / "disk" / "filler"
        story: list[Any] = [seed]
        before = newest_checkpoint(out)
        for _ in range(luck.randint(1, 4)):
            place = luck.choice(("step", "write", "rename", "renamed", "log"))
            fault = Fault(place, luck.randint(1, 8), None if folder is None else filler)
            child = Child(training(out), tmp_path / "log", fault)
            code = child.wait()
            story.append((code, fault))
            after = newest_checkpoint(out)
            assert after[0] >= before[0], story
            if code == 0:  # the end came first
                break
            assert code == 2, (story, child.said)
            assert "Traceback" not in child.said, story
            assert child.said.splitlines()[-1].startswith(f"shiftproof: {out}"), (story, child.said)
            assert "make room" in child.said.splitlines()[-1], (story, child.said)
            if filler.exists():  # still no room: nothing is touched
                child = Child(training(out), tmp_path / "log")
                assert child.wait() == 2, (story, child.said)
                assert "make room" in child.said.splitlines()[-1], (story, child.said)
                assert newest_checkpoint(out) == after, story
                filler.unlink()
            before = after
            count(full_disks=1, resumes=1)
        filler.unlink(missing_ok=True)
        finish(training(out), tmp_path / "log")
        count(runs=1)
        same(end(out), whole[0], story)


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


def test_a_clock_that_jumps(whole: Whole, whole_sweep: Whole, tmp_path: Path) -> None:
    """By hours, back and forth, at every look: the same ends, and no time is negative."""
    child = Child(training(tmp_path / "run"), tmp_path / "log", Fault("clock"))
    assert child.wait() == 0, child.said
    child = Child(sweeping(tmp_path), tmp_path / "log", Fault("clock"))
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


def test_a_folder_belongs_to_one_run(whole: Whole, tmp_path: Path) -> None:
    """A second process is refused and the first one not disturbed; what a killed one held is free."""
    out, log = tmp_path / "run", tmp_path / "log"
    first = Child(training(out), tmp_path / "first", Fault("step", 3, signal.SIGSTOP))
    first.until(first.stopped)
    second = Child(training(out), log)
    assert second.wait() == 2, second.said
    assert f"shiftproof: {out}: another process is at work there; wait for it, or" in second.said
    first.send(signal.SIGCONT)
    assert first.wait() == 0, first.said
    same(end(out), whole[0], "a second process")

    first = Child(training(tmp_path / "other"), log, Fault("step", 3, signal.SIGSTOP))
    first.until(first.stopped)
    first.send(signal.SIGKILL)
    assert first.wait() == KILLED
    finish(training(tmp_path / "other"), log)
    same(end(tmp_path / "other"), whole[0], "a lock that is left")

    late = Child(training(tmp_path / "third", optim__lr=0.05), tmp_path / "late", Fault("claim", 1, signal.SIGSTOP))
    late.until(late.stopped)
    finish(training(tmp_path / "third"), log)
    late.send(signal.SIGCONT)
    assert late.wait() == 2, late.said
    assert "the run there has other settings: optim.lr" in late.said
    same(end(tmp_path / "third"), whole[0], "a process that came a moment too late")
    count(second_processes_in_a_folder=2, kills=1, resumes=1, runs=3)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--resume"], []])
@pytest.mark.parametrize("number", range(3))
def test_two_runs_begun_at_one_moment(number: int, words: list[str], whole: Whole, tmp_path: Path) -> None:
    """Exactly one of them runs; the other says so, and disturbs nothing."""
    out = tmp_path / "run"
    command = [word for word in training(out) if word != "--resume"] + words
    faults = Fault("claim", 1, signal.SIGSTOP), Fault("step", 3, signal.SIGSTOP)
    rivals = [Child(command, tmp_path / f"rival{i}", *faults) for i in range(2)]
    for rival in rivals:
        rival.until(rival.stopped)
    for rival in rivals if number % 2 else rivals[::-1]:
        rival.send(signal.SIGCONT)
    end_by = time.monotonic() + PATIENCE
    while not any(rival.ended() for rival in rivals):
        assert time.monotonic() < end_by
        time.sleep(0.02)
    loser, winner = sorted(rivals, key=lambda rival: not rival.ended())
    assert loser.wait() == 2, loser.said
    assert f"shiftproof: {out}: another process is at work there; wait for it, or choose another" in loser.said
    assert "Traceback" not in loser.said
    winner.until(winner.stopped)
    winner.send(signal.SIGCONT)
    assert winner.wait() == 0, winner.said
    count(second_processes_in_a_folder=1, runs=1)
    same(end(out), whole[0], "two at one moment")


def test_two_sweeps_share_a_folder(whole_sweep: Whole, tmp_path: Path) -> None:
    """A run that another sweep is at is left to it; both end well, with every record."""
    first = Child(sweeping(tmp_path), tmp_path / "first", Fault("step", 2, signal.SIGSTOP))
    first.until(first.stopped)
    second = Child(sweeping(tmp_path), tmp_path / "second")
    second.until(lambda: "another process is at work there" in second.said)
    second.until(lambda: len(list((tmp_path / "records").glob("*.json"))) == len(whole_sweep[0]) // 2 - 1)
    first.send(signal.SIGCONT)
    assert (first.wait(), second.wait()) == (0, 0), first.said + second.said
    same(ends(tmp_path), whole_sweep[0], "two sweeps")
    count(second_processes_in_a_folder=1, runs=2)


def ranks(out: Path, log: Path, *faults: Fault | None) -> list[tuple[int, str]]:
    """The ends of the processes of one run, each with its fault or none."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(len(faults))}
    children = [
        Child(training(out), log.with_name(f"rank{i}"), fault, variables=where | {"RANK": str(i), "LOCAL_RANK": str(i)})
        for i, fault in enumerate(faults)
    ]
    return [(child.wait(), child.said) for child in children]


def test_a_rank_that_dies(tmp_path: Path) -> None:
    """The other one ends at once and says so, whichever it is; started again, they end as if nothing had happened."""
    out, log = tmp_path / "run", tmp_path / "log"
    assert [code for code, _ in ranks(tmp_path / "whole", log, None, None)] == [0, 0]
    victims = (1, 0) if SOAK else (1,)
    for victim in victims:
        found = ranks(out, log, *(Fault("step", 4) if rank == victim else None for rank in (0, 1)))
        assert found[victim][0] == KILLED
        code, said = found[1 - victim]
        assert code == 2, said
        assert "a process of this run is gone, or does not answer" in said
        assert "Traceback" not in said
    assert [code for code, _ in ranks(out, log, None, None)] == [0, 0]
    count(kills=len(victims), ranks_that_die=len(victims), resumes=len(victims), runs=1)
    same(end(out), end(tmp_path / "whole"), "dead ranks")
