"""`shiftproof bench`: what each method costs, as ratios to max pooling measured in the same run."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.evaluation.efficiency import Layer, Timing, forward, forward_backward, in_turns
from shiftproof.kernels import matrices_for
from shiftproof.layers import APS, BlurPool, GHS2d
from shiftproof.resample import products

SIZES = [(32, 3, 32, 32), (32, 64, 32, 32), (32, 128, 16, 16), (8, 64, 112, 112)]
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def layers(x: Tensor) -> dict[str, Layer]:
    """The layers to time on maps like `x`; the floor is the two bare products on an aligned map."""
    matrices = matrices_for(x, [(n + 1) // 2 for n in x.shape[2:]])
    return {
        "max": lambda t: F.max_pool2d(t, 2),
        "LPF-3": BlurPool(),
        "max + LPF-3": BlurPool(dense_max=2),
        "APS-3": APS(),
        "max + APS-3": APS(dense_max=2),
        "GHS": GHS2d(),
        "floor": lambda t: products(t, matrices),
    }


def measure(repetitions: int) -> list[dict[str, Any]]:
    """One row per size, layout and pass: seconds of every layer."""
    rows = []
    generator = torch.Generator().manual_seed(0)
    for size in SIZES:
        for layout, form in LAYOUTS.items():
            x = torch.randn(size, generator=generator).contiguous(memory_format=form)
            mine = layers(x)
            for name, kind in (("forward", forward), ("forward+backward", forward_backward)):
                timings = in_turns([kind(layer, x) for layer in mine.values()], repetitions)
                rows.append({"size": size, "layout": layout, "pass": name, "times": dict(zip(mine, timings))})
    return rows


def targets(rows: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
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


def run(out: Path, as_json: bool, quick: bool) -> int:
    """`shiftproof bench`: print the tables, write the record."""
    if not as_json:
        import rich  # noqa: F401  (missing? say so before the long run, not after)
    started = time.time()
    rows = measure(repetitions=5 if quick else 60)
    reached = targets(rows)
    record = {
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "date": time.strftime("%Y-%m-%d", time.gmtime(started)),
        "seconds": round(time.time() - started, 1),
        "rows": [r | {"times": {k: vars(t) for k, t in r["times"].items()}} for r in rows],
        "targets": [{"target": s, "ratio": round(r, 3), "allowed": round(a, 3)} for s, r, a in reached],
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "layers.json").write_text(json.dumps(record, indent=2) + "\n")
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        _print(rows, reached, out / "layers.json")
    return 0


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def _print(rows: list[dict[str, Any]], reached: list[tuple[str, float, float]], written: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=max(120, Console().width))
    table = Table(
        title="Time of one downsampling layer at stride 2: milliseconds (ratio to max pooling)",
        caption="Median over rounds in which every layer had its turn. floor: the bare products on an aligned map.",
        caption_justify="left",
    )
    for column in ("size", "layout", "pass"):
        table.add_column(column, no_wrap=True)
    for name in rows[0]["times"]:
        table.add_column(name, justify="right")
    for row in rows:
        base: Timing = row["times"]["max"]
        cells = [f"{t.median * 1e3:.2f}\n({t.median / base.median:.2f})" for t in row["times"].values()]
        table.add_row("x".join(map(str, row["size"])), row["layout"], row["pass"], *cells)
    console.print(table)
    goals = Table(title="Targets")
    goals.add_column("target")
    goals.add_column("measured", justify="right")
    goals.add_column("allowed", justify="right")
    for sentence, ratio, allowed in reached:
        goals.add_row(sentence, f"{ratio:.2f}", f"{allowed:.2f}", style="green" if ratio <= allowed else "red")
    console.print(goals)
    console.print(f"wrote {written}", highlight=False, soft_wrap=True)
