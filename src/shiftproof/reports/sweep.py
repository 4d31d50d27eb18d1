"""`shiftproof sweep`: many runs, each trained, evaluated and put on record; what has a record is not run again."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from shiftproof import checks
from shiftproof.reports import environment, evaluate, records
from shiftproof.training.config import Config, configure

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Sweep:
    """A table of the paper as runs: data set x networks x methods."""

    dataset: str
    models: tuple[str, ...]
    methods: tuple[str, ...]


_NETWORKS = ("resnet18", "resnet20", "resnet50", "resnet56")
_METHODS = ("strided", "align", "lpf", "aps", "ghs-paper", "ghs")
SWEEPS = {
    "table1": Sweep("cifar10", _NETWORKS, _METHODS),
    "table2": Sweep("cifar10", _NETWORKS, _METHODS),  # the same runs: consistency in one table, accuracy in the other
    "table3": Sweep("cifar100", _NETWORKS, _METHODS),
    "table4": Sweep("cifar10", ("resnet18",), ("da", *_METHODS)),
    "figure5": Sweep("cifar10", ("resnet18",), ("da", *_METHODS)),
}
SEEDS = {"paper": 10, "laptop": 2, "smoke": 1}
# what two CPU cores can train; the others on request
SMALL = {"laptop": ("resnet20",), "smoke": ("resnet20",)}
# evaluation that fits the size of the training
SETTINGS = {
    "paper": evaluate.Settings(),
    "laptop": evaluate.Settings(),
    "smoke": evaluate.Settings(limit=64, shift_images=1),
}


def plan(
    name: str,
    preset: str,
    *,
    models: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
    dataset: str | None = None,
    changes: dict[str, Any] | None = None,
) -> list[Config]:
    """The configurations of a sweep: seed by seed, so that a sweep that is cut short has seeds complete."""
    sweep = SWEEPS[checks.choice("NAME", name, SWEEPS)]
    networks = models or SMALL.get(preset, sweep.models)
    return [
        configure(preset, model=model, method=method, dataset=dataset or sweep.dataset, seed=seed, changes=changes)
        for seed in seeds or range(SEEDS[checks.choice("preset", preset, SEEDS)])
        for model in networks
        for method in methods or sweep.methods
    ]


def title(config: Config) -> str:
    """The name of a run's folder: what tells it from others, and a key for the rest."""
    key = records.identity(config.to_dict(), config.model.name, config.data.name, {})
    return f"{config.data.name}-{config.model.name}-{config.recipe}-{config.preset}-seed{config.run.seed}-{key[:8]}"


def perform(
    config: Config, runs: Path, data_dir: Path | None, settings: evaluate.Settings, quiet: bool
) -> dict[str, Any]:
    """One run from beginning to record; goes on where it stopped, if it stopped."""
    from shiftproof.training.loop import train

    folder = runs / title(config)
    train(config, folder, resume=True, data_dir=data_dir, quiet=quiet)
    subject = evaluate.from_run(folder, settings.weights, data_dir=data_dir, on=settings.on)
    with contextlib.nullcontext() if quiet else evaluate.progress(subject.title) as report:
        return evaluate.evaluate(subject, settings, report)


def small(preset: str, model: str) -> str:
    """The network a preset trains where the paper has `model`."""
    return SMALL[preset][0] if preset in SMALL else model


def done(config: Config, settings: evaluate.Settings, folder: Path) -> Path | None:
    """The record of a run, if there is one."""
    key = records.identity(config.to_dict(), config.model.name, config.data.name, settings.to_dict())
    for path in folder.glob(f"*-{key[:8]}.json"):
        if records.read(path)["key"] == key:
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
    checks.choice("--engine", engine, ENGINES)
    checks.integer("--jobs", jobs)
    if address is not None and engine != "ray":
        raise ValueError("`--address` belongs to `--engine ray`.")
    environment.code()
    missing = [c for c in configs if done(c, settings, out) is None]
    _say(f"{len(configs)} runs, {len(configs) - len(missing)} on record, {len(missing)} to do")
    one = functools.partial(perform, runs=runs, data_dir=data_dir, settings=settings, quiet=jobs > 1 or engine == "ray")
    started, failed = time.monotonic(), {}
    if engine == "ray":
        finished = _on_ray(one, missing, address)
    elif jobs > 1:
        finished = _in_processes(one, missing, jobs)
    else:
        finished = _in_turn(one, missing)
    for count, (config, outcome) in enumerate(finished, start=1):
        if isinstance(outcome, Exception):
            failed[title(config)] = str(outcome)
            _say(f"[{count}/{len(missing)}] {title(config)}: FAILED: {outcome}")
            continue
        path = records.write(outcome, out)
        left = (time.monotonic() - started) / count * (len(missing) - count)
        _say(f"[{count}/{len(missing)}] wrote {path}, about {left / 60:.0f} minutes left")
    paths = [p for c in configs if (p := done(c, settings, out)) is not None]
    if as_json:
        print(json.dumps({"records": [str(p) for p in paths], "failed": failed}, indent=2))
    else:
        records.run("list", paths, as_json=False)
    return 1 if failed else 0


Outcome = tuple[Config, "dict[str, Any] | Exception"]


def _in_turn(one: Callable[[Config], dict[str, Any]], configs: Iterable[Config]) -> Iterator[Outcome]:
    for config in configs:
        try:
            yield config, one(config)
        except (ValueError, OSError) as error:
            yield config, error


def _in_processes(one: Callable[[Config], dict[str, Any]], configs: list[Config], jobs: int) -> Iterator[Outcome]:
    threads = max(1, (os.cpu_count() or 1) // jobs)
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin, initargs=(threads,)) as pool:
        waiting = {pool.submit(one, config): config for config in configs}
        for future in as_completed(waiting):
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            yield waiting[future], error or future.result()


def _begin(threads: int) -> None:
    """A worker: its share of the cores, and an end when the sweep itself has been killed."""
    import torch

    environment.code()
    torch.set_num_threads(threads)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _on_ray(one: Callable[[Config], dict[str, Any]], configs: list[Config], address: str | None) -> Iterator[Outcome]:
    """The same runs on a Ray cluster: each on one machine, its record sent back."""
    ray = importlib.import_module("ray")
    ray.init(address=address, log_to_driver=False, ignore_reinit_error=True)
    remote = ray.remote(num_cpus=1, max_retries=3)(one.func)  # type: ignore[attr-defined]
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


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
