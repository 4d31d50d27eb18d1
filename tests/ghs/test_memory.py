"""Memory stays flat however many sizes come by, and threads do not disturb one another."""

import os
import platform
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from helpers import tally
from shiftproof.ghs.backend import native
from shiftproof.ghs.sampler import _plans
from shiftproof.layers import GHS2d, create_downsample
from shiftproof.models import create_model

SECTION = "Memory and threads"
pytestmark = pytest.mark.counted
PASSES, SIZES, THREADS = 10_000, 500, 16
GROWTH = 16  # MiB, of which an allocator may keep some

# the first passes fill the cache and the allocator's lists; the room of the cache is made small, so that it overflows
FLAT = """
import sys, torch
from shiftproof.ghs import sampler
from shiftproof.ghs.backend import native
from shiftproof.layers import GHS2d
torch.set_num_threads(1)
capacity, passes, sizes = (int(word) for word in sys.argv[1:])
sampler._plans.capacity = capacity
layer, every = GHS2d(2), [(1 + i // 5, 1 + i % 5) for i in range(sizes)]

def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) / 2**10

def run(count):
    for i in range(count):
        x = torch.full((1, 2, *every[i * sizes // count]), float(i), requires_grad=i % 10 == 0)
        y = layer(x)
        if x.requires_grad:
            y.sum().backward()
        latest = next(reversed(sampler._plans._items.values()))  # whose bands were made after it was kept
        assert sampler._plans.bytes - latest.nbytes <= capacity

run(2 * sizes)
before = resident()
run(passes)
print(native.library is not None, resident() - before, len(sampler._plans))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux")
@pytest.mark.parametrize("compiled", ["1", pytest.param("0", marks=pytest.mark.slow)])
def test_memory_is_flat(compiled: str) -> None:
    """10,000 passes forward (a tenth of them backward too) with 500 sizes; the cache has room for a few of them."""
    words = [sys.executable, "-c", FLAT, str(2**18), str(PASSES), str(SIZES)]
    environment = os.environ | {"SHIFTPROOF_NATIVE": compiled}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    kernels, growth, kept = done.stdout.split()
    assert (kernels == "True") == (compiled == "1" and native.library is not None)
    assert float(growth) < GROWTH
    assert 5 < int(kept) < SIZES // 5  # there are 500 plans
    tally.count(
        SECTION, f"passes with {SIZES} sizes, {'compiled kernels' if kernels == 'True' else 'torch only'}", PASSES
    )
    tally.measured(SECTION, f"growth of memory over {PASSES:,} passes, in MiB", max(0.0, float(growth)), GROWTH)


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plans of every size that ever came by do not fit; those that stay are counted with their bands."""
    _plans.clear()  # what other tests left there was welcome then
    monkeypatch.setattr(_plans, "capacity", 2**18)
    layer = GHS2d(2)
    for n in range(10, 90):
        layer(torch.zeros(1, 1, n, n + 1))
        latest = next(reversed(_plans._items.values()))  # whose bands were made after it was kept
        assert _plans.bytes - latest.nbytes <= _plans.capacity
    assert 1 < len(_plans) < 40
    assert _plans.bytes == sum(plan.nbytes for plan in _plans._items.values())
    if native.library is not None:
        assert latest.nbytes > sum(axis.dense.nbytes for axis in latest.axes)


def together(calls: Sequence[tuple[torch.nn.Module, Tensor]]) -> list[Tensor]:
    """Every call in a thread of its own, all at once; five times each, in a row."""
    results: list[list[Tensor]] = [[] for _ in calls]
    barrier = threading.Barrier(len(calls))

    def work(i: int) -> None:
        layer, x = calls[i]
        barrier.wait(timeout=60)
        for _ in range(5):
            with torch.no_grad():
                results[i].append(layer(x))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [torch.stack(result) for result in results]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is one of glibc")
def test_training_keeps_memory() -> None:
    """Tensors that are freed and made again cost no new pages after a while; without the setting they always do."""
    script = """
import resource, sys, torch
from shiftproof.training.process import keep_memory
if sys.argv[1] == "keep":
    keep_memory()
for i in range(30):
    if i == 20:  # the heap has grown to its size
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    kept, plain = (
        int(subprocess.run([sys.executable, "-c", script, how], check=True, capture_output=True, text=True).stdout)
        for how in ("keep", "plain")
    )
    assert 10 * kept < plain


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("method", ["ghs", "ghs-paper", "aps", "lpf", "align"])
def test_threads_give_the_same_bits(method: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 threads, one layer, sizes that nobody has seen yet: the bits of one thread alone."""
    if compiled and native.library is None:
        pytest.skip("the kernels were not built")
    if not compiled:
        monkeypatch.setattr(native, "library", None)
    layer = create_downsample(method, 4).eval()
    for _ in range(10):
        _plans.clear()
        calls = [(layer, torch.randn(2, 4, 20 + 2 * (i % 4), 24)) for i in range(THREADS)]
        found = together(calls)
        for (_, x), y in zip(calls, found):
            assert torch.equal(y, torch.stack([layer(x)] * 5))
        tally.count(SECTION, "calls from 16 threads at once, bit for bit", 5 * THREADS)


def test_threads_share_a_network() -> None:
    model = create_model("resnet20", "ghs").eval()
    calls = [(model, torch.rand(1, 3, 16, 16)) for _ in range(THREADS)]
    with torch.no_grad():
        expected = [model(x) for _, x in calls]
    for y, alone in zip(together(calls), expected):
        assert torch.equal(y, torch.stack([alone] * 5))
    tally.count(SECTION, "calls from 16 threads at once, bit for bit", 5 * THREADS)
