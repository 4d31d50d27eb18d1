"""One process or several: what the training loop needs to know about the others.

Under `torchrun` the processes find each other through its environment variables (gloo on the CPU, nccl on CUDA);
without it there is one process, and this module does nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

T = TypeVar("T")


class LostError(OSError):
    """Another process of the run is gone."""


@dataclass(frozen=True)
class World:
    """The place of a process among all: `rank` of `size`; rank 0 is the one that writes."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files and prints."""
        return self.rank == 0

    @property
    def restarted(self) -> bool:
        """Whether torchrun restarted the processes after one of them died."""
        return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0

    def total(self, values: Sequence[float]) -> list[float]:
        """The sums over all processes, in float64."""
        if self.size == 1:
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return [float(v) for v in sums.tolist()]

    def call_on_first(self, call: Callable[[], T]) -> T:
        """Run `call` on rank 0 and return its value to every process; an error there is an error everywhere.

        Only rank 0 looks at the folder of a run, which other machines need not have.
        """
        if self.size == 1:
            return call()
        box: list[Any] = [None]
        if self.first:
            try:
                box = [(call(), None)]
            except (ValueError, OSError) as error:
                box = [(None, error)]
        dist.broadcast_object_list(box, 0)
        value, failure = box[0]
        if failure is not None:
            raise failure
        return value  # type: ignore[no-any-return]

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors with those of rank 0."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            dist.barrier()


@contextlib.contextmanager
def joined(device: str = "auto") -> Iterator[World]:
    """The world this process belongs to, left again at the end."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("`run.device` (='cuda') is not available: torch sees no GPU; use 'cpu' or 'auto'.")
    cuda = device != "cpu" and torch.cuda.is_available()
    here = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    if "WORLD_SIZE" not in os.environ or "RANK" not in os.environ:
        yield World(0, 1, here)
        return
    if cuda:  # pragma: no cover
        torch.cuda.set_device(here)
    # restarted processes must not find the addresses of the dead ones
    store, rank, size = next(rendezvous("env://"))
    store = PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group("nccl" if cuda else "gloo", store=store, rank=rank, world_size=size)
    try:
        yield World(rank, size, here)
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and "gloo/transport" not in str(error):
            raise
        raise LostError(
            f"a process of this run is gone, or does not answer: rank {rank} of {size} stops. Start all of them again "
            "with --resume; the last checkpoint is kept."
        ) from error
    finally:
        dist.destroy_process_group()
