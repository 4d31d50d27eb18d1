"""The numbers of the README, from records: `python tools/measured.py` writes them.

The README has places marked `<!-- numbers: NAME -->` .. `<!-- numbers: end -->`. Each is filled by the function of that
name here, from results/. A test compares the README with what would be written.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from shiftproof.experiments.records import RecordIndex
from shiftproof.experiments.significance import AHEAD, BEHIND, EQUIVALENT, UNDECIDED
from shiftproof.reports import paper_tables
from shiftproof.reports.layouts import METHOD_LABELS
from shiftproof.reports.table import Cell, Table

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = ROOT / "README.md", ROOT / "results"
_PLACE = re.compile(r"(?<=<!-- numbers: )(?!end )(\w+)( -->\n\n).*?(?=\n\n<!-- numbers: end -->)", flags=re.S)
_GHS = METHOD_LABELS["ghs"]
Rows = dict[tuple[Any, ...], dict[str, float]]  # seconds by layer or network, for each size, layout and pass


class Results:
    """The tables and the timings of results/, read once."""

    def __init__(self, folder: Path = RESULTS, preset: str = "laptop") -> None:
        self.folder, self.preset = folder, preset
        self.index = RecordIndex.read([folder / "records"])
        self._tables: dict[str, Table] = {}

    def table(self, name: str) -> Table:
        """A table of `layouts.TABLES`."""
        if name not in self._tables:
            self._tables[name] = paper_tables.make(name, self.index, self.preset)
        return self._tables[name]

    def cell(self, table: str, row: str, column: str) -> Cell:
        """The cell of a row and a column; an empty one of a column that no record has."""
        found = self.table(table)
        return dict(found.rows)[row][found.columns.index(column)] if column in found.columns else Cell()

    def timed(self, part: str) -> list[dict[str, Any]]:
        """The rows of a part of the benchmark."""
        rows: list[dict[str, Any]] = json.loads((self.folder / f"{part}.json").read_text())["rows"]
        return rows


def write(page: str, results: Results | None = None) -> str:
    """The page with all its numbers made anew."""
    found = results or Results()
    return _PLACE.sub(lambda place: f"{place[1]}{place[2]}{PLACES[place[1]](found)}", page)


def training(results: Results) -> str:
    """What the preset costs, and the networks of CIFAR-10 beside one another."""
    columns = {
        "accuracy, %": ("shifts", "accuracy, %"),
        "consistency, %": ("table4", "consistency"),
        "agreement, %": ("shifts", "two random shifts agree, %"),
        "change": ("shifts", "largest change of a logit"),
        "accuracy, camera moved, %": ("shifts", "accuracy, camera moved, %"),
    }
    rows = []
    for label, _ in results.table("shifts").rows:
        cells = [results.cell(table, label, column) for table, column in columns.values()]
        rows.append([label, str(len(cells[0].values)), *map(_number, cells)])
    legend = (
        "Consistency is the measure of the APS code: two shifts of up to three pixels, one pair for each batch. "
        "Agreement: two random shifts of the image, of all there are. Change: the largest of a logit over all shifts."
    )
    return "\n\n".join([_wrapped(_cost(results)), _table(["", "n", *columns], rows), _wrapped(legend)])


def verdicts(results: Results) -> str:
    """How GHS compares in accuracy, data set by data set."""
    places = (
        ("On CIFAR-10", "table2", "ResNet-20"),
        ("On CIFAR-100", "table3", "accuracy"),
        ("On MNIST-rot, with the rotation-equivariant network,", "table5", "accuracy, %"),
        ("There, with the digits moved inside their frame,", "table5", "accuracy, camera moved, %"),
        ("On the bundled digits", "digits", "accuracy, %"),
        ("Under noise of 0.1, on CIFAR-10,", "noise", "accuracy, 0.1, %"),
    )
    return "\n".join(_wrapped(f"- {where} {_verdict(results, table, column)}", "  ") for where, table, column in places)


def subpixel(results: Results) -> str:
    """What the front for parts of a pixel wins and loses."""

    def get(row: str, column: str) -> str:
        return _number(results.cell("subpixel", row, column))

    front, tuned = f"{_GHS}, front", f"{_GHS}, front, fine-tuned"
    shift, eighth, crop = "accuracy, %", "worst eighth, %", "worst crop, %"
    return _wrapped(
        f"With GHS and the weights of the package, {get(_GHS, shift)} % of 1,000 test images are right, and "
        f"{get(_GHS, eighth)} % under every shift by eighths of a pixel. With the front for parts of a pixel it is "
        f"{get(front, shift)} and {get(front, eighth)} %, after one epoch of fine-tuning {get(tuned, shift)} and "
        f"{get(tuned, eighth)} %. Right under all 25 crops of 28 x 28 are {get(_GHS, crop)} % without it, "
        f"{get(front, crop)} % with it, {get(tuned, crop)} % fine-tuned "
        "([details](docs/mathematics.md#parts-of-a-pixel))."
    )


def layers(results: Results) -> str:
    """One layer: time relative to max pooling, and to the rivals in their faster layout."""
    times: Rows = {
        (tuple(row["size"]), row["layout"], row["pass"]): {k: t["median"] for k, t in row["times"].items()}
        for row in results.timed("layers")
    }
    passes, layouts = ("forward", "forward+backward"), ("contiguous", "channels_last")
    sizes = list(dict.fromkeys(size for size, _, _ in times))
    shown = {"LPF-3": "LPF-3", "LPF-3 of kornia": "LPF-3 (kornia)", "LPF-3 of timm": "LPF-3 (timm)"}
    shown |= {"APS-3": "APS-3", "GHS": "GHS"}
    rows = []
    for size in sizes:
        plain = [times[size, "contiguous", p] for p in passes]
        rows.append([_size(size), *(" / ".join(f"{t[name] / t['max']:.2f}" for t in plain) for name in shown.values())])

    def span(kind: str, rival: str) -> str:
        """The smallest and the largest ratio of GHS to a rival, each in its faster layout."""
        both = [[min(times[s, layout, kind][k] for layout in layouts) for k in ("GHS", rival)] for s in sizes]
        return _span(ours / theirs for ours, theirs in both)

    def beside_max(kind: str) -> str:
        """The same for max pooling, where that has its fast path."""
        found = [times[s, "channels_last", kind] for s in sizes]
        return _span(t["GHS"] / t["max"] for t in found)

    fast = " times its time forward, ".join(map(beside_max, passes))
    lpf = " of the time forward and ".join(span(kind, "LPF-3") for kind in passes)
    aps = " and ".join(span(kind, "APS-3") for kind in passes)
    said = (
        "The paper reports ten times the time of max pooling for its layer at the first size (its table 6, on a GPU). "
        f"In channels-last memory torch's max pooling has a special fast path: there GHS takes {fast} with backward. "
        "Kornia's filter pads with zeros, which is cheaper than circular padding. Compared with our LPF-3, each in its "
        f"faster layout, GHS takes {lpf} with backward; compared with APS-3, {aps}."
    )
    return _table(["maps (B x C x H x W)", *shown], rows) + "\n\n" + _wrapped(said)


def networks(results: Results) -> str:
    """A training step of whole networks, and per FLOP of convolution; the making of a batch; the front."""
    shown = {"align": "align", "LPF-3": "lpf", "APS-3": "aps", "GHS": "ghs"}
    rows = []
    for row in results.timed("networks"):
        seconds = {k: t["median"] for k, t in row["times"].items()}
        cells = []
        for name in shown.values():
            ratio = seconds[name] / seconds["strided"] if name in seconds else None
            flop = row["flops"]["strided"] / row["flops"][name] if name in seconds else 0.0
            cells.append("" if ratio is None else f"{ratio:.2f} ({ratio * flop:.2f})")
        rows.append([f"{row['network']}, {_size(row['size'])}", *cells])
    first = results.timed("networks")[0]
    batch = first["batch_seconds"] / first["times"]["strided"]["median"]
    times = [{k: t["median"] for k, t in row["times"].items()} for row in results.timed("front")]
    whole, part = ([100 * t[name] / t["ResNet-18"] for t in times] for name in ("front", "front, parts of a pixel"))
    said = [
        f"Loading, augmenting and normalising a batch costs {100 * batch:.1f} % of the strided training step of "
        "ResNet-20.",
        "Rolling pictures of 224 pixels with burnt-out skies to their pivot takes "
        f"{min(whole):.1f} to {max(whole):.1f} % of a ResNet-18's inference on two cores, and {min(part):.0f} to "
        f"{max(part):.0f} % with `subpixel=True` (`shiftproof bench front`; batches of 1 and 8, both layouts).",
    ]
    return "\n\n".join([_table(["network, input", *shown], rows), *map(_wrapped, said)])


PLACES: dict[str, Callable[[Results], str]] = {
    "training": training,
    "verdicts": verdicts,
    "subpixel": subpixel,
    "layers": layers,
    "networks": networks,
}


def _cost(results: Results) -> str:
    """What the first of the runs with GHS took."""
    files = results.cell("table2", _GHS, "ResNet-20").files
    said = f"Networks of the preset `{results.preset}` on CIFAR-10, mean ± standard deviation over n seeds:"
    for record in (r for path, r in results.index.records.items() if path.name in files[:1]):
        cost, machine = record["training"], record["machine"]
        cores = "one core" if machine["threads"] == 1 else f"{machine['threads']} cores"
        return (
            f"The preset `{results.preset}` trains ResNet-20 with GHS on CIFAR-10 ({cost['images']['training']:,} "
            f"images, {record['config']['optim']['epochs']} epochs) in {cost['seconds'] / 60:.1f} minutes with "
            f"{cost['peak_bytes'] / 1e9:.1f} GB of memory, on {cores} of an {machine['processor']} that also did other "
            f"work. {said}"
        )
    return said


def _verdict(results: Results, table: str, column: str) -> str:
    """Ours, and the other rows by verdict."""
    words = {BEHIND: "behind", AHEAD: "ahead of", EQUIVALENT: "equivalent to", UNDECIDED: "undecided against"}
    found = [c for c in results.table(table).comparisons if (c.subject, c.column) == (_GHS, column)]
    parts = []
    for verdict, said in words.items():
        names = [f"{c.other} ({_number(results.cell(table, c.other, column))})" for c in found if c.verdict == verdict]
        if names:
            parts.append(f"{said} {', '.join(names)}")
    ours = results.cell(table, _GHS, column)
    return f"GHS has {_number(ours)} (n={len(ours.values)}): {'; '.join(parts) or 'not compared'}."


def _number(cell: Cell) -> str:
    """Mean and spread; very small ones as powers of ten."""
    if cell.mean is not None and 0 < abs(cell.mean) < 0.001:
        return f"{cell.mean:.0e}"
    return cell.ours().partition(" (n=")[0]


def _span(ratios: Iterable[float]) -> str:
    several = list(ratios)
    return f"{min(several):.2f} to {max(several):.2f}"


def _size(size: Iterable[int]) -> str:
    return " x ".join(map(str, size))


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(write(PAGE.read_text()))
