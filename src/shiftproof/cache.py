"""A thread-safe least-recently-used cache of tensors, bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from torch import Tensor


class TensorCache:
    """Keeps the most recently used tensors up to `capacity` bytes; a larger single tensor is not kept at all."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.bytes = 0
        self._items: OrderedDict[Hashable, Tensor] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """The tensor under `key`, made on the first call. Every caller of one key gets one and the same tensor."""
        with self._lock:
            found = self._items.get(key)
            if found is not None:
                self._items.move_to_end(key)
                return found
        made = make()
        with self._lock:
            kept = self._items.setdefault(key, made)
            if kept is made:
                self.bytes += made.nbytes
            while self.bytes > self.capacity:
                _, dropped = self._items.popitem(last=False)
                self.bytes -= dropped.nbytes
            return kept

    def __len__(self) -> int:
        return len(self._items)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()
            self.bytes = 0
