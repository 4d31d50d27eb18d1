"""The paper's claims one by one: what we measured, and whether each holds. Made from tables and records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from shiftproof.experiments import catalogue, paper
from shiftproof.experiments.records import Record, RecordIndex, lookup
from shiftproof.experiments.significance import AHEAD, BEHIND, MARGIN, UNDECIDED, Comparison
from shiftproof.reports.kernel_choice import ALIASED
from shiftproof.reports.layouts import METHOD_LABELS, NETWORK_LABELS
from shiftproof.reports.table import OURS, Cell, Table

HOLDS, PARTLY, FAILS, OPEN, NOT_RUN = "holds", "holds in part", "does not hold", "undecided", "not run"
_STRIDED, _LPF, _APS = (METHOD_LABELS[method] for method in ("strided", "lpf", "aps"))
_NETWORKS = tuple(dict.fromkeys(NETWORK_LABELS.values()))
_AGREE, _CHANGE = "two random shifts agree, %", "largest change of a logit"


class Claim(NamedTuple):
    """The paper's words, the verdict for each of our two layers, what was found, and the records behind it."""

    words: str
    verdicts: Mapping[str, str]
    found: Sequence[str]
    files: Sequence[str] = ()


class Evidence:
    """The tables by name, and the records by file."""

    def __init__(self, tables: Sequence[Table], index: RecordIndex) -> None:
        self.tables = {table.name: table for table in tables}
        self.records = {path.name: record for path, record in index.records.items()}

    def cell(self, table: str, row: str, column: str) -> Cell:
        """A cell; an empty one where the table, the row or the column is missing."""
        found = self.tables.get(table)
        if found is None or column not in found.columns:
            return Cell()
        return dict(found.rows).get(row, (Cell(),) * len(found.columns))[found.columns.index(column)]

    def compared(self, table: str, columns: Iterable[str], others: Sequence[str]) -> list[Comparison]:
        """Our rows against others."""
        found = self.tables.get(table)
        every = () if found is None else found.comparisons
        return [c for column in columns for c in every if c.column == column and c.other in others]


def build(tables: Sequence[Table], index: RecordIndex, preset: str, folder: str) -> str:
    """The document; `folder` is the address of the records."""
    evidence = Evidence(tables, index)
    claims = [make(evidence) for make in _CLAIMS]
    head = "| claim | " + " | ".join(OURS) + " |\n| --- |" + " --- |" * len(OURS)
    rows = [f"| {c.words} | " + " | ".join(c.verdicts[name] for name in OURS) + " |" for c in claims]
    parts = [
        "# The paper, claim by claim",
        f"Written by `shiftproof reproduce --preset {preset}` from the records in [{folder}]({folder}). A claim to be "
        "better than another method holds where every comparison is won by the tests of the [results](README.md), does "
        f"not hold where one is lost or equivalent (within {MARGIN} points) and none is won, and holds in part in "
        "between. A claim of the paper is about its own layer; ours stands beside it.",
        "\n".join([head, *rows]),
    ]
    for claim in claims:
        verdict = "; ".join(f"{name}: **{claim.verdicts[name]}**" for name in OURS)
        found = "\n".join(f"- {sentence}" for sentence in claim.found) or "- Nothing was run."
        parts += [f"## {claim.words}", verdict + ".", found]
        if claim.files:
            links = " ".join(f"[{i}]({folder}/{name})" for i, name in enumerate(sorted(set(claim.files)), start=1))
            parts.append(f"Records: {links}")
    parts += ["## Where the paper contradicts itself", "\n".join(f"- {words}" for words in paper.CONTRADICTIONS)]
    parts += ["## What the full experiment needs", *_full_experiment(index)]
    return "\n\n".join(parts) + "\n"


def decide(comparisons: Sequence[Comparison]) -> str:
    """Whether a claim to be ahead holds."""
    verdicts = {c.verdict for c in comparisons}
    if not verdicts:
        return NOT_RUN
    if verdicts == {AHEAD}:
        return HOLDS
    if AHEAD in verdicts:
        return PARTLY
    return OPEN if verdicts == {UNDECIDED} else FAILS


def _ahead(evidence: Evidence, words: str, places: Iterable[tuple[str, Sequence[str], Sequence[str]]]) -> Claim:
    """A claim to be better than others: `places` are tables, columns and rows."""
    found, lines, files = list[Comparison](), list[str](), list[str]()
    for table, columns, others in places:
        for column in columns:
            several = evidence.compared(table, [column], others)
            found += several
            for other in dict.fromkeys(c.other for c in several):
                ours = "; ".join(_difference(c) for c in several if c.other == other)
                where, theirs = _place(evidence, table, column), _printed(evidence, table, column, other)
                lines.append(f"{where}, minus {other}: {theirs}{ours}.")
            for row in {name for c in several for name in (c.subject, c.other)}:
                files += evidence.cell(table, row, column).files
    verdicts = {name: decide([c for c in found if c.subject == name]) for name in OURS}
    return Claim(words, verdicts, lines, files)


def _difference(c: Comparison) -> str:
    return f"{c.subject} {c.test.difference:+.2f} ({c.verdict}, n={c.test.n})"


def _place(evidence: Evidence, table: str, column: str) -> str:
    return f"{evidence.tables[table].title.removesuffix(', %')}, {column.removesuffix(', %')}"


def _printed(evidence: Evidence, table: str, column: str, other: str) -> str:
    """The paper's own difference, where it has one."""
    ours, theirs = (evidence.cell(table, row, column).paper for row in (OURS[1], other))
    return "" if ours is None or theirs is None else f"the paper {ours[0] - theirs[0]:+.2f}; "


def _layer(evidence: Evidence) -> Claim:
    """Section 4.4."""
    rows = {OURS[0]: "GHS", OURS[1]: "GHS (paper)"}
    table = evidence.tables.get("cameraman")
    column = "" if table is None else table.columns[-1]
    worst = {name: evidence.cell("cameraman", row, column).mean for name, row in rows.items()}
    verdicts = {name: NOT_RUN if v is None else FAILS if v else HOLDS for name, v in worst.items()}
    found = [
        f"{name}: the largest difference over all shifts is {v:.3g}." for name, v in worst.items() if v is not None
    ]
    found.append("Circular shifts only. Pixels that leave the frame change the map, and parts of a pixel too.")
    return Claim("The layer is exactly shift invariant", verdicts, found)


def _consistency(evidence: Evidence) -> Claim:
    """Tables 1, 3, 4 and 5."""
    columns = [("table1", c) for c in _NETWORKS] + [("table3", "consistency"), ("table4", "consistency")]
    columns += [("table5", "consistency, %"), ("table5", _AGREE), ("shifts", _AGREE), ("digits", _AGREE)]
    verdicts, found, files = {}, [], list[str]()
    for name in (*OURS, _APS):
        cells = [evidence.cell(table, name, column) for table, column in columns]
        values = [v for cell in cells for v in cell.values]
        changes = [v for table in ("shifts", "table5", "digits") for v in evidence.cell(table, name, _CHANGE).values]
        files += [file for cell in cells for file in cell.files]
        verdicts[name] = NOT_RUN if not values else HOLDS if min(values) == 100 and not any(changes) else FAILS
        if values:
            change = f"; largest change of a logit in any of them {max(changes):.2g}" if changes else ""
            found.append(f"{name}: lowest of {len(values)} measurements {min(values):.2f} %{change}.")
    return Claim("Networks are 100 % consistent under shifts", verdicts, found, files)


def _accuracy(evidence: Evidence) -> Claim:
    places = [("table2", [*_NETWORKS], [_APS, _LPF]), ("table3", ["accuracy"], [_APS, _LPF])]
    return _ahead(evidence, "Accuracy is above that of APS and LPF", places)


def _rotated(evidence: Evidence) -> Claim:
    others = [METHOD_LABELS["max"], _LPF, _APS]
    return _ahead(evidence, "Accuracy on MNIST-rot is the highest", [("table5", ["accuracy, %"], others)])


def _damaged(evidence: Evidence) -> Claim:
    erased, others = [f"accuracy, {n} px" for n in paper.ERASED_SIZES if n], [METHOD_LABELS["da"], _LPF, _APS]
    places = [("figure5", erased, others), ("table4", ["accuracy, rotated by 180°"], others)]
    return _ahead(evidence, "Accuracy on erased and flipped images is the highest", places)


def _noise(evidence: Evidence) -> Claim:
    columns = [f"accuracy, {sigma}, %" for sigma in catalogue.SIGMAS]
    return _ahead(evidence, "Sensitivity to noise is lower", [("noise", columns, [_STRIDED, _LPF, _APS])])


def _aliasing(evidence: Evidence) -> Claim:
    """A property of the layer, whatever the seed."""
    names = (*OURS, _STRIDED, _LPF, _APS)
    cells = {name: evidence.cell("related", name, ALIASED) for name in names}
    means = {name: cell.mean for name, cell in cells.items() if cell.mean is not None}
    verdicts = dict.fromkeys(OURS, NOT_RUN)
    rivals = [means[name] for name in names[2:] if name in means]
    for name in OURS:
        if name in means and rivals:
            below = [means[name] < rival for rival in rivals]
            verdicts[name] = HOLDS if all(below) else PARTLY if any(below) else FAILS
    found = [
        f"{name}: {mean:.4f} of the energy above the output's Nyquist limit survives." for name, mean in means.items()
    ]
    return Claim("Aliasing is lower", verdicts, found, [file for cell in cells.values() for file in cell.files])


def _pooling(evidence: Evidence) -> Claim:
    """A head that sees positions: does it keep its answers, and its accuracy?"""
    verdicts, found, files = {}, list[str](), list[str]()
    for name in OURS:
        flat = f"{name}, flatten"
        agree, accuracy = (evidence.cell("heads", flat, column) for column in (_AGREE, "accuracy, %"))
        lost = [c for c in evidence.compared("heads", ["accuracy, %"], [name]) if c.subject == flat]
        exact = bool(agree.values) and min(agree.values) == 100
        behind = any(c.verdict == BEHIND for c in lost)
        verdicts[name] = NOT_RUN if not agree.values else FAILS if not exact else PARTLY if behind else HOLDS
        files += agree.files
        found += [f"{flat}: accuracy {accuracy.ours()}, agreement {agree.ours()}." for _ in agree.values[:1]]
        found += [f"{c.text()}." for c in lost]
    pooled, flattened = (evidence.cell("ablation", row, "accuracy, %") for row in ("cut off", "head: flatten"))
    if pooled.values and flattened.values:
        found.append(
            f"Ablation, held-out images: {pooled.ours()} with pooling, {flattened.ours()} with a flatten head."
        )
    return Claim("Global pooling is not needed", verdicts, found, files)


def _architecture(evidence: Evidence) -> Claim:
    """Parameters and arithmetic, from the records of the runs of table 2."""
    records = dict[str, Record]()
    for name in (_STRIDED, *OURS):
        files = evidence.cell("table2", name, "ResNet-20").files
        records |= {name: evidence.records[files[0]]} if files else {}
    verdicts, found = dict.fromkeys(OURS, NOT_RUN), []
    for name in OURS:
        both = [records[row] for row in (name, _STRIDED) if row in records]
        flops = [count for r in both if (count := lookup(r["metrics"], "efficiency", "flops")) is not None]
        if len(flops) == 2:
            ours, theirs = both
            same = ours["model"]["parameters"] == theirs["model"]["parameters"]
            verdicts[name] = FAILS if not same else HOLDS if flops[0] == flops[1] else PARTLY
            found.append(
                f"{name}: {ours['model']['parameters']:,} parameters, strided {theirs['model']['parameters']:,}; "
                f"{flops[0] / flops[1]:.2f} times its arithmetic, because convolutions before a layer have stride 1."
            )
    found += [
        "GHS has no parameters, and invariance holds before training: tests/models/test_network_law.py.",
        "Needed besides, and not mentioned: circular padding everywhere, and one pivot for branches that are added.",
    ]
    return Claim("No change of the architecture, no parameters, no extra training", verdicts, found)


def _cost(evidence: Evidence) -> Claim:
    column = "ratio to max pooling"
    aps, verdicts, found = evidence.cell("table6", _APS, column).mean, {}, []
    for name in OURS:
        cell = evidence.cell("table6", name, column)
        verdicts[name] = NOT_RUN if cell.mean is None or aps is None else HOLDS if cell.mean < 1.1 * aps else FAILS
        if cell.mean is not None:
            found.append(f"{name}: {cell.mean:.2f} times max pooling; the paper {cell.theirs()}.")
    found += [f"APS-3: {aps:.2f} times."] if aps is not None else []
    return Claim("A layer takes about as long as one of APS", verdicts, found)


_CLAIMS = (
    _layer,
    _consistency,
    _accuracy,
    _rotated,
    _damaged,
    _aliasing,
    _noise,
    _pooling,
    _architecture,
    _cost,
)


def _full_experiment(index: RecordIndex) -> Iterator[str]:
    """Hours of the paper's recipe, from the time that an epoch took."""
    epochs, seeds = catalogue.configs("table1", "paper", seeds=[0])[0].optim.epochs, catalogue.SEEDS["paper"]
    seconds: dict[tuple[str, str, str], list[float]] = {}
    for record in index.records.values():
        history = lookup(record, "training", "history")
        config = record["config"]
        if history and config["preset"] == "laptop" and config["data"]["limit"] is None:
            key = (record["dataset"]["name"], record["model"]["name"], record["model"]["method"])
            seconds.setdefault(key, []).append(record["training"]["seconds"] / len(history))
    yield (
        f"The paper trains {epochs} epochs with {seeds} seeds. From the time of an epoch in our records, the fastest "
        "run of each row on a CPU that others shared, one process would need:"
    )
    rows = ["| data, network, method | runs | minutes an epoch | hours |", "| --- | --- | --- | --- |"]
    total = 0.0
    for key, several in sorted(seconds.items()):
        if key[0] != "digits":
            minutes = min(several) / 60
            total += (hours := minutes * epochs * seeds / 60)
            rows.append(f"| {', '.join(key)} | {len(several)} | {minutes:.2f} | {hours:,.0f} |")
    yield "\n".join([*rows, f"| all of these | | | {total:,.0f} |"])
    yield (
        "Networks without a row have not been trained in full. On a machine with a GPU this runs all of it, resumes "
        "where it stopped, and writes this page anew:"
    )
    commands = ("shiftproof data get cifar10 cifar100 mnist-rot", "shiftproof reproduce all --preset paper --out full")
    yield "\n".join(["```sh", *commands, "```"])
