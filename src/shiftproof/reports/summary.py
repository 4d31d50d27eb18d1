"""A record on the terminal: accuracy, the effect of shifts, cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from shiftproof.experiments.records import Record, lookup
from shiftproof.reports.words import shift_text

if TYPE_CHECKING:
    from rich.table import Table

Metrics = Mapping[str, Any]
EQUAL = "equal bits"
# changes of the images that have other names here than in records
_WORDS = {
    "circular": "circular shift",
    "benchmark": "benchmark's test part",
    "cropped": "cropped shift, {}",
    "fractional": "{} pixel",
    "erasure": "{1} x {1} erased {0}",
}


def answers(metrics: Metrics) -> list[list[str]]:
    """A row for each way the images were changed: accuracy, answers kept, consistency; each with its interval."""
    rows = []
    for part in ("accuracy", "robustness"):
        for (name, *inner), found in _changes(lookup(metrics, part) or {}):
            words = _WORDS.get(name, name + " {}" * len(inner)).format(*inner).replace("_", " ")
            estimates = {"accuracy": found} if "value" in found else found
            rows.append([words, *(_interval(estimates.get(what)) for what in ("accuracy", "agreement", "consistency"))])
    for name, grid in (lookup(metrics, "adversarial") or {}).items():
        numbers = (_interval(grid[what]) for what in ("accuracy", "reference", "pairs"))
        rows.append([f"worst of {grid['shifts']}, {name}", *numbers])
    motion = lookup(metrics, "motion")
    if motion is not None:
        size = " x ".join(map(str, motion["size"]))
        rows.append([f"crops of {size}", _interval(motion["accuracy"]), "", _interval(motion["crops"])])
        kept = {
            "value": 1 - motion["flips"]["value"],
            "low": 1 - motion["flips"]["high"],
            "high": 1 - motion["flips"]["low"],
        }
        rows.append(["camera moved by one pixel", "", _interval(kept), ""])
    protocol = lookup(metrics, "consistency", "aps_protocol")
    if protocol is not None:
        plain = next((row for row in rows if row[0] == "clean"), None)
        if plain is None:
            rows.insert(0, plain := ["clean", "", "", ""])
        plain[3] = _interval(protocol)
    return rows


def _changes(found: Metrics, *path: str) -> Iterator[tuple[tuple[str, ...], Metrics]]:
    """The estimates of every change of the images, each with the names that lead to it."""
    if "value" in found or "accuracy" in found:
        yield path, found
        return
    for name, part in found.items():
        if (*path[:1], name) != ("erasure", "0"):  # nothing erased
            yield from _changes(part, *path, name)


def shifts(metrics: Metrics) -> list[list[str]]:
    """A row for each kind of shift: how often answers agree, how far a score moves at most, and where."""
    found = lookup(metrics, "consistency") or {}
    kinds = {"circular": found.get("all_pairs")}
    kinds |= {f"cropped, {name}": part for name, part in found.get("cropped", {}).items()}
    kinds |= {f"{name} pixel": part for name, part in found.get("fractional", {}).items()}
    rows = []
    for name, part in kinds.items():
        if part is None:
            continue
        least = part.get("least_agreement")
        rows.append(
            [
                name,
                f"{part['shifts']:,}",
                _percent(part["pairs"]["value"]),
                _percent(part["reference"]["value"]),
                "" if least is None else _percent(least["value"]),
                _short(part["largest_change"]),
                EQUAL if part["exact"] else shift_text(part["worst_shift"]),
            ]
        )
    return rows


def remarks(metrics: Metrics) -> Iterator[str]:
    """Agreement, aliasing and cost, a sentence each."""
    agreement = lookup(metrics, "consistency", "agreement")
    if agreement is not None:
        kinds = {"two circular shifts": agreement["circular"]}
        kinds |= {f"two moves of the camera ({name})": found for name, found in agreement["cropped"].items()}
        kinds |= {f"with and without {name} pixel": found for name, found in agreement["fractional"].items()}
        words = ", ".join(f"{name} {_interval(found)} %" for name, found in kinds.items())
        yield f"Same answer on {agreement['images']:,} images: {words}."
    wave = lookup(metrics, "aliasing")
    if wave is not None:
        yield (
            f"Aliasing, {wave['size']} to {wave['output']} pixels: of waves too fine for the output, "
            f"{_short(wave['aliased'])} of the energy survives; of the others, {_short(wave['kept'])}."
        )
    cost = lookup(metrics, "efficiency")
    if cost is not None:
        ratio, peak = cost["latency_ratio"], cost["peak_bytes"]
        time = f"{1000 * cost['seconds']['median']:.3g} ms for {' x '.join(map(str, cost['batch']))}"
        yield (
            f"Cost: {cost['parameters']:,} parameters, {cost['flops'] / 1e6:,.0f} MFLOP an image, {time}"
            + ("" if ratio is None else f", {ratio:.2f} times the strided network")
            + ("" if peak is None else f"; at most {peak / 1e6:,.0f} MB at once")
            + "."
        )


def show(record: Record) -> None:
    """Print the tables and sentences of a record."""
    from rich.console import Console

    console = Console()
    metrics, images = record["metrics"], record["dataset"]["images"]
    rows = answers(metrics)
    if rows:
        columns = ("images", "right, %", "answer kept, %", "consistent, %")
        caption = (
            "With 95 % intervals. Answer kept: as for the unchanged image. Consistent: two random shifts agree (APS)."
        )
        console.print(_table(f"{record['name']}: {images:,} images", caption, columns, rows))
    rows = shifts(metrics)
    if rows:
        some = metrics["consistency"]["all_pairs"]["images"]
        kinds = ("shifts", "tried", "agree %", "kept %", "least %", "change", "at")
        caption = (
            "Agree: two shifts of an image. Kept: the answer for the unshifted image; least: under the worst shift. "
        )
        caption += "Change: the largest of any score, at that shift (row, column)."
        console.print(_table(f"{some:,} of them under many shifts", caption, kinds, rows))
    for line in remarks(metrics):
        console.print(line, highlight=False)


def _table(title: str, caption: str, head: tuple[str, ...], rows: list[list[str]]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.title_justify = table.caption_justify = "left"
    filled = [i for i in range(len(head)) if any(row[i] for row in rows)]
    for i in filled:
        table.add_column(head[i], justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(row[i] for i in filled), style="bold green" if row[-1] == EQUAL else None)
    return table


def _interval(estimate: Metrics | None) -> str:
    if estimate is None or estimate["value"] is None:
        return ""
    value, low, high = (100 * estimate[k] for k in ("value", "low", "high"))
    return f"{value:.2f} ± {max(high - value, value - low):.2f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"


def _short(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3g}" if abs(value) >= 1e-6 else f"{value:.0e}" if value else "0"
