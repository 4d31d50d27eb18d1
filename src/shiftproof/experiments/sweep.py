"""`shiftproof sweep`: many runs, each trained, evaluated and put on record; what has a record is not run again."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

from shiftproof import checks, environment, progress
from shiftproof.data.store import data_root
from shiftproof.experiments import evaluate, records
from shiftproof.experiments.catalogue import title
from shiftproof.safe_io.atomic import writable
from shiftproof.safe_io.locks import BusyError
from shiftproof.training.config import Config
from shiftproof.training.process import Stopwatch, keep_memory

ENGINES = ("local", "ray")
_PAUSE = 10.0  # seconds before a run that another process is at is looked at again


def perform(
    config: Config, runs: Path, data_dir: Path | None, settings: evaluate.Settings, quiet: bool
) -> dict[str, Any]:
    """One run from beginning to record; goes on where it stopped, if it stopped."""
    from shiftproof.training.loop import train

    keep_memory()
    folder = runs / title(config)
    train(config, folder, resume=True, data_dir=data_dir, quiet=quiet)
    subject = evaluate.from_run(folder, settings.weights, data_dir=data_dir, on=settings.on)
    with contextlib.nullcontext() if quiet else progress.reporting(subject.title) as report:
        return evaluate.evaluate(subject, settings, report)


def done(config: Config, settings: evaluate.Settings, folder: Path) -> Path | None:
    """The record of a run, if there is one."""
    key = records.identity(config.to_dict(), config.model.name, config.data.name, settings.to_dict())
    for path in sorted(folder.glob("*.json")):
        record = records.read(path)
        if record["key"] == key and record["training"] is not None:
            return path
    return None


def run(
    configs: list[Config],
    *,
    settings: evaluate.Settings,
    runs: Path,
    out: Path,
    data_dir: Path | None,
    jobs: int,
    engine: str,
    address: str | None,
    as_json: bool,
) -> int:
    """`shiftproof sweep NAME`: run what has no record yet, list what there is."""
    failed = complete(
        configs, settings=settings, runs=runs, out=out, data_dir=data_dir, jobs=jobs, engine=engine, address=address
    )
    paths = [p for c in configs if (p := done(c, settings, out)) is not None]
    if as_json:
        print(json.dumps({"records": [str(p) for p in paths], "failed": failed}, indent=2))
    else:
        records.run("list", paths, as_json=False)
    return 1 if failed else 0


def complete(
    configs: list[Config],
    *,
    settings: evaluate.Settings,
    runs: Path,
    out: Path,
    data_dir: Path | None,
    jobs: int = 1,
    engine: str = "local",
    address: str | None = None,
) -> dict[str, str]:
    """Run what has no record in `out` yet; returns what failed, and why."""
    checks.choice("--engine", engine, ENGINES)
    checks.integer("--jobs", jobs)
    if address is not None and engine != "ray":
        raise ValueError("`--address` belongs to `--engine ray`.")
    environment.code(), records.validator()  # as they are now, whatever is changed while the runs go
    missing = [c for c in configs if done(c, settings, out) is None]
    progress.say(f"{len(configs)} runs, {len(configs) - len(missing)} on record, {len(missing)} to do")
    for folder in (runs, out) if missing else ():
        writable(folder)
    # absolute: a process elsewhere has another working folder
    one = functools.partial(
        perform,
        runs=runs.resolve(),
        data_dir=data_root(data_dir).resolve(),
        settings=settings,
        quiet=jobs > 1 or engine == "ray",
    )
    watch, failed = Stopwatch(), {}
    if engine == "ray":
        several = functools.partial(_on_ray, one, address=address)
    elif jobs > 1:
        several = functools.partial(_in_processes, one, jobs=jobs)
    else:
        several = functools.partial(_in_turn, one)
    finished = _sharing(several, missing, lambda config: done(config, settings, out) is not None)
    for count, (config, outcome) in enumerate(finished, start=1):
        if isinstance(outcome, ModuleNotFoundError):  # would stop every run alike
            raise outcome
        if isinstance(outcome, Exception):
            failed[title(config)] = str(outcome)
            progress.say(f"[{count}/{len(missing)}] {title(config)}: FAILED: {outcome}")
            continue
        path = records.write(outcome, out)
        left = watch() / count * (len(missing) - count)
        then = f", about {_duration(left)} left" if left else ""
        progress.say(f"[{count}/{len(missing)}] wrote {path}{then}")
    return failed


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds > 90 else f"{seconds:.0f} seconds"


Outcome = tuple[Config, "dict[str, Any] | Exception"]


def _sharing(
    several: Callable[[list[Config]], Iterator[Outcome]], configs: list[Config], recorded: Callable[[Config], bool]
) -> Iterator[Outcome]:
    """What becomes of runs; one that another process is at comes last, if that one leaves no record of it."""
    left, told = configs, set[str]()
    while left:
        busy = []
        for config, outcome in several(left):
            if not isinstance(outcome, BusyError):
                yield config, outcome
                continue
            busy.append(config)
            if title(config) not in told:
                progress.say(f"{outcome} Going on with the other runs.")
            told.add(title(config))
        if busy:
            time.sleep(_PAUSE)
        left = [config for config in busy if not recorded(config)]


def _in_turn(one: Callable[[Config], dict[str, Any]], configs: Iterable[Config]) -> Iterator[Outcome]:
    for config in configs:
        try:
            yield config, one(config)
        except Exception as error:  # one bad run must not end the others
            yield config, error


def _in_processes(one: Callable[[Config], dict[str, Any]], configs: list[Config], jobs: int) -> Iterator[Outcome]:
    threads = max(1, (os.cpu_count() or 1) // jobs)
    left = list(configs)
    while left:
        before = len(left)
        pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin, initargs=(threads,))
        try:
            waiting = {pool.submit(_in_worker, one, config): config for config in left}
            for future in as_completed(waiting):
                error = future.exception()
                if isinstance(error, BrokenProcessPool) and len(left) < before:
                    break  # a worker died, and something was done: try the rest anew
                left.remove(waiting[future])
                yield waiting[future], error if isinstance(error, Exception) else future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _in_worker(one: Callable[[Config], dict[str, Any]], config: Config) -> dict[str, Any]:
    """A run in a worker, which Ctrl-C ends for good: it must not take the next one."""
    try:
        return one(config)
    except KeyboardInterrupt:
        os._exit(130)


def _begin(threads: int) -> None:
    """A worker: its share of the cores, and an end when the sweep itself has been killed."""
    import torch

    environment.code()
    torch.set_num_threads(threads)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _on_ray(one: Callable[[Config], dict[str, Any]], configs: list[Config], address: str | None) -> Iterator[Outcome]:
    """The same runs on a Ray cluster: each on one machine, its record sent back.

    The folders of runs and of data must be on storage that all machines share.
    """
    ray = importlib.import_module("ray")
    ray.init(address=address, log_to_driver=False, ignore_reinit_error=True)
    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=3)(one.func)  # type: ignore[attr-defined]
    waiting = {remote.remote(config, **one.keywords): config for config in configs}  # type: ignore[attr-defined]
    try:
        while waiting:
            (ready, *_), _ = ray.wait(list(waiting))
            config = waiting.pop(ready)
            try:
                yield config, ray.get(ready)
            except ray.exceptions.RayError as error:
                yield config, ValueError(str(error).strip().splitlines()[-1])
    finally:
        ray.shutdown()
