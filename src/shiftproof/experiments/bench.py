"""`shiftproof bench`: what layers and networks cost, as ratios measured in the same run.

Three parts: one layer at four sizes; a training step of whole networks; one layer as the map grows.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof import checks, progress
from shiftproof.conversion import convert
from shiftproof.data.augment import augment
from shiftproof.data.batches import normalise
from shiftproof.environment import machine
from shiftproof.evaluation.efficiency import Layer, Timing, flops, forward, forward_backward, in_turns, peak_memory
from shiftproof.ghs.backend.torch_backend import products
from shiftproof.layers import APS, BlurPool, GHS2d, create_downsample, methods
from shiftproof.models import create_model
from shiftproof.training.process import keep_memory

PARTS = ("layers", "networks", "scaling")
SIZES = [(32, 3, 32, 32), (32, 64, 32, 32), (32, 128, 16, 16), (8, 64, 112, 112)]
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
NETWORKS = {"resnet20": (256, 32), "resnet18": (32, 32)}  # batch, pixels
METHODS = ("strided", "align", "lpf", "aps", "ghs-paper", "ghs")
CONVERTED = (8, 224)
MAPS = (8, 16, 32, 64, 128, 256)


def peers(channels: int) -> dict[str, Layer]:
    """BlurPool as other packages have it, where they are installed."""
    makers: dict[str, tuple[str, Callable[[Any], Layer]]] = {
        "kornia": ("kornia.filters", lambda m: m.BlurPool2D(3, 2)),
        "timm": ("timm.layers.blur_pool", lambda m: m.BlurPool2d(channels)),
        "antialiased-cnns": ("antialiased_cnns", lambda m: m.BlurPool(channels, filt_size=3, stride=2)),
    }
    found = {}
    for name, (module, make) in makers.items():
        try:
            found[f"LPF-3 ({name})"] = make(importlib.import_module(module))
        except (ImportError, RuntimeError):
            continue  # not installed, or not beside this torch
    return found


def layers(x: Tensor) -> dict[str, Layer]:
    """The layers to time on maps like `x`; the floor is the two bare products on an aligned map."""
    matrices = [axis.dense for axis in GHS2d().sampling.plan(x).axes]
    return {
        "max": lambda t: F.max_pool2d(t, 2),
        "LPF-3": BlurPool(),
        "max + LPF-3": BlurPool(dense_max=2),
        "APS-3": APS(),
        "max + APS-3": APS(dense_max=2),
        "GHS": GHS2d(),
        "floor": lambda t: products(t, matrices),
        **peers(x.shape[1]),
    }


def measure_layers(repetitions: int) -> Iterator[dict[str, Any]]:
    """One row per size, layout and pass: seconds of every layer."""
    generator = torch.Generator().manual_seed(0)
    for size in SIZES:
        for layout, form in LAYOUTS.items():
            x = torch.randn(size, generator=generator).contiguous(memory_format=form)
            mine = layers(x)
            for name, kind in (("forward", forward), ("forward+backward", forward_backward)):
                timings = in_turns([kind(layer, x) for layer in mine.values()], repetitions)
                yield {"size": size, "layout": layout, "pass": name, "times": dict(zip(mine, timings))}


def layer_targets(rows: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    """What the layer is meant to reach: (sentence, ratio measured, ratio allowed)."""
    out = []
    for kind in ("forward", "forward+backward"):
        for size in SIZES:
            both = {r["layout"]: r["times"] for r in rows if r["size"] == size and r["pass"] == kind}
            where = f"{kind} at {'x'.join(map(str, size))}"
            best = {name: min(times[name].median for times in both.values()) for name in both["contiguous"]}
            plain = both["contiguous"]
            out.append((f"{where}: GHS / max pooling, contiguous", plain["GHS"].median / plain["max"].median, 1.0))
            if size != SIZES[0]:
                out.append((f"{where}: GHS / LPF-3, each in its better layout", best["GHS"] / best["LPF-3"], 1.0))
                out.append((f"{where}: GHS / APS-3, each in its better layout", best["GHS"] / best["APS-3"], 1 / 3))
            out.append((f"{where}: GHS / bare products, each in its better layout", best["GHS"] / best["floor"], 1.5))
    return out


def measure_networks(repetitions: int) -> Iterator[dict[str, Any]]:
    """One row per network: seconds of a training step (channels-last), and FLOPs of its convolutions, by method.

    `batch_seconds` is the time to take a batch from memory, augment it in every way, and normalise it.
    """
    keep_memory()  # as `shiftproof train` does
    for name, (batch, pixels) in NETWORKS.items():
        yield _steps(name, {m: create_model(name, m) for m in METHODS}, batch, pixels, 10, repetitions)
    try:
        timm = importlib.import_module("timm")
    except (ImportError, RuntimeError):
        return
    source = timm.create_model("resnet18", num_classes=10)
    networks = {
        "strided": source,
        "lpf": timm.create_model("resnetblur18", num_classes=10),
        "ghs": convert(source, "ghs"),
    }
    yield _steps("timm resnet18", networks, *CONVERTED, 10, repetitions)


def _steps(
    name: str, networks: dict[str, nn.Module], batch: int, pixels: int, classes: int, repetitions: int
) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(batch, 3, pixels, pixels, generator=generator).contiguous(memory_format=torch.channels_last)
    answers = torch.randint(0, classes, (batch,), generator=generator)
    stored = torch.randint(0, 256, (4 * batch, 3, pixels, pixels), dtype=torch.uint8, generator=generator)

    def batch_of() -> Tensor:
        images = stored[torch.randperm(len(stored), generator=generator)[:batch]]
        moved = augment(images, generator, flip=True, shift=-1, crop=4)
        return normalise(moved, (0.5,) * 3, (0.25,) * 3, torch.channels_last)

    def step(network: nn.Module) -> Callable[[], object]:
        network.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]

        def call() -> None:
            network.zero_grad()
            F.cross_entropy(network(x), answers).backward()  # type: ignore[no-untyped-call]

        return call

    costs = {k: flops(n, x[:2]) for k, n in networks.items()}
    calls = [batch_of, *(step(n) for n in networks.values())]
    making, *timings = in_turns(calls, repetitions, warm_up=1, twice=False)
    return {
        "network": name,
        "size": (batch, 3, pixels, pixels),
        "times": dict(zip(networks, timings)),
        "flops": costs,
        "batch_seconds": making.median,
    }


def network_targets(rows: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    """What networks with GHS, and batches, are meant to reach."""
    out = []
    for row in rows:
        seconds = {k: t.median for k, t in row["times"].items()}
        per_flop = {k: s / row["flops"][k] for k, s in seconds.items()}
        name = row["network"]
        if name in NETWORKS:
            out.append((f"{name}: GHS / LPF-3", seconds["ghs"] / seconds["lpf"], 1.0))
            ratio = per_flop["ghs"] / per_flop["strided"]
            out.append((f"{name}: GHS / strided per FLOP of convolution", ratio, 1.1))
            out.append((f"{name}: making a batch / strided step", row["batch_seconds"] / seconds["strided"], 0.05))
        else:
            ratio = per_flop["ghs"] / per_flop["lpf"]
            out.append((f"{name}: converted to GHS / resnetblur18 per FLOP of convolution", ratio, 1.0))
    return out


def measure_scaling(repetitions: int) -> Iterator[dict[str, Any]]:
    """One row per map size: seconds of the forward pass and bytes held at once, by method."""
    generator = torch.Generator().manual_seed(0)
    for size in MAPS:
        x = torch.randn(4, 16, size, size, generator=generator)
        mine = {m: create_downsample(m, 16).eval() for m in methods()}
        calls = [forward(layer, x) for layer in mine.values()]
        timings = in_turns(calls, repetitions, warm_up=1)
        memory = {m: peak_memory(call) for m, call in zip(mine, calls)}
        yield {"size": tuple(x.shape), "times": dict(zip(mine, timings)), "bytes": memory}


Measure = Callable[[int], Iterable[dict[str, Any]]]
Targets = Callable[[list[dict[str, Any]]], list[tuple[str, float, float]]]


def run(out: Path, as_json: bool, quick: bool, parts: list[str]) -> int:
    """`shiftproof bench`: print the tables, write one record per part and the scaling plot."""
    for part in parts:
        checks.choice("PART", part, PARTS)
    if not as_json:
        import rich.console  # noqa: F401  (missing? say so before the long run, not after)
    if "scaling" in parts:
        import matplotlib  # noqa: F401
    plan: dict[str, tuple[Measure, Targets, int]] = {
        "layers": (measure_layers, layer_targets, 5 if quick else 60),
        "networks": (measure_networks, network_targets, 2 if quick else 9),
        "scaling": (measure_scaling, lambda rows: [], 2 if quick else 15),
    }
    counts = {"layers": 4 * len(SIZES), "networks": len(NETWORKS) + 1, "scaling": len(MAPS)}
    out.mkdir(parents=True, exist_ok=True)
    records = {}
    for part in parts:
        started = time.time()
        measure, targets, repetitions = plan[part]
        rows = []
        with progress.reporting("timing") as report:
            report(part, 0, counts[part])
            for row in measure(repetitions):
                rows.append(row)
                report(part, len(rows), counts[part])
        reached = targets(rows)
        record: dict[str, Any] = {
            "machine": machine(),
            "date": time.strftime("%Y-%m-%d", time.gmtime(started)),
            "seconds": round(time.time() - started, 1),
            "rows": [r | {"times": {k: vars(t) for k, t in r["times"].items()}} for r in rows],
            "targets": [{"target": s, "ratio": round(r, 3), "allowed": round(a, 3)} for s, r, a in reached],
        }
        records[part] = record
        (out / f"{part}.json").write_text(json.dumps(record, indent=2) + "\n")
        if part == "scaling":
            from shiftproof.reports import figures

            figures.scaling(out / "scaling.png", record["rows"])
        if not as_json:
            _print(part, rows, reached, out)
    if as_json:
        print(json.dumps(records, indent=2))
    return 0


TITLES = {
    "layers": "Time of one downsampling layer at stride 2: milliseconds (ratio to max pooling)",
    "networks": "Time of a training step: milliseconds (ratio to strided; the same per FLOP of convolution)",
    "scaling": "Time of one forward pass at stride 2: milliseconds (MiB held at once)",
}


def _print(part: str, rows: list[dict[str, Any]], reached: list[tuple[str, float, float]], out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=max(150, Console().width))
    table = Table(title=TITLES[part], caption_justify="left")
    table.caption = "Median over rounds in which every candidate had its turn."
    if part == "layers":
        table.caption += " floor: the bare products on an aligned map."
    heads = [k for k in ("network", "size", "layout", "pass") if k in rows[0]]
    names = list(dict.fromkeys(name for row in rows for name in row["times"]))
    for column in heads:
        table.add_column(column, no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        cells = [_cell(part, row, name) if name in row["times"] else "" for name in names]
        table.add_row(*("x".join(map(str, row[h])) if h == "size" else row[h] for h in heads), *cells)
    console.print(table)
    if reached:
        goals = Table(title="Targets")
        goals.add_column("target")
        goals.add_column("measured", justify="right")
        goals.add_column("allowed", justify="right")
        for sentence, ratio, allowed in reached:
            goals.add_row(sentence, f"{ratio:.2f}", f"{allowed:.2f}", style="green" if ratio <= allowed else "red")
        console.print(goals)
    files = [out / f"{part}.json", *([out / "scaling.png"] if part == "scaling" else [])]
    console.print(f"wrote {', '.join(map(str, files))}", highlight=False, soft_wrap=True)


def _cell(part: str, row: dict[str, Any], name: str) -> str:
    timing: Timing = row["times"][name]
    milliseconds = f"{timing.median * 1e3:.2f}"
    if part == "scaling":
        return f"{milliseconds}\n({row['bytes'][name] / 2**20:.2f})"
    base: Timing = row["times"]["max" if part == "layers" else "strided"]
    ratio = timing.median / base.median
    if part == "layers":
        return f"{milliseconds}\n({ratio:.2f})"
    return f"{milliseconds}\n({ratio:.2f}; {ratio * row['flops']['strided'] / row['flops'][name]:.2f})"
