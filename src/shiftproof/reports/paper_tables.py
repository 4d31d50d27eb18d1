"""The tables of the paper, of all shifts, of parts of a pixel, and of the ablation, made from records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shiftproof.experiments import catalogue, paper
from shiftproof.experiments.records import RecordIndex, lookup
from shiftproof.reports import kernel_choice, pretrained_table
from shiftproof.reports.kernel_choice import ALIASED, SCORE
from shiftproof.reports.table import Cell, Column, Layout, Table, record_cell

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
NETWORK_LABELS = {f"{of}resnet{n}": f"ResNet-{n}" for n in (8, 18, 20, 50, 56) for of in ("", "cifar:")}

APS = ("consistency", "aps_protocol")
PAIRS = ("consistency", "all_pairs", "pairs")
CHANGE = ("consistency", "all_pairs", "largest_change")
CLEAN = ("accuracy", "clean")
MOVED = ("accuracy", "cropped", "black")


def _by_network(path: tuple[str, ...], numbers: Mapping[str, Mapping[str, paper.Value]]) -> list[Column]:
    """One column for each network of the paper."""
    return [Column(NETWORK_LABELS[m], path, printed=printed, model=m) for m, printed in numbers.items()]


# what the paper does not report: all pairs of shifts, the largest change, a camera that moved
_ALL_SHIFTS = [
    Column("accuracy, %", CLEAN),
    Column("accuracy, random circular shift, %", ("accuracy", "circular")),
    Column("two random shifts agree, %", PAIRS),
    Column("largest change of a logit", CHANGE, 1.0, 3),
    Column("accuracy, camera moved, %", MOVED),
    Column("agreement, camera moved, %", ("consistency", "cropped", "black", "pairs")),
    Column("agreement, half a pixel, %", ("consistency", "fractional", "1/2", "pairs")),
]
_NOISE = ("robustness", "noise", "0.05", "accuracy")
_TURN, _FLIP = ("robustness", "half_turn"), ("robustness", "vertical_flip")
_WORST, _MOVES = ("adversarial",), {"half": "half pixels", "fractional": "eighths", "crop": "crops"}
_ERASED = ("robustness", "erasure", "per_batch")

TABLES = {
    "table1": Layout(
        "Table 1. Classification consistency on CIFAR-10, %",
        _by_network(APS, paper.CONSISTENCY),
        ["Measured as in the reference code of APS: two circular shifts per batch from {{-3 .. 2}} on each axis."],
    ),
    "table2": Layout(
        "Table 2. Classification accuracy on CIFAR-10, %",
        _by_network(CLEAN, paper.ACCURACY),
        [paper.DISAGREEMENTS["table2"]],
    ),
    "shifts": Layout(
        "Every shift, CIFAR-10, {network}",
        _ALL_SHIFTS,
        [
            "Over all 1,024 circular shifts of each of 32 or 64 test images. Camera moved: up to 4 pixels each way, "
            "with black coming in; half a pixel: circularly, by the shift theorem."
        ],
    ),
    "table3": Layout(
        "Table 3. Consistency and accuracy on CIFAR-100, {network}, %",
        [
            Column("consistency", APS, printed=paper.CIFAR100["consistency"]),
            Column("accuracy", CLEAN, printed=paper.CIFAR100["accuracy"]),
        ],
    ),
    "table4": Layout(
        "Table 4. Flipped CIFAR-10, {network}, %",
        [
            Column("consistency", APS, printed=paper.FLIPPED["consistency"]),
            Column("accuracy", CLEAN, printed=paper.FLIPPED["accuracy"]),
            Column(
                "consistency, rotated by 180°", (*_TURN, "consistency"), printed=paper.FLIPPED["consistency, flipped"]
            ),
            Column("accuracy, rotated by 180°", (*_TURN, "accuracy"), printed=paper.FLIPPED["accuracy, flipped"]),
            Column("consistency, flipped vertically", (*_FLIP, "consistency")),
            Column("accuracy, flipped vertically", (*_FLIP, "accuracy")),
        ],
        [
            'The reference code\'s "vertical flip" flips both axes, a rotation by 180 degrees: compare its numbers '
            "there.",
            paper.DISAGREEMENTS["table4"],
        ],
    ),
    "figure5": Layout(
        "Figure 5. Erased squares, CIFAR-10, {network}, %",
        [
            Column(f"{what}, {size} px", (*_ERASED, size, what), printed=printed)
            for what, numbers in paper.ERASED.items()
            for size, printed in numbers.items()
        ],
        [paper.DISAGREEMENTS["figure5"]],
    ),
    "table5": Layout(
        "Table 5. MNIST-rot, E(2)-equivariant network",
        [
            Column("accuracy, %", CLEAN, printed=paper.ROTATED),
            Column("accuracy, camera moved, %", MOVED),
            Column("accuracy, rotated again, %", ("robustness", "rotation", "accuracy")),
            Column("agreement, rotated again, %", ("robustness", "rotation", "agreement")),
            Column("consistency, %", APS),
            Column("two random shifts agree, %", PAIRS),
            Column("largest change of a logit", CHANGE, 1.0, 3),
            Column("accuracy, 50,000 images, %", ("accuracy", "benchmark"), optional=True),
        ],
        [
            "Data: {sources}. The paper's split is 10,000 / 2,000. Rotated again: each test digit by a random angle, "
            "bilinear. Camera moved: up to 3 pixels each way, with black coming in."
        ],
    ),
    "ablation": Layout(
        "Ablation",
        [
            Column("accuracy, %", CLEAN),
            Column("camera moved, %", MOVED),
            Column("noise 0.05, %", _NOISE),
            Column("two shifts agree, %", PAIRS),
            Column("half a pixel, %", ("accuracy", "fractional", "1/2")),
            Column(ALIASED, ("aliasing", "aliased"), 1.0, 3),
            Column("R: smallest gain", ("aliasing", "matrix", "constant", "0"), 1.0),
            Column("R: largest gain", ("aliasing", "matrix", "constant", "1"), 1.0),
            Column("R: kept", ("aliasing", "matrix", "kept"), 1.0),
            Column("R: leaked", ("aliasing", "matrix", "leaked"), 1.0),
            Column("R: commutation", ("aliasing", "matrix", "commutation"), 1.0),
        ],
        [
            "{network}, 10,000 training images, 8 epochs in batches of 64, judged on the 5,000 held out. Cut off: the "
            "series of 4N functions ends at the output's Nyquist limit "
            "(`Hermite(taper='none'), grid='periodic', pivot_rule='max'`); below it, one change each. GHS, ...: one "
            "change against the default, which was chosen with ResNet-20 on held-out images of CIFAR-100. Camera "
            "moved, noise, half a pixel: the accuracy in that case. R: properties of the matrix of 32 -> 16: gain of "
            "a constant, smallest gain below and largest above the output's Nyquist limit, how far a shift of the "
            "input by the stride is from a shift of the output."
        ],
    ),
    "kernels": Layout(
        "The local kernel, held-out images of CIFAR-10, {network}",
        [
            Column(SCORE, CLEAN, more=(("accuracy", "cropped", "reflect"), _NOISE)),
            Column("accuracy, %", CLEAN),
            Column("camera moved, %", ("accuracy", "cropped", "reflect")),
            Column("noise 0.05, %", _NOISE),
            Column("loss in training", ("final", "loss"), 1.0, 3, part="training"),
            Column(ALIASED, ("aliasing", "aliased"), 1.0, 4),
            Column("kept energy", ("aliasing", "kept"), 1.0, 3),
        ],
        [
            "10,000 training images, 8 epochs in batches of 64, judged on the 5,000 held out. Score: the mean of the "
            "three accuracies after it. Camera moved: by up to 4 pixels each way, the gap filled by reflection. Cut "
            "off: the series of 4N functions that ends at the output's Nyquist limit. Order, width: "
            "`Local(order, width)`. The rule is in the mathematics, and was written before the first run."
        ],
    ),
    "subpixel": Layout(
        "Parts of a pixel, CIFAR-10, {network}",
        [
            Column("accuracy, %", (*_WORST, "integer", "unshifted")),
            Column("worst integer shift, %", (*_WORST, "integer", "accuracy")),
            Column("worst half pixel, %", (*_WORST, "half", "accuracy")),
            Column("worst eighth, %", (*_WORST, "fractional", "accuracy")),
            Column("middle crop, %", (*_WORST, "crop", "unshifted")),
            Column("worst crop, %", (*_WORST, "crop", "accuracy")),
            *(Column(f"two {w} agree, %", (*_WORST, g, "pairs")) for g, w in _MOVES.items()),
            *(Column(f"largest change, {w}", (*_WORST, g, "largest_change"), 1.0, 3) for g, w in _MOVES.items()),
        ],
        [
            "Worst: the share of 1,000 test images that are right under every shift of a grid, as in Michaeli et al. "
            "(2023), on grids of our own: circular shifts on both axes by 0 to 3 pixels; by multiples of 1/2 below 4 "
            "pixels; by multiples of 1/8 below 1 pixel; the 25 crops of 28 x 28 pixels, where pixels leave and enter. "
            "Further whole and half pixels repeat these in this network. Eighths beyond the first pixel do so only "
            "with APS and GHS.",
            "Front: `subpixel=True`, which needs a network that is invariant without it. Weights: those of the "
            "package, as they are, or trained for one more epoch (learning rate 0.1), with the front or without.",
        ],
    ),
    "pretrained": pretrained_table.LAYOUT,
    "digits": Layout(
        "Bundled digits, {network}",
        _ALL_SHIFTS,
        [
            "1,797 digits of 8 x 8 pixels, a fifth of them for testing; all 64 circular shifts. Camera moved: up to "
            "one pixel each way, with black coming in."
        ],
    ),
}


def make(name: str, index: RecordIndex, preset: str) -> Table:
    """A table of `TABLES`: a row for each method or variant; both of our GHS rows are beside the paper's one."""
    layout, runs, network = TABLES[name], catalogue.SWEEPS[name], catalogue.networks(name, preset)[0]
    found = {
        (method, model): index.find(catalogue.config(name, preset, model, row), runs.on)
        for method, row in runs.rows.items()
        for model in {column.model or network for column in layout.columns}
    }
    every = [record for several in found.values() for _, record in several]
    columns = [c for c in layout.columns if not c.optional or any(lookup(r["metrics"], *c.path) for r in every)]
    rows = []
    for method in runs.rows:
        printed = "ghs" if method == "ghs-paper" else method
        cells = (record_cell(found[method, c.model or network], c, c.printed.get(printed)) for c in columns)
        rows.append((METHOD_LABELS.get(method, method), tuple(cells)))
    sources = ", ".join(sorted({record["dataset"]["source"] for record in every})) or "none yet"
    words = {"network": NETWORK_LABELS.get(network, network), "sources": sources}
    notes = [note.format_map(words) for note in layout.notes]
    if runs.models == ("resnet18",) and network != "resnet18" and any(column.printed for column in columns):
        notes.insert(0, f"The paper's network is ResNet-18, ours {words['network']}.")
    table = Table(name, layout.title.format_map(words), tuple(c.title for c in columns), tuple(rows), tuple(notes))
    return kernel_choice.judge(table, runs.seeds) if name == "kernels" else table


def make_all(index: RecordIndex, preset: str) -> list[Table]:
    """Every table of `TABLES`, with numbers or without."""
    return [make(name, index, preset) for name in TABLES]


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
    ghs = (("ghs-paper", "GHS of the paper"), ("ghs", "GHS"))
    known = (("max", "max"), ("lpf", "LPF-3"), ("aps", "APS-3"), *ghs)
    for method, label in ((method, label) for method, label in known if label in timed):
        theirs, ours = paper.TIMES["ghs" if method == "ghs-paper" else method], 1e3 * timed[label]["median"]
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
