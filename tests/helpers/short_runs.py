"""Short runs and sweeps, disturbed and not: the words that start them, what they leave, and the count of them."""

import json
import os
from pathlib import Path
from typing import Any

from helpers import tally
from helpers.faults import Child
from shiftproof.experiments import records
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
Whole = tuple[dict[str, Any], float]  # what an undisturbed run leaves, and the seconds it lives


def words(command: str, *more: str, **changes: Any) -> list[str]:
    pairs = (SETTINGS | {k.replace("__", "."): v for k, v in changes.items()}).items()
    return [command, *more, "--preset", "smoke", *(f"--set={k}={json.dumps(v)}" for k, v in pairs)]


def training(out: Path, **changes: Any) -> list[str]:
    return words("train", "--dataset=digits", "--method=ghs", "--resume", f"--out={out}", **changes)


def sweeping(out: Path, *more: str) -> list[str]:
    places = [f"--runs={out / 'runs'}", f"--records={out / 'records'}", *more]
    seeds = ["0", "1"] if SOAK else ["0"]
    return words("sweep", "digits", "--methods", "strided", "ghs", "--seeds", *seeds, *places, optim__epochs=1)


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
    """All that a sweep leaves, but for the unfinished file of a killed process."""
    return {p.name: timeless(records.read(p)) for p in (out / "records").iterdir() if p.suffix != ".tmp"} | {
        p.name: end(p) for p in (out / "runs").iterdir()
    }


def finish(command: list[str], log: Path) -> str:
    """Run it, or go on with it, to its end."""
    child = Child(command, log)
    assert child.wait() == 0, child.said
    return child.said


def count(**numbers: int) -> None:
    """What was tried, for the page of `make soak`."""
    for what, number in numbers.items():
        tally.count(SECTION, what.replace("_", " "), number)


def same(found: dict[str, Any], expected: dict[str, Any], story: object) -> None:
    """Bit for bit, or the story of what went before."""
    different = [key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)]
    assert not different, f"{different} differ after {story}"
    tally.count(SECTION, "bit-identical ends")
    tally.count(SECTION, "losses", 0)
