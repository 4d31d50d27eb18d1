"""The benchmark: what layers and networks cost, as ratios measured in the same run.

Four parts: one layer at four sizes; a training step of whole networks; one layer on ever larger maps; rolling the input
of a network to its pivot.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof import progress
from shiftproof.conversion import convert
from shiftproof.data.batches import augment, normalise
from shiftproof.environment import machine
from shiftproof.evaluation.efficiency import Layer, flops, forward, forward_backward, peak_memory, time_in_turns
from shiftproof.ghs.backend.torch_backend import products
from shiftproof.layers import APS, BlurPool, GHS2d, GHSUp2d, RollToPivot, create_downsample, methods
from shiftproof.maps.shifts import circular_shift
from shiftproof.models import create_model
from shiftproof.training.process import keep_memory

SIZES = [(32, 3, 32, 32), (32, 64, 32, 32), (32, 128, 16, 16), (8, 64, 112, 112)]
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
NETWORKS = {"resnet20": (256, 32), "resnet18": (32, 32)}  # batch, pixels
METHODS = ("strided", "align", "lpf", "aps", "ghs-paper", "ghs")
CONVERTED = (8, 224)
MAPS = (8, 16, 32, 64, 128, 256)
FRONTS = (1, 8)  # batches
Row = dict[str, Any]
Target = tuple[str, float, float]  # what is compared, the ratio measured, the ratio allowed


def peers(channels: int) -> dict[str, Layer]:
    """BlurPool of other packages, where they are installed."""
    makers: dict[str, tuple[str, Callable[[Any], Layer]]] = {
        "kornia": ("kornia.filters", lambda m: m.BlurPool2D(3, 2)),
        "timm": ("timm.layers.blur_pool", lambda m: m.BlurPool2d(channels)),
        "antialiased-cnns": ("antialiased_cnns", lambda m: m.BlurPool(channels, filt_size=3, stride=2)),
    }
    found = {}
    for name, (module, make) in makers.items():
        with contextlib.suppress(ImportError, RuntimeError):  # not installed, or not compatible with this torch
            found[f"LPF-3 ({name})"] = make(importlib.import_module(module))
    return found


def layers(x: Tensor) -> dict[str, Layer]:
    """The layers to time on maps like `x`; the floor is the two bare products on an aligned map.

    The last two take `x` to twice its size, at a place of its own for each sample.
    """
    matrices = [axis.dense for axis in GHS2d().sampling.plan(x).axes]
    sizes = tuple(2 * n for n in x.shape[2:])
    generator = torch.Generator().manual_seed(0)
    places = torch.stack([torch.randint(n, (x.shape[0],), generator=generator) for n in sizes], 1)
    up = GHSUp2d(anchor="stay")
    return {
        "max": lambda t: F.max_pool2d(t, 2),
        "LPF-3": BlurPool(),
        "max + LPF-3": BlurPool(dense_max=2),
        "APS-3": APS(),
        "max + APS-3": APS(dense_max=2),
        "GHS": GHS2d(),
        "GHS, stay": GHS2d(anchor="stay"),
        "GHS of the paper": GHS2d.paper(),
        "floor": lambda t: products(t, matrices),
        **peers(x.shape[1]),
        "GHS, up": lambda t: up(t, places, sizes),
        "bilinear, rolled": lambda t: circular_shift(F.interpolate(t, sizes, mode="bilinear"), places),
    }


def measure_layers(repetitions: int) -> Iterator[Row]:
    """One row per size, layout and pass: seconds of every layer."""
    generator = torch.Generator().manual_seed(0)
    for size in SIZES:
        for layout, form in LAYOUTS.items():
            x = torch.randn(size, generator=generator).contiguous(memory_format=form)
            candidates = layers(x)
            for name, kind in (("forward", forward), ("forward+backward", forward_backward)):
                times = time_in_turns({k: kind(layer, x) for k, layer in candidates.items()}, repetitions)
                yield {"size": size, "layout": layout, "pass": name, "times": times}


def layer_targets(rows: list[Row]) -> list[Target]:
    """The ratios the layer should reach."""
    out = []
    for kind in ("forward", "forward+backward"):
        for size in SIZES:
            both = {r["layout"]: r["times"] for r in rows if r["size"] == size and r["pass"] == kind}
            where = f"{kind} at {'x'.join(map(str, size))}"
            best = {name: min(times[name].median for times in both.values()) for name in both["contiguous"]}
            plain = both["contiguous"]
            blurs = min(best[name] for name in best if name.startswith("LPF-3"))
            out.append((f"{where}: GHS / max pooling, contiguous", plain["GHS"].median / plain["max"].median, 1.0))
            better = [
                ("GHS / LPF-3, the fastest", best["GHS"] / blurs, 1.0),
                ("GHS / APS-3", best["GHS"] / best["APS-3"], 0.2),
                ("GHS, stay / GHS", best["GHS, stay"] / best["GHS"], 1.0),
                ("GHS, up / bilinear, rolled", best["GHS, up"] / best["bilinear, rolled"], 1.0),
                ("GHS / bare products", best["GHS"] / best["floor"], 1.5),
            ]
            if kind == "forward":
                better.insert(0, ("GHS / max pooling", best["GHS"] / best["max"], 1.5))
            out += [(f"{where}: {what}, each in its better layout", ratio, most) for what, ratio, most in better]
    return out


def measure_networks(repetitions: int) -> Iterator[Row]:
    """One row per network: seconds of a training step (channels-last), and FLOPs of its convolutions, by method.

    `batch_seconds` is the time to take a batch from memory, augment it in every way, and normalise it.
    """
    keep_memory()  # as `shiftproof train` does
    for name, (batch, pixels) in NETWORKS.items():
        yield _training_steps(name, {m: create_model(name, m) for m in METHODS}, batch, pixels, repetitions)
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
    yield _training_steps("timm resnet18", networks, *CONVERTED, repetitions)


def _training_steps(name: str, networks: dict[str, nn.Module], batch: int, pixels: int, repetitions: int) -> Row:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(batch, 3, pixels, pixels, generator=generator).contiguous(memory_format=torch.channels_last)
    answers = torch.randint(0, 10, (batch,), generator=generator)
    stored = torch.randint(0, 256, (4 * batch, 3, pixels, pixels), dtype=torch.uint8, generator=generator)

    def make_batch() -> Tensor:
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
    calls = {"batch": make_batch} | {k: step(n) for k, n in networks.items()}
    times = time_in_turns(calls, repetitions, warm_up=1, twice=False)
    making = times.pop("batch").median
    return {"network": name, "size": tuple(x.shape), "times": times, "flops": costs, "batch_seconds": making}


def network_targets(rows: list[Row]) -> list[Target]:
    """The ratios that networks with GHS, and the making of batches, should reach."""
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


def measure_scaling(repetitions: int) -> Iterator[Row]:
    """One row per map size: seconds of the forward pass and bytes held at once, by method."""
    generator = torch.Generator().manual_seed(0)
    for size in MAPS:
        x = torch.randn(4, 16, size, size, generator=generator)
        calls = {m: forward(create_downsample(m, 16).eval(), x) for m in methods()}
        times = time_in_turns(calls, repetitions, warm_up=1)
        yield {"size": tuple(x.shape), "times": times, "bytes": {m: peak_memory(call) for m, call in calls.items()}}


def measure_front(repetitions: int) -> Iterator[Row]:
    """One row per batch and layout: seconds of a ResNet-18's inference at 224 pixels, and of the front alone.

    The pictures are photographs with burnt-out skies: the brightest third of their pixels is white.
    """
    keep_memory()  # or both spend their time on page faults
    data: Any = importlib.import_module("skimage.data")
    photographs = [torch.from_numpy(getattr(data, name)()) for name in ("astronaut", "coffee", "chelsea", "rocket")]
    crops = torch.stack([p[:224, :224].movedim(-1, 0).float() / 255 for p in photographs])  # (4, 3, 224, 224)
    white = crops.flatten(2).quantile(2 / 3, dim=2).clamp_min(1 / 255)[..., None, None]
    pictures = ((crops / white).clamp(max=1) * 255).round() / 255
    candidates: dict[str, nn.Module] = {
        "ResNet-18": create_model("resnet18", "strided", stem="imagenet", padding="zeros").eval(),
        "front": RollToPivot(),
        "front, parts of a pixel": RollToPivot(subpixel=True),
    }
    for batch in FRONTS:
        for layout, form in LAYOUTS.items():
            x = pictures.repeat(-(-batch // len(pictures)), 1, 1, 1)[:batch].contiguous(memory_format=form)
            calls = {
                name: forward(network.to(memory_format=form), x)  # type: ignore[call-overload]
                for name, network in candidates.items()
            }
            yield {"size": tuple(x.shape), "layout": layout, "times": time_in_turns(calls, repetitions)}


def front_targets(rows: list[Row]) -> list[Target]:
    """What the front may cost, as a share of the network."""
    return [
        (
            f"front / ResNet-18, {row['size'][0]} pictures of 224 px, {row['layout']}",
            row["times"]["front"].median / row["times"]["ResNet-18"].median,
            0.02,
        )
        for row in rows
    ]


# how to measure a part, what it should reach, repetitions, quick repetitions, rows to expect
PARTS: dict[str, tuple[Callable[[int], Iterable[Row]], Callable[[list[Row]], list[Target]], int, int, int]] = {
    "layers": (measure_layers, layer_targets, 60, 5, 4 * len(SIZES)),
    "networks": (measure_networks, network_targets, 9, 2, len(NETWORKS) + 1),
    "scaling": (measure_scaling, lambda rows: [], 15, 2, len(MAPS)),
    "front": (measure_front, front_targets, 30, 2, 2 * len(FRONTS)),
}


def measure_part(name: str, quick: bool = False) -> dict[str, Any]:
    """Measure one of `PARTS`, with progress on the terminal; returns its record, ready for JSON."""
    measure, targets, repetitions, quick_repetitions, expected = PARTS[name]
    started, rows = time.time(), []
    with progress.reporting("timing") as report:
        report(name, 0, expected)
        for row in measure(quick_repetitions if quick else repetitions):
            rows.append(row)
            report(name, len(rows), expected)
    return {
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d", time.gmtime(started)),
        "seconds": round(time.time() - started, 1),
        "rows": [row | {"times": {k: vars(t) for k, t in row["times"].items()}} for row in rows],
        "targets": [{"target": t, "ratio": round(r, 3), "allowed": round(a, 3)} for t, r, a in targets(rows)],
    }
