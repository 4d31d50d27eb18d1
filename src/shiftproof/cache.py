"""Fixed matrices, built once: a thread-safe least-recently-used cache of tensors, bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from shiftproof.tensors import is_eager, wide


class TensorCache:
    """Keeps the most recently used tensors up to `capacity` bytes; a larger single tensor is not kept at all."""

    def __init__(self, capacity: int = 64 * 2**20) -> None:
        self.capacity = capacity
        self.bytes = 0
        self._items: OrderedDict[Hashable, Tensor] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, like: Tensor, make: Callable[[], Tensor]) -> Tensor:
        """The tensor under `key`, on the device of `like` and in its dtype (at least float32); made on the first call.

        Every caller of one key gets one and the same tensor, unless a tracer or a transform looks on: what is made
        then belongs to it and must not outlive it.
        """
        dtype, device = wide(like.dtype), like.device
        if not is_eager(like):
            return make().to(device=device, dtype=dtype)
        key = (key, dtype, device)
        with self._lock:
            found = self._items.get(key)
            if found is not None:
                self._items.move_to_end(key)
                return found
        with torch.inference_mode(False):  # what is kept must be good for training too
            made = make().to(device=device, dtype=dtype)
        with self._lock:
            kept = self._items.setdefault(key, made)
            if kept is made:
                self.bytes += made.untyped_storage().nbytes()
            while self.bytes > self.capacity:
                _, dropped = self._items.popitem(last=False)
                self.bytes -= dropped.untyped_storage().nbytes()
            return kept

    def __len__(self) -> int:
        return len(self._items)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()
            self.bytes = 0
