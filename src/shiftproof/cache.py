"""What depends on sizes only is made once: a thread-safe least-recently-used cache, bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from shiftproof.tensors import is_eager, wide


class Sized(Protocol):
    """Anything that knows how many bytes it takes."""

    @property
    def nbytes(self) -> int:
        """Bytes."""


V = TypeVar("V", bound=Sized)


class Cache(Generic[V]):
    """Keeps the most recently used values: together up to `capacity` bytes, and the latest one that alone is larger."""

    def __init__(self, capacity: int = 64 * 2**20) -> None:
        self.capacity = capacity
        self._items: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value under `key`, made on the first call; every caller gets one and the same."""
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
                return self._items[key]
        with torch.inference_mode(False):  # what is kept must serve training too
            made = make()
        with self._lock:
            kept = self._items.setdefault(key, made)
            self._drop_least_recent()
            return kept

    def _drop_least_recent(self) -> None:
        """A value may have grown since it was made, so sizes are asked for anew."""
        room, large = self.capacity, False
        for key, value in reversed(list(self._items.items())):  # the latest first
            if value.nbytes > self.capacity:
                keep, large = not large, True
            else:
                room -= value.nbytes
                keep = room >= 0
            if not keep:
                del self._items[key]

    @property
    def bytes(self) -> int:
        """What all values take together."""
        return sum(value.nbytes for value in self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()


class TensorCache(Cache[Tensor]):
    """Fixed tensors, one for each dtype and device they are used with."""

    def get_like(self, key: Hashable, like: Tensor, make: Callable[[], Tensor]) -> Tensor:
        """The tensor under `key` on the device of `like` and in its dtype, at least float32.

        Under a tracer or a transform it is made anew: what is made there must not outlive it.
        """
        dtype, device = wide(like.dtype), like.device
        if not is_eager(like):
            return make().to(device=device, dtype=dtype)
        return self.get((key, dtype, device), lambda: make().to(device=device, dtype=dtype))
