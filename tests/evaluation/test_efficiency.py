"""Times, memory and FLOPs are what they say."""

import functools

import pytest
import torch
from torch import nn

from shiftproof.evaluation import efficiency
from shiftproof.evaluation.efficiency import measure_efficiency


def test_peak_memory_counts_what_is_held_at_once() -> None:
    x = torch.zeros(2**18)  # 1 MiB
    assert efficiency.peak_memory(lambda: x + 1) == pytest.approx(2**20, rel=1e-3)
    assert efficiency.peak_memory(lambda: ((x + 1) + 1) + 1) == pytest.approx(2 * 2**20, rel=1e-3)


def test_flops_of_convolutions() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=2, padding=1, groups=1), torch.nn.ReLU())
    assert efficiency.flops(net, torch.rand(5, 3, 8, 8)) == 2 * 27 * 8 * 16


def test_timing_takes_turns() -> None:
    """Every call is made in every round, warm-up included, and only rounds that count are kept."""
    order: list[str] = []
    calls = {name: functools.partial(order.append, name) for name in "ab"}
    timings = efficiency.time_in_turns(calls, repetitions=3, warm_up=2)
    assert order == ["a", "a", "b", "b"] * 5
    assert {name: t.repetitions for name, t in timings.items()} == {"a": 3, "b": 3}


def test_known_costs() -> None:
    """A 3 x 3 convolution: its weights, two FLOPs per weight and pixel; the output is held at once."""
    model = nn.Conv2d(2, 4, 3, padding=1, bias=False)
    found = measure_efficiency(model, torch.rand(5, 2, 6, 6), nn.Conv2d(2, 4, 3), repetitions=2)
    assert found["batch"] == [5, 2, 6, 6]
    assert found["parameters"] == 72
    assert found["flops"] == 2 * 72 * 36
    assert found["peak_bytes"] >= 4 * 5 * 4 * 36
    assert found["latency_ratio"] > 0
    assert found["seconds"]["repetitions"] == 2
    assert model.training
    assert measure_efficiency(model, torch.rand(1, 2, 6, 6), repetitions=1)["latency_ratio"] is None
