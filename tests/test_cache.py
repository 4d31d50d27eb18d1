"""The cache: bounded in bytes, the oldest goes first."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from shiftproof.cache import TensorCache


def test_cache_forgets_the_oldest_first() -> None:
    cache = TensorCache(capacity=3 * 40)
    for key in (1, 2, 3, 1, 4):  # 1 was used again, so 2 is the oldest when 4 needs room
        cache.get(key, lambda: torch.zeros(10))
    assert list(cache._items) == [3, 1, 4]


@given(capacity=st.integers(0, 2000))
def test_cache_is_bounded(capacity: int) -> None:
    cache = TensorCache(capacity)
    for size in (10, 100, 5, 100, 300, 10):
        made = cache.get(size, lambda size=size: torch.zeros(size))  # type: ignore[misc]
        assert made.numel() == size
        assert cache.bytes <= capacity
        assert cache.bytes == sum(t.nbytes for t, _ in cache._items.values())
    cache.clear()
    assert len(cache) == cache.bytes == 0


def test_one_tensor_for_each_dtype() -> None:
    cache = TensorCache()
    single, double = (
        cache.get_like("one", torch.zeros(1, dtype=d), lambda: torch.ones(3)) for d in (torch.half, torch.double)
    )
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
    assert cache.get_like("one", torch.zeros(1), lambda: torch.ones(3)) is single
