"""The tables of the paper, the table of all shifts, and the ablation, made from records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shiftproof.experiments import catalogue, paper
from shiftproof.experiments.index import RecordIndex
from shiftproof.reports.table import Cell, Table, record_cell

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


def _printed(method: str) -> str:
    """The method of the paper to compare with: both of our GHS rows are compared with the paper's one."""
    return "ghs" if method == "ghs-paper" else method


def networks_table(name: str, title: str, index: RecordIndex, preset: str, path: Sequence[str], printed: Any) -> Table:
    """Table 1 or 2: methods by networks."""
    sweep, rows = catalogue.SWEEPS[name], []
    for method, row in sweep.rows.items():
        cells = [
            record_cell(
                index, catalogue.config(name, preset, model, row), path, printed.get(_printed(method), {}).get(model)
            )
            for model in sweep.models
        ]
        rows.append((METHOD_LABELS[method], tuple(cells)))
    notes = (paper.DISAGREEMENTS[name],) if name in paper.DISAGREEMENTS else ()
    return Table(name, title, tuple(NETWORK_LABELS[model] for model in sweep.models), tuple(rows), notes)


def table1(index: RecordIndex, preset: str) -> Table:
    """Consistency on CIFAR-10, as the paper measures it."""
    title = "Table 1. Classification consistency on CIFAR-10, %"
    table = networks_table("table1", title, index, preset, APS, paper.CONSISTENCY)
    note = "Measured as in the reference code of APS: two circular shifts per batch from {-3 .. 2} on each axis."
    return Table(table.name, table.title, table.columns, table.rows, (note,))


def table2(index: RecordIndex, preset: str) -> Table:
    """Accuracy on CIFAR-10."""
    title = "Table 2. Classification accuracy on CIFAR-10, %"
    return networks_table("table2", title, index, preset, CLEAN, paper.ACCURACY)


def every_shift(name: str, title: str, note: str, index: RecordIndex, preset: str) -> Table:
    """What the paper does not report: all pairs of shifts, the largest change, a camera that moved."""
    paths: dict[str, tuple[Sequence[str], float, int]] = {
        "accuracy, %": (CLEAN, 100.0, 2),
        "accuracy, random circular shift, %": (("accuracy", "circular"), 100.0, 2),
        "two random shifts agree, %": (PAIRS, 100.0, 2),
        "largest change of a logit": (CHANGE, 1.0, 3),
        "accuracy, camera moved, %": (MOVED, 100.0, 2),
        "agreement, camera moved, %": (("consistency", "cropped", "black", "pairs"), 100.0, 2),
        "agreement, half a pixel, %": (("consistency", "fractional", "1/2", "pairs"), 100.0, 2),
    }
    model = catalogue.networks(name, preset)[0]
    rows = []
    for method, row in catalogue.SWEEPS[name].rows.items():
        config = catalogue.config(name, preset, model, row)
        cells = [record_cell(index, config, path, scale=scale, digits=digits) for path, scale, digits in paths.values()]
        rows.append((METHOD_LABELS[method], tuple(cells)))
    return Table(name, f"{title}, {NETWORK_LABELS[model]}", tuple(paths), tuple(rows), (note,))


def shifts(index: RecordIndex, preset: str) -> Table:
    """CIFAR-10 under every shift."""
    note = (
        "Over all 1,024 circular shifts of each of 32 or 64 test images. Camera moved: up to 4 pixels each way, "
        "with black coming in; half a pixel: circularly, by the shift theorem."
    )
    return every_shift("shifts", "Every shift, CIFAR-10", note, index, preset)


def digits(index: RecordIndex, preset: str) -> Table:
    """The handwritten digits that come with scikit-learn, 8 x 8 pixels, under every shift."""
    note = (
        "1,797 digits of 8 x 8 pixels, a fifth of them for testing; all 64 circular shifts. Camera moved: up to one "
        "pixel each way, with black coming in."
    )
    return every_shift("digits", "Bundled digits", note, index, preset)


def table3(index: RecordIndex, preset: str) -> Table:
    """CIFAR-100: consistency and accuracy."""
    model = catalogue.networks("table4", preset)[0]
    rows = []
    for method, row in catalogue.SWEEPS["table3"].rows.items():
        config = catalogue.config("table3", preset, model, row)
        theirs = paper.CIFAR100.get(_printed(method))
        values = [None, None] if theirs is None else [(v, None) for v in theirs]
        cells = (record_cell(index, config, APS, values[0]), record_cell(index, config, CLEAN, values[1]))
        rows.append((METHOD_LABELS[method], cells))
    notes = _other_network(model)
    title = f"Table 3. Consistency and accuracy on CIFAR-100, {NETWORK_LABELS[model]}, %"
    return Table("table3", title, ("consistency", "accuracy"), tuple(rows), notes)


def table4(index: RecordIndex, preset: str) -> Table:
    """Flipped CIFAR-10."""
    model = catalogue.networks("table4", preset)[0]
    flips = {"half_turn": "rotated by 180°", "vertical_flip": "flipped vertically"}
    columns = ["consistency", "accuracy"]
    columns += [f"{what}, {name}" for name in flips.values() for what in ("consistency", "accuracy")]
    rows = []
    for method, row in catalogue.SWEEPS["table4"].rows.items():
        config = catalogue.config("table4", preset, model, row)
        theirs = paper.FLIPPED.get(_printed(method))
        values: list[paper.Value | None] = [None] * 4 if theirs is None else [(v, None) for v in theirs]
        cells = [record_cell(index, config, APS, values[0]), record_cell(index, config, CLEAN, values[2])]
        for flip in flips:
            beside = values if flip == "half_turn" else [None] * 4
            cells.append(record_cell(index, config, ("robustness", flip, "consistency"), beside[1]))
            cells.append(record_cell(index, config, ("robustness", flip, "accuracy"), beside[3]))
        rows.append((METHOD_LABELS[method], tuple(cells)))
    notes = (
        *_other_network(model),
        'The reference code\'s "vertical flip" flips both axes, a rotation by 180 degrees: compare its numbers there.',
        paper.DISAGREEMENTS["table4"],
    )
    return Table("table4", f"Table 4. Flipped CIFAR-10, {NETWORK_LABELS[model]}, %", tuple(columns), tuple(rows), notes)


def erasure(index: RecordIndex, preset: str) -> Table:
    """Figure 5 as a table: accuracy and consistency with a square erased."""
    model = catalogue.networks("table4", preset)[0]
    printed = {"consistency": paper.ERASED_CONSISTENCY, "accuracy": paper.ERASED_ACCURACY}
    rows = []
    for method, row in catalogue.SWEEPS["figure5"].rows.items():
        config = catalogue.config("figure5", preset, model, row)
        cells = []
        for what, values in printed.items():
            for size in ERASED_SIZES:
                theirs = values.get(_printed(method), {}).get(size)
                path = ("robustness", "erasure", "per_batch", str(size), what)
                cells.append(record_cell(index, config, path, None if theirs is None else (theirs, None)))
        rows.append((METHOD_LABELS[method], tuple(cells)))
    columns = tuple(f"{what}, {size} px" for what in printed for size in ERASED_SIZES)
    notes = (*_other_network(model), paper.DISAGREEMENTS["figure5"])
    return Table(
        "figure5", f"Figure 5. Erased squares, CIFAR-10, {NETWORK_LABELS[model]}, %", columns, tuple(rows), notes
    )


def cameraman(record: Mapping[str, Any]) -> Table:
    """Section 4.4: the absolute difference after a shift of the cameraman image."""
    columns = tuple(f"{kind}, {where}" for where in ("shift (1, 1)", "all 1,024") for kind in ("sum", "mean", "max"))
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
        "another photograph; it states neither the shift nor whether its difference is a sum, a mean or a maximum.",
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
    model = catalogue.networks("ablation", preset)[0]
    paths: dict[str, tuple[Sequence[str], float, int]] = {
        "accuracy, %": (CLEAN, 100.0, 2),
        "camera moved, %": (MOVED, 100.0, 2),
        "noise 0.05, %": (("robustness", "noise", "0.05", "accuracy"), 100.0, 2),
        "two shifts agree, %": (PAIRS, 100.0, 2),
        "half a pixel, %": (("accuracy", "fractional", "1/2"), 100.0, 2),
        "aliased energy": (("aliasing", "aliased"), 1.0, 3),
        "R: smallest gain": (("aliasing", "matrix", "constant", "0"), 1.0, 2),
        "R: largest gain": (("aliasing", "matrix", "constant", "1"), 1.0, 2),
        "R: kept": (("aliasing", "matrix", "kept"), 1.0, 2),
        "R: leaked": (("aliasing", "matrix", "leaked"), 1.0, 2),
        "R: commutation": (("aliasing", "matrix", "commutation"), 1.0, 2),
    }
    rows = []
    for label, row in catalogue.SWEEPS["ablation"].rows.items():
        config = catalogue.config("ablation", preset, model, row)
        cells = [
            record_cell(
                index, config, path, part="validation", scale=scale, digits=digits, measured=path[0] == "aliasing"
            )
            for path, scale, digits in paths.values()
        ]
        rows.append((METHOD_LABELS.get(label, label), tuple(cells)))
    notes = (
        f"{NETWORK_LABELS[model]}, 10,000 training images, 8 epochs in batches of 64, judged on the 5,000 held out. "
        "Cut off: the series of 4N functions ends at the output's Nyquist limit (`taper='none', grid='periodic', "
        "pivot='max'`); below it, one change each. GHS, ...: one change against the default, which was chosen with "
        "ResNet-20 on held-out images of CIFAR-100. Camera moved, noise, half a pixel: the accuracy in that case. R: "
        "properties of the matrix of 32 -> 16: gain of a constant, smallest gain below and largest above the output's "
        "Nyquist limit, how far a shift of the input by the stride is from a shift of the output.",
    )
    return Table("ablation", "Ablation", tuple(paths), tuple(rows), notes)


def table5(index: RecordIndex, preset: str) -> Table:
    """MNIST-rot with the E(2)-equivariant network."""
    paths: dict[str, tuple[Sequence[str], float, int]] = {
        "accuracy, %": (CLEAN, 100.0, 2),
        "accuracy, camera moved, %": (MOVED, 100.0, 2),
        "accuracy, rotated again, %": (("robustness", "rotation", "accuracy"), 100.0, 2),
        "agreement, rotated again, %": (("robustness", "rotation", "agreement"), 100.0, 2),
        "consistency, %": (APS, 100.0, 2),
        "two random shifts agree, %": (PAIRS, 100.0, 2),
        "largest change of a logit": (CHANGE, 1.0, 3),
    }
    configs = {m: catalogue.config("table5", preset, "e2", row) for m, row in catalogue.SWEEPS["table5"].rows.items()}
    if any(record_cell(index, config, BENCHMARK).values for config in configs.values()):
        paths["accuracy, 50,000 images, %"] = (BENCHMARK, 100.0, 2)
    rows, sources = [], set()
    for method, config in configs.items():
        theirs = paper.ROTATED.get(_printed(method))
        cells = []
        for path, scale, digits in paths.values():
            beside = (theirs, None) if path is CLEAN and theirs is not None else None
            cells.append(record_cell(index, config, path, beside, scale=scale, digits=digits))
        sources |= {record["dataset"]["source"] for _, record in index.find(config)}
        rows.append((METHOD_LABELS[method], tuple(cells)))
    notes = (
        f"Data: {', '.join(sorted(sources)) or 'none yet'}. The paper's split is 10,000 / 2,000. Rotated again: each "
        "test digit by a random angle, bilinear. Camera moved: up to 3 pixels each way, with black coming in.",
    )
    title = "Table 5. MNIST-rot, E(2)-equivariant network"
    return Table("table5", title, tuple(paths), tuple(rows), notes)


TABLES: dict[str, Callable[[RecordIndex, str], Table]] = {
    "table1": table1,
    "table2": table2,
    "shifts": shifts,
    "table3": table3,
    "table4": table4,
    "figure5": erasure,
    "table5": table5,
    "ablation": ablation,
    "digits": digits,
}
