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
    """Keeps the most recently used values up to `capacity` bytes; a larger single value is not kept at all."""

    def __init__(self, capacity: int = 64 * 2**20) -> None:
        self.capacity = capacity
        self.bytes = 0
        self._items: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value under `key`, made on the first call; every caller gets one and the same."""
        with self._lock:
            found = self._items.get(key)
            if found is not None:
                self._items.move_to_end(key)
                return found[0]
        with torch.inference_mode(False):  # what is kept must serve training too
            made = make()
        with self._lock:
            kept, size = self._items.setdefault(key, (made, made.nbytes))
            if kept is made:
                self.bytes += size
            while self.bytes > self.capacity:
                _, (_, dropped) = self._items.popitem(last=False)
                self.bytes -= dropped
            return kept

    def __len__(self) -> int:
        return len(self._items)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()
            self.bytes = 0


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
