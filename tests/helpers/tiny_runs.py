"""Runs that take a second: their settings, and the words of a sweep over them."""

import json
from pathlib import Path

import pytest

from shiftproof.experiments.records import Settings
from shiftproof.ghs.kernel import Local
from shiftproof.layers import registry

TINY = {"data.limit": 64, "optim.batch_size": 32, "optim.epochs": 1, "run.threads": 1, "run.tensorboard": False}
PAIRS = [f"--set={k}={json.dumps(v)}" for k, v in TINY.items()]
QUICK = Settings(parts=("accuracy", "consistency"), limit=6, shift_images=2)


def sweep_words(folder: Path, *more: str) -> list[str]:
    """The command line of a sweep over tiny runs on digits."""
    places = ["--runs", str(folder / "runs"), "--records", str(folder / "records")]
    return ["sweep", "table1", "--preset", "smoke", "--dataset", "digits", *places, *PAIRS, *more]


def change_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go on as a later version, in which `ghs` has another kernel by default."""
    ghs = registry._registry["ghs"]
    changed = ghs._replace(options=dict(ghs.options) | {"kernel": Local(4)})
    monkeypatch.setitem(registry._registry, "ghs", changed)
