"""The tables of the paper, the table of all shifts, and the ablation, made from records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shiftproof.experiments import catalogue, paper, records
from shiftproof.experiments.records import RecordIndex
from shiftproof.reports.table import Cell, Column, Table, record_cell

METHOD_LABELS = {
    "strided": "Baseline (strided)",
    "da": "Baseline, shifted in training (DA)",
    "align": "Align the input once",
    "max": "Max pooling",
    "lpf": "LPF-3",
    "aps": "APS-3",
    "lps": "LPS",
    "ghs-paper": "GHS of the paper",
    "ghs": "GHS",
}
NETWORK_LABELS = {f"resnet{depth}": f"ResNet-{depth}" for depth in (8, 18, 20, 50, 56)}

APS = ("consistency", "aps_protocol")
PAIRS = ("consistency", "all_pairs", "pairs")
CHANGE = ("consistency", "all_pairs", "largest_change")
CLEAN = ("accuracy", "clean")
BENCHMARK = ("accuracy", "benchmark")
MOVED = ("accuracy", "cropped", "black")
ERASED_SIZES = (0, 4, 6, 8)  # pixels on each side


def _table(
    index: RecordIndex, name: str, preset: str, title: str, columns: Sequence[Column], notes: tuple[str, ...] = ()
) -> Table:
    """One row for each method; both of our GHS rows are compared with the paper's one."""
    runs, rows = catalogue.SWEEPS[name], []
    for method, row in runs.rows.items():
        cells = []
        for c in columns:
            config = catalogue.config(name, preset, c.model or _network(name, preset), row)
            printed = c.printed.get("ghs" if method == "ghs-paper" else method)
            cells.append(record_cell(index, config, runs.on, c, printed))
        rows.append((METHOD_LABELS.get(method, method), tuple(cells)))
    return Table(name, title, tuple(c.title for c in columns), tuple(rows), notes)


def _network(name: str, preset: str) -> str:
    return catalogue.networks(name, preset)[0]


def _without_spread(numbers: Mapping[str, float]) -> dict[str, paper.Value]:
    return {method: (value, None) for method, value in numbers.items()}


def _by_network(name: str, path: tuple[str, ...], numbers: Mapping[str, Mapping[str, paper.Value]]) -> list[Column]:
    """One column for each network of a table."""
    return [
        Column(NETWORK_LABELS[model], path, printed={m: v[model] for m, v in numbers.items()}, model=model)
        for model in catalogue.SWEEPS[name].models
    ]


def table1(index: RecordIndex, preset: str) -> Table:
    """Consistency on CIFAR-10, as the paper measures it."""
    title = "Table 1. Classification consistency on CIFAR-10, %"
    note = "Measured as in the reference code of APS: two circular shifts per batch from {-3 .. 2} on each axis."
    return _table(index, "table1", preset, title, _by_network("table1", APS, paper.CONSISTENCY), (note,))


def table2(index: RecordIndex, preset: str) -> Table:
    """Accuracy on CIFAR-10."""
    title = "Table 2. Classification accuracy on CIFAR-10, %"
    columns = _by_network("table2", CLEAN, paper.ACCURACY)
    return _table(index, "table2", preset, title, columns, (paper.DISAGREEMENTS["table2"],))


def _all_shifts(index: RecordIndex, name: str, preset: str, title: str, note: str) -> Table:
    """What the paper does not report: all pairs of shifts, the largest change, a camera that moved."""
    columns = [
        Column("accuracy, %", CLEAN),
        Column("accuracy, random circular shift, %", ("accuracy", "circular")),
        Column("two random shifts agree, %", PAIRS),
        Column("largest change of a logit", CHANGE, 1.0, 3),
        Column("accuracy, camera moved, %", MOVED),
        Column("agreement, camera moved, %", ("consistency", "cropped", "black", "pairs")),
        Column("agreement, half a pixel, %", ("consistency", "fractional", "1/2", "pairs")),
    ]
    return _table(index, name, preset, f"{title}, {NETWORK_LABELS[_network(name, preset)]}", columns, (note,))


def shifts(index: RecordIndex, preset: str) -> Table:
    """CIFAR-10 under all shifts."""
    note = (
        "Over all 1,024 circular shifts of each of 32 or 64 test images. Camera moved: up to 4 pixels each way, with "
        "black coming in; half a pixel: circularly, by the shift theorem."
    )
    return _all_shifts(index, "shifts", preset, "Every shift, CIFAR-10", note)


def digits(index: RecordIndex, preset: str) -> Table:
    """The handwritten digits of scikit-learn, 8 x 8 pixels, under all shifts."""
    note = (
        "1,797 digits of 8 x 8 pixels, a fifth of them for testing; all 64 circular shifts. Camera moved: up to one "
        "pixel each way, with black coming in."
    )
    return _all_shifts(index, "digits", preset, "Bundled digits", note)


def table3(index: RecordIndex, preset: str) -> Table:
    """CIFAR-100: consistency and accuracy."""
    printed = [_without_spread({m: v[k] for m, v in paper.CIFAR100.items()}) for k in range(2)]
    columns = [Column("consistency", APS, printed=printed[0]), Column("accuracy", CLEAN, printed=printed[1])]
    model = _network("table3", preset)
    title = f"Table 3. Consistency and accuracy on CIFAR-100, {NETWORK_LABELS[model]}, %"
    return _table(index, "table3", preset, title, columns, _other_network(model))


def table4(index: RecordIndex, preset: str) -> Table:
    """Flipped CIFAR-10."""
    model = _network("table4", preset)
    printed = [_without_spread({m: v[k] for m, v in paper.FLIPPED.items()}) for k in range(4)]
    columns = [
        Column("consistency", APS, printed=printed[0]),
        Column("accuracy", CLEAN, printed=printed[2]),
        Column("consistency, rotated by 180°", ("robustness", "half_turn", "consistency"), printed=printed[1]),
        Column("accuracy, rotated by 180°", ("robustness", "half_turn", "accuracy"), printed=printed[3]),
        Column("consistency, flipped vertically", ("robustness", "vertical_flip", "consistency")),
        Column("accuracy, flipped vertically", ("robustness", "vertical_flip", "accuracy")),
    ]
    notes = (
        *_other_network(model),
        'The reference code\'s "vertical flip" flips both axes, a rotation by 180 degrees: compare its numbers there.',
        paper.DISAGREEMENTS["table4"],
    )
    return _table(index, "table4", preset, f"Table 4. Flipped CIFAR-10, {NETWORK_LABELS[model]}, %", columns, notes)


def figure5(index: RecordIndex, preset: str) -> Table:
    """Figure 5 as a table: accuracy and consistency with a square erased."""
    model = _network("figure5", preset)
    columns = []
    for what, values in (("consistency", paper.ERASED_CONSISTENCY), ("accuracy", paper.ERASED_ACCURACY)):
        for size in ERASED_SIZES:
            path = ("robustness", "erasure", "per_batch", str(size), what)
            printed = _without_spread({m: v[size] for m, v in values.items()})
            columns.append(Column(f"{what}, {size} px", path, printed=printed))
    title = f"Figure 5. Erased squares, CIFAR-10, {NETWORK_LABELS[model]}, %"
    notes = (*_other_network(model), paper.DISAGREEMENTS["figure5"])
    return _table(index, "figure5", preset, title, columns, notes)


def cameraman(record: Mapping[str, Any]) -> Table:
    """Section 4.4: the absolute difference after a shift of the cameraman image."""
    wheres = (f"shift {tuple(record['shift'])}", f"all {record['size'] ** 2:,}")
    columns = tuple(f"{kind}, {where}" for where in wheres for kind in ("sum", "mean", "max"))
    rows = []
    for row in record["rows"]:
        cells = []
        for part in ("shift", "all"):
            for kind in ("sum", "mean", "max"):
                first = part == "shift" and kind == "sum" and row["paper_ad"] is not None
                theirs = (row["paper_ad"], None) if first else None
                cells.append(Cell(theirs, (row[part][kind],), ("cameraman.json",), 3, measured=True))
        rows.append((row["label"], tuple(cells)))
    notes = (
        f"Image: {record['image']}, area-averaged to {record['size']} x {record['size']}, range 0 to 1. The paper's is "
        "another photograph; it states neither the shift nor whether its difference is a sum, a mean or a maximum. All "
        "shifts: sum and mean averaged, max the largest. max + ..: after a dense 2 x 2 maximum. APS is equivariant: "
        "its output shifts along, and the difference counts that.",
    )
    return Table("cameraman", "Absolute difference after a circular shift", columns, tuple(rows), notes, False)


def table6(record: Mapping[str, Any]) -> Table:
    """Cost of one layer, from the record of `shiftproof bench layers`."""
    timed = next(r["times"] for r in record["rows"] if r["layout"] == "contiguous" and r["pass"] == "forward")
    rows = []
    for method, label in (("max", "max"), ("lpf", "LPF-3"), ("aps", "APS-3"), ("ghs", "GHS")):
        theirs, ours = paper.TIMES[method], 1e3 * timed[label]["median"]
        ratio = round(theirs[0] / paper.TIMES["max"][0], 2)
        files = ("layers.json",)
        cells = (
            Cell(theirs, (ours,), files, 3, measured=True),
            Cell((ratio, None), (ours / (1e3 * timed["max"]["median"]),), files, measured=True),
        )
        rows.append((METHOD_LABELS[method], cells))
    where = record["machine"]
    notes = (f"The paper: NVIDIA T4. Ours: {where['processor']}, {where['threads']} threads, median of many calls.",)
    title = "Table 6. Time of one layer, batches of 32 x 3 x 32 x 32, forward"
    return Table("table6", title, ("milliseconds", "ratio to max pooling"), tuple(rows), notes, False)


def _other_network(model: str) -> tuple[str, ...]:
    """A note if our network is not the paper's."""
    return () if model == "resnet18" else (f"The paper's network is ResNet-18, ours {NETWORK_LABELS[model]}.",)


def ablation(index: RecordIndex, preset: str) -> Table:
    """One change at a time, judged on the held-out images."""
    columns = [
        Column("accuracy, %", CLEAN),
        Column("camera moved, %", MOVED),
        Column("noise 0.05, %", ("robustness", "noise", "0.05", "accuracy")),
        Column("two shifts agree, %", PAIRS),
        Column("half a pixel, %", ("accuracy", "fractional", "1/2")),
        Column("aliased energy", ("aliasing", "aliased"), 1.0, 3),
        Column("R: smallest gain", ("aliasing", "matrix", "constant", "0"), 1.0),
        Column("R: largest gain", ("aliasing", "matrix", "constant", "1"), 1.0),
        Column("R: kept", ("aliasing", "matrix", "kept"), 1.0),
        Column("R: leaked", ("aliasing", "matrix", "leaked"), 1.0),
        Column("R: commutation", ("aliasing", "matrix", "commutation"), 1.0),
    ]
    note = (
        f"{NETWORK_LABELS[_network('ablation', preset)]}, 10,000 training images, 8 epochs in batches of 64, judged on "
        "the 5,000 held out. Cut off: the series of 4N functions ends at the output's Nyquist limit "
        "(`Hermite(taper='none'), grid='periodic', pivot_rule='max'`); below it, one change each. GHS, ...: one change "
        "against the default, which was chosen with ResNet-20 on held-out images of CIFAR-100. Camera moved, noise, "
        "half a pixel: the accuracy in that case. R: properties of the matrix of 32 -> 16: gain of a constant, "
        "smallest gain below and largest above the output's Nyquist limit, how far a shift of the input by the stride "
        "is from a shift of the output."
    )
    return _table(index, "ablation", preset, "Ablation", columns, (note,))


def table5(index: RecordIndex, preset: str) -> Table:
    """MNIST-rot with the E(2)-equivariant network."""
    columns = [
        Column("accuracy, %", CLEAN, printed=_without_spread(paper.ROTATED)),
        Column("accuracy, camera moved, %", MOVED),
        Column("accuracy, rotated again, %", ("robustness", "rotation", "accuracy")),
        Column("agreement, rotated again, %", ("robustness", "rotation", "agreement")),
        Column("consistency, %", APS),
        Column("two random shifts agree, %", PAIRS),
        Column("largest change of a logit", CHANGE, 1.0, 3),
    ]
    rows = catalogue.SWEEPS["table5"].rows.values()
    found = [record for row in rows for _, record in index.find(catalogue.config("table5", preset, "e2", row))]
    if any(records.lookup(record["metrics"], *BENCHMARK) for record in found):
        columns.append(Column("accuracy, 50,000 images, %", BENCHMARK))
    sources = sorted({record["dataset"]["source"] for record in found})
    note = (
        f"Data: {', '.join(sources) or 'none yet'}. The paper's split is 10,000 / 2,000. Rotated again: each test "
        "digit by a random angle, bilinear. Camera moved: up to 3 pixels each way, with black coming in."
    )
    return _table(index, "table5", preset, "Table 5. MNIST-rot, E(2)-equivariant network", columns, (note,))


TABLES: dict[str, Callable[[RecordIndex, str], Table]] = {
    make.__name__: make for make in (table1, table2, shifts, table3, table4, figure5, table5, ablation, digits)
}
