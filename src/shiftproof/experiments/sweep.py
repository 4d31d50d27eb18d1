"""Many runs, each trained, evaluated and put on record; a run that is on record is not run again."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from shiftproof import checks, environment, progress
from shiftproof.data.store import data_root
from shiftproof.experiments import engines, evaluate, records
from shiftproof.experiments.catalogue import run_name
from shiftproof.experiments.engines import Outcome
from shiftproof.experiments.records import Settings
from shiftproof.safe_io.atomic import writable
from shiftproof.safe_io.locks import BusyError
from shiftproof.training.config import Config
from shiftproof.training.process import Stopwatch

ENGINES = ("local", "ray")
_PAUSE = 10.0  # seconds until a run that another process works on is looked at again


class RecordedRuns:
    """The runs on record in a folder. Every record is read once; other processes may add more at any time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._found: dict[str, tuple[Path, tuple[str, ...]]] = {}
        for path in sorted(folder.glob("*.json"), reverse=True):
            self._note(path, records.read(path))

    def find(self, config: Config, settings: Settings) -> tuple[Path, tuple[str, ...]] | None:
        """The file and the headline of a run's record, if there is one. What is not known yet may be there by now."""
        key = records.run_key(config, settings)
        if key not in self._found and (found := _read_if_there(self.folder, config, settings)) is not None:
            self._note(*found)
        return self._found.get(key)

    def write(self, record: records.Record) -> Path:
        """Add a record to the folder."""
        path = records.write(record, self.folder)
        self._note(path, record)
        return path

    def _note(self, path: Path, record: records.Record) -> None:
        self._found[record["key"]] = (path, records.headline(record))


def _read_if_there(folder: Path, config: Config, settings: Settings) -> tuple[Path, records.Record] | None:
    """The record of a run and the file that it is written to, whose name holds the key."""
    key = records.run_key(config, settings)
    path = records.path_for(folder, records.make_name(config.data.name, config.model.name, config), key)
    record = records.read(path) if path.exists() else None
    return (path, record) if record is not None and record["key"] == key else None


def complete(
    configs: list[Config],
    *,
    settings: Settings,
    runs: Path,
    recorded: RecordedRuns,
    data_dir: Path | None,
    jobs: int = 1,
    engine: str = "local",
    address: str | None = None,
) -> dict[str, str]:
    """Run what is not on record yet; returns what failed, and why. The options of `configs` are in full."""
    checks.choice("engine", engine, ENGINES)
    checks.integer("jobs", jobs)
    if address is not None and engine != "ray":
        raise ValueError(f"`address` (={address!r}) is that of a Ray cluster: `engine` must be 'ray', not {engine!r}.")
    environment.code()  # the commit as it is now, even if files change while the runs go on
    records.validator()
    missing = [c for c in configs if recorded.find(c, settings) is None]
    progress.say(f"{len(configs)} runs, {len(configs) - len(missing)} on record, {len(missing)} to do")
    for folder in (runs, recorded.folder) if missing else ():
        writable(folder)
    # absolute: a process elsewhere has another working folder
    one = functools.partial(
        perform,
        runs=runs.resolve(),
        folder=recorded.folder.resolve(),
        data_dir=data_root(data_dir).resolve(),
        settings=settings,
        quiet=jobs > 1 or engine == "ray",
    )
    if engine == "ray":
        several: Callable[[list[Config]], Iterator[Outcome]] = functools.partial(engines.on_ray, one, address=address)
    elif jobs > 1:
        several = functools.partial(engines.in_processes, one, jobs=jobs)
    else:
        several = functools.partial(engines.in_turn, one)
    watch, failed = Stopwatch(), {}
    finished = _take_turns(several, missing, lambda config: recorded.find(config, settings) is not None)
    for count, (config, outcome) in enumerate(finished, start=1):
        if isinstance(outcome, ModuleNotFoundError):  # would stop every run alike
            raise outcome
        if isinstance(outcome, Exception):
            failed[run_name(config)] = str(outcome)
            said = f"{run_name(config)}: FAILED: {outcome}"
        elif outcome is None:
            said = f"{run_name(config)}: on record by now"
        else:
            said = f"wrote {recorded.write(outcome)}"
            left = watch() / count * (len(missing) - count)
            said += f", about {_duration(left)} left" if left else ""
        progress.say(f"[{count}/{len(missing)}] {said}")
    return failed


def perform(
    config: Config, runs: Path, folder: Path, data_dir: Path | None, settings: Settings, quiet: bool
) -> records.Record | None:
    """One run from its beginning, or from where it stopped, to its record; None if `folder` has that record by now."""
    from shiftproof.training.loop import train

    if _read_if_there(folder, config, settings) is not None:
        return None
    run = runs / run_name(config)
    train(config, run, resume=True, data_dir=data_dir, quiet=quiet)
    subject = evaluate.from_run(run, settings, data_dir)
    with contextlib.nullcontext() if quiet else progress.reporting(subject.title) as report:
        return evaluate.evaluate(subject, settings, report)


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds > 90 else f"{seconds:.0f} seconds"


def _take_turns(
    several: Callable[[list[Config]], Iterator[Outcome]], configs: list[Config], recorded: Callable[[Config], bool]
) -> Iterator[Outcome]:
    """The outcomes of runs. A run that another process works on comes last, if that process leaves no record of it."""
    left, told = configs, set[str]()
    while left:
        busy = []
        for config, outcome in several(left):
            if not isinstance(outcome, BusyError):
                yield config, outcome
                continue
            busy.append(config)
            if run_name(config) not in told:
                progress.say(f"{outcome} The other runs come first.")
            told.add(run_name(config))
        if busy:
            time.sleep(_PAUSE)
        left = [config for config in busy if not recorded(config)]
