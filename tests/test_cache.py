"""The cache: bounded in bytes, the oldest goes first."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from shiftproof.cache import Cache, TensorCache


def test_cache_forgets_the_oldest_first() -> None:
    cache = TensorCache(capacity=3 * 40)
    for key in (1, 2, 3, 1, 4):  # 1 was used again, so 2 is the oldest when 4 needs room
        cache.get(key, lambda: torch.zeros(10))
    assert list(cache._items) == [3, 1, 4]


@given(capacity=st.integers(0, 2000))
def test_cache_is_bounded(capacity: int) -> None:
    """What is larger than the whole cache is kept besides, but only the latest of such values."""
    cache = TensorCache(capacity)
    for size in (10, 100, 5, 100, 300, 10):
        made = cache.get(size, lambda size=size: torch.zeros(size))  # type: ignore[misc]
        assert made.numel() == size
        kept = [t.nbytes for t in cache._items.values()]
        assert cache.bytes == sum(kept)
        assert sum(n for n in kept if n <= capacity) <= capacity
        assert sum(n > capacity for n in kept) <= 1
    cache.clear()
    assert len(cache) == cache.bytes == 0


def test_a_large_value_is_made_once_and_leaves_the_others_alone() -> None:
    cache = TensorCache(capacity=100)
    made = []
    for key, size in [(1, 10), (2, 10), ("large", 1000), (1, 10), ("large", 1000), (2, 10)]:
        cache.get(key, lambda size=size: made.append(size) or torch.zeros(size))  # type: ignore[misc, func-returns-value]
    assert made == [10, 10, 1000]
    cache.get("larger", lambda: torch.zeros(2000))
    assert list(cache._items) == [1, 2, "larger"]


def test_a_value_that_grew_counts_as_large_as_it_is() -> None:
    """The plan of a call is kept before the C backend derives its bands from it."""

    class Growing:
        nbytes = 40

    cache: Cache[Growing] = Cache(100)
    first = cache.get(1, Growing)
    cache.get(2, Growing)
    first.nbytes = 80
    cache.get(2, Growing)
    cache.get(3, Growing)
    assert list(cache._items) == [2, 3]


def test_one_tensor_for_each_dtype() -> None:
    cache = TensorCache()
    single, double = (
        cache.get_like("one", torch.zeros(1, dtype=d), lambda: torch.ones(3)) for d in (torch.half, torch.double)
    )
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
    assert cache.get_like("one", torch.zeros(1), lambda: torch.ones(3)) is single
