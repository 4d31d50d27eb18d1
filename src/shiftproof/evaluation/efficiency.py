"""Cost of layers and networks, timed in turns in one run: this makes ratios meaningful on a noisy machine."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from shiftproof.evaluation.classifier import evaluating

Layer = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median, and the quartiles as the spread."""

    median: float
    low: float
    high: float
    repetitions: int


def time_in_turns(
    calls: Mapping[str, Callable[[], object]], repetitions: int, warm_up: int = 5, twice: bool = True
) -> dict[str, Timing]:
    """Time each call once per round, for `repetitions` rounds, after `warm_up` rounds that do not count.

    Other load on the machine affects all of them alike. Each is called `twice` and the second call counts, because
    the first one finds the caches filled by the previous candidate; for long calls this does not matter.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for round_ in range(-warm_up, repetitions):
        for name, call in calls.items():
            if twice:
                call()
            start = time.perf_counter()
            call()
            if round_ >= 0:
                seconds[name].append(time.perf_counter() - start)
    return {name: _timing(own) for name, own in seconds.items()}


def _timing(seconds: list[float]) -> Timing:
    low, _, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else seconds * 3
    return Timing(statistics.median(seconds), low, high, len(seconds))


def peak_memory(call: Callable[[], object]) -> int:
    """The most bytes of tensors that a call holds at once beyond those before it, its result included (CPU only)."""
    call()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with _silence(), torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        kept = call()
    del kept
    held = most = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard the standard error of compiled code: torch's profiler writes to it."""
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def flops(model: torch.nn.Module, x: Tensor) -> int:
    """FLOPs of the dense convolutions in one forward pass, per image."""
    counts = []

    def count(module: torch.nn.Module, inputs: tuple[Tensor, ...], out: Tensor) -> None:
        weight: Tensor = module.weight  # type: ignore[assignment]
        counts.append(2 * weight[0].numel() * out[0].numel())

    convolutions = [m for m in model.modules() if isinstance(m, torch.nn.modules.conv._ConvNd)]
    hooks = [m.register_forward_hook(count) for m in convolutions]
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    return sum(counts)


def forward(layer: Layer, x: Tensor) -> Callable[[], object]:
    """A function that runs the forward pass."""
    return torch.no_grad()(lambda: layer(x))


def forward_backward(layer: Layer, x: Tensor) -> Callable[[], object]:
    """A function that runs the forward pass and the gradient with respect to the input."""
    leaf = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    gradient = torch.ones_like(layer(leaf))
    return lambda: torch.autograd.grad(layer(leaf), leaf, gradient)


def measure_efficiency(
    model: torch.nn.Module, x: Tensor, baseline: torch.nn.Module | None = None, repetitions: int = 10
) -> dict[str, Any]:
    """What a network costs: parameters, and for a forward pass of `x` FLOPs, time and memory.

    `flops` are those of the dense convolutions, per image; `seconds` are per batch, with quartiles; `latency_ratio` is
    the ratio to the `baseline`, timed in turns with it; `peak_bytes` are those of tensors held at once beyond weights
    and input. Time and memory are measured on the CPU and None elsewhere; the ratio is None without a baseline.
    """
    seconds, ratio, memory = None, None, None
    calls = {"model": forward(model, x)} | ({} if baseline is None else {"baseline": forward(baseline, x)})
    with evaluating(model), evaluating(baseline):
        if x.device.type == "cpu":
            timings = time_in_turns(calls, repetitions, warm_up=1)
            seconds = asdict(timings["model"])
            ratio = None if baseline is None else timings["model"].median / timings["baseline"].median
            memory = peak_memory(calls["model"])
        return {
            "batch": list(x.shape),
            "parameters": sum(p.numel() for p in model.parameters()),
            "flops": flops(model, x[:1]),
            "seconds": seconds,
            "latency_ratio": ratio,
            "peak_bytes": memory,
        }
