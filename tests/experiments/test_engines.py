"""Ways to execute many runs: what happens when workers die, are stopped, or fail."""

import functools
from pathlib import Path
from typing import Any

from helpers import workers
from shiftproof.experiments import engines
from shiftproof.training.config import configure


def test_a_worker_that_dies_does_not_end_the_others(tmp_path: Path) -> None:
    """What it left undone is done by new ones."""
    one = functools.partial(workers.dies_once, folder=tmp_path)
    found: dict[Any, Any] = dict(engines.in_processes(one, [0, 1, 2], 1))  # type: ignore[list-item]
    assert found == {0: {"run": 0}, 1: {"run": 1}, 2: {"run": 2}}


def test_a_worker_that_is_stopped_takes_no_other_run(tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of a terminal: a worker ends there and then, and others do what is left."""
    one = functools.partial(workers.is_stopped, folder=tmp_path)
    found: dict[Any, Any] = dict(engines.in_processes(one, [0, 1, 2], 1))  # type: ignore[list-item]
    assert [isinstance(found[run], Exception) for run in (0, 1, 2)] == [True, True, False]
    assert len({(tmp_path / run).read_text() for run in "012"}) == 3


def test_a_run_that_fails_in_any_way_is_reported() -> None:
    def fails(_: Any) -> dict[str, Any]:
        raise RuntimeError("out of memory")

    ((_, outcome),) = engines.in_turn(fails, [configure("smoke")])
    assert str(outcome) == "out of memory"
