"""Ways to execute many runs: one after the other, in processes of this machine, on a Ray cluster.

Each takes the function that performs one run and yields every configuration with its outcome.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context, parent_process

from shiftproof import environment
from shiftproof.experiments.records import Record
from shiftproof.training.config import Config

# the record of a run, None if it was on record already, or why there is none
Outcome = tuple[Config, "Record | Exception | None"]
Perform = Callable[[Config], "Record | None"]


def in_turn(one: Perform, configs: Iterable[Config]) -> Iterator[Outcome]:
    """One run after the other, here."""
    for config in configs:
        try:
            yield config, one(config)
        except Exception as error:  # one bad run must not end the others
            yield config, error


def in_processes(one: Perform, configs: list[Config], jobs: int) -> Iterator[Outcome]:
    """`jobs` runs at a time, each in a process of its own with its share of the cores."""
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
                    break  # a worker died, but some runs were done: try the rest with new workers
                left.remove(waiting[future])
                yield waiting[future], error if isinstance(error, Exception) else future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _in_worker(one: Perform, config: Config) -> Record | None:
    """One run in a worker. Ctrl-C ends the worker at once, so that it does not take the next run."""
    try:
        return one(config)
    except KeyboardInterrupt:
        os._exit(130)


def _begin(threads: int) -> None:
    """Begin a worker: give it its share of the cores, and end it if the sweep is killed."""
    import torch

    environment.code()
    torch.set_num_threads(threads)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def on_ray(one: partial[Record | None], configs: list[Config], address: str | None) -> Iterator[Outcome]:
    """Runs on a Ray cluster: each on one machine, which sends the record back.

    The folders of runs and of data must be on storage that all machines share.
    """
    ray = importlib.import_module("ray")
    ray.init(address=address, log_to_driver=False, ignore_reinit_error=True)
    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=3)(one.func)
    waiting = {remote.remote(config, **one.keywords): config for config in configs}
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
