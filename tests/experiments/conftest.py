"""A finished run and its record, made once."""

from pathlib import Path

import pytest

from helpers.tiny_runs import QUICK, TINY
from shiftproof.experiments import evaluate, records
from shiftproof.training.config import configure
from shiftproof.training.loop import train


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    train(configure("smoke", dataset="digits", method="ghs", changes=TINY), out, quiet=True)
    return out


@pytest.fixture(scope="session")
def record(finished: Path) -> records.Record:
    return evaluate.evaluate(evaluate.from_run(finished, QUICK), QUICK)
