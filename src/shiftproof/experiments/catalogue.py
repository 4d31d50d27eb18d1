"""The runs of every table: each row is a change of settings, each column a network, each seed a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shiftproof import checks
from shiftproof.evaluation import robustness
from shiftproof.experiments import records
from shiftproof.experiments.paper import NETWORKS
from shiftproof.experiments.records import Record, Settings
from shiftproof.ghs.kernel import GHS, GHS_PAPER, Local
from shiftproof.layers import methods as known_methods
from shiftproof.layers import resolve_options
from shiftproof.models.cifar import INPUTS
from shiftproof.training.config import Config, configure
from shiftproof.training.resolve import resolve


@dataclass(frozen=True)
class TableRuns:
    """The runs of a table: data set x networks x rows.

    `on`: the images its runs are evaluated on; `limit`: at most so many of them; `shift_images`: how many of them, at
    most, are put through all shifts, and `least_shift_images`, at least; `parts`: what is measured; `seeds`: how many
    runs there are, at most, of each row, and `seeds_of` a network, in every preset but smoke.
    """

    dataset: str
    models: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Any]]
    on: str = "test"
    limit: int | None = None
    shift_images: int = 64
    least_shift_images: int = 0
    parts: tuple[str, ...] = Settings.parts
    seeds: int = 10
    seeds_of: Mapping[str, int] = field(default_factory=dict)

    def count(self, preset: str, model: str, row: Mapping[str, Any]) -> int:
        """The number of runs of a row."""
        if row.get("optim.epochs") == 0:
            return 1  # weights that are not trained are the same for every seed
        usual = min(SEEDS[preset], self.seeds)
        return usual if preset == "smoke" else self.seeds_of.get(model, usual)


def _methods(*names: str) -> dict[str, dict[str, Any]]:
    return {name: {"model.method": name} for name in names}


def _ghs(method: str = "ghs", **options: Any) -> dict[str, Any]:
    """A row: GHS, or that of the paper, with changed options; those of its kernel change the kernel."""
    kernel = GHS if method == "ghs" else GHS_PAPER
    changed = {f.name: options.pop(f.name) for f in dataclasses.fields(kernel) if f.name in options}
    return {"model.method": method, "model.options": {"kernel": str(dataclasses.replace(kernel, **changed)), **options}}


def _untapered(**options: Any) -> dict[str, Any]:
    """GHS with a series that ends at the output's Nyquist limit: where the search for a default began."""
    return _ghs(**{"taper": "none", "grid": "periodic", "pivot_rule": "max"} | options)


_ROWS = _methods("strided", "align", "lpf", "aps", "ghs-paper", "ghs")
_ROWS_AND_DA = _methods("da") | _ROWS

# A small network on few images, to have time for several seeds, in small batches, to have many steps; evaluated on
# held-out images. After `cut off`: one change each against it. From `GHS, ...` on: one change against the default.
ABLATION: dict[str, dict[str, Any]] = {
    **_methods("strided", "lpf", "aps", "ghs", "ghs-paper"),
    "paper, anchor: center": _ghs("ghs-paper", anchor="center"),
    # 4N functions are more than the map has pixels, and have no least-squares fit
    "paper, anchor: center, projection: least squares": _ghs("ghs-paper", anchor="center", projection="least-squares"),
    "align": {"model.method": "align"},
    "align, LPF inside": {"model.method": "align", "model.options": {"inner": "lpf"}},
    "cut off": _untapered(),
    "pivot: energy": _untapered(pivot_rule="energy"),
    "anchor: corner": _untapered(anchor="corner"),
    "extension: zero": _untapered(extension="zero"),
    "grid: inclusive": _untapered(grid="inclusive"),
    # next to nothing is left at the border to scale up
    "orders: N/2, gain: paper": _untapered(orders="N/2", gain="paper"),
    "orders: N": _untapered(orders="N"),
    "orders: 2N": _untapered(orders="2N"),
    "orders: 8N": _untapered(orders="8N"),
    "sigma: rule": _untapered(sigma="rule"),
    "sigma: 0.5 band": _untapered(sigma="0.5*band"),
    "sigma: 0.75 band": _untapered(sigma="0.75*band"),
    "sigma: 1.5 band": _untapered(sigma="1.5*band"),
    "sigma: 2 band": _untapered(sigma="2*band"),
    "gain: paper": _untapered(gain="paper"),
    "taper: gaussian": _untapered(taper="gaussian"),
    "taper: gaussian, sigma: 1.5 band": _untapered(taper="gaussian", sigma="1.5*band"),
    "taper: gaussian, sigma: 2 band": _untapered(taper="gaussian", sigma="2*band"),
    "ties: window": _untapered(ties="window"),
    "ties: first": _untapered(ties="first"),
    "separate pivots": _untapered() | {"model.share": False},
    "head: flatten": _untapered() | {"model.head": "flatten"},
    "GHS, pivot: max": _ghs(pivot_rule="max"),
    "GHS, grid: periodic": _ghs(grid="periodic"),
    "GHS, sigma: 1.5 band": _ghs(sigma="1.5*band"),
    "GHS, taper: none": _ghs(taper="none"),
}
_FEW = {"data.limit": 10000, "optim.epochs": 8, "optim.batch_size": 64, "optim.lr": 0.2}
_JUDGED = ("accuracy", "consistency", "robustness.noise", "aliasing")
_ABLATION = {name: row | _FEW for name, row in ABLATION.items()}

# What chooses the default kernel, by the rule in docs/mathematics.md: as many variants of the rivals as fit.
_KERNELS = {
    **_methods("strided", "lpf", "aps", "ghs-paper"),
    **{f"{name.upper()}-5": {"model.method": name, "model.options": {"taps": 5}} for name in ("lpf", "aps")},
    "cut off": _untapered(),
    **{
        f"order {order}, width {width:g}": {"model.method": "ghs"}
        | {"model.options": {"kernel": f"{Local(order, width)}"}}
        for order in (0, 1, 2, 4, 8)
        for width in (0.8, 1.0, 1.25)
    },
}

# Other readings of the paper's layer, and the flatten head that it says needs no global pooling.
_READINGS = {
    **_methods("ghs-paper"),
    "paper, orders: M": _ghs("ghs-paper", orders="M"),
    "paper, sigma: highest order": _ghs("ghs-paper", sigma="order"),
    "paper, ties: window": _ghs("ghs-paper", ties="window"),
    **_methods("aps", "ghs"),
}
_HEADS = _methods("lpf", "aps", "ghs-paper", "ghs")
_HEADS |= {f"{name}, flatten": row | {"model.head": "flatten"} for name, row in _HEADS.items()}
_ROTATED = _methods("max", "lpf", "aps", "ghs-paper", "ghs")
# Every method of the paper's related work, beside its rivals.
_RELATED = _methods("avg", "mixed", "stochastic", "lpf-adaptive", "lps", "strided", "lpf", "aps", "ghs-paper", "ghs")

# The weights of the package, which are those of one seed: as they are, or trained for one more epoch.
_AS_IS = {"model.weights": "cifar10", "optim.epochs": 0}
_TUNED = {"model.weights": "cifar10", "optim.epochs": 1, "optim.lr": 0.1}
_FRONT = {"model.subpixel": True}  # for networks that are invariant without it
_APS, _GHS = {"model.method": "aps"}, {"model.method": "ghs"}
_SUBPIXEL = {
    **{name: row | _AS_IS for name, row in _methods("strided", "lpf", "aps").items()},
    "APS-3, front": _APS | _FRONT | _AS_IS,
    "APS-3, front, fine-tuned": _APS | _FRONT | _TUNED,
    "APS-3, fine-tuned": _APS | _TUNED,  # what the epoch does by itself
    "ghs": _GHS | _AS_IS,
    "GHS, front": _GHS | _FRONT | _AS_IS,
    "GHS, front, fine-tuned": _GHS | _FRONT | _TUNED,
    "GHS, fine-tuned": _GHS | _TUNED,
}

# Public weights: as they are, with batch norms calibrated, or fine-tuned as they were trained, with flips and crops.
_PUBLIC: dict[str, Any] = {
    "model.pretrained": True,
    "data.mean": list(INPUTS["mean"]),
    "data.std": list(INPUTS["std"]),
    "data.validation": 0.0,  # there are no images that the weights have not seen
    "augment.crop": 4,
}
_TWO_EPOCHS = {
    "optim.epochs": 2,
    "optim.lr": 0.03,
    "optim.batch_size": 64,
    "optim.nesterov": True,
    "optim.schedule": "one-cycle",
    "optim.warm_up": 0.1,
}
_CONVERSIONS: dict[str, dict[str, Any]] = {
    "source": {"model.method": "strided", "model.padding": "keep"},
    "strided, circular": {"model.method": "strided"},
    **{
        f"{label}, {padding}": {"model.method": method, "model.padding": padding}
        for method, label in (("lpf", "LPF-3"), ("aps", "APS-3"))
        for padding in ("keep", "circular")
    },
    **{
        f"GHS {placement}, {padding}": {"model.padding": padding, "model.placement": placement}
        for placement in ("after", "before")
        for padding in ("keep", "circular")
    },
}
_TREATMENTS: dict[str, dict[str, Any]] = {
    "": {"optim.epochs": 0},
    ", calibrated": {"optim.epochs": 0, "model.calibrate": 1000},
    ", 2 epochs": _TWO_EPOCHS,
}
_PRETRAINED = {
    conversion + treatment: changes | _PUBLIC | how
    for treatment, how in _TREATMENTS.items()
    for conversion, changes in _CONVERSIONS.items()
    if (conversion, treatment) != ("source", ", calibrated")  # nothing to calibrate it to
}

# small enough for every machine, and nothing to download
_SHORT = {"optim.epochs": 12, "optim.batch_size": 64, "optim.lr": 0.2}
_DIGITS = {name: row | _SHORT for name, row in _methods("strided", "lpf", "aps", "ghs").items()}

SWEEPS = {
    "digits": TableRuns("digits", ("resnet20",), _DIGITS, parts=("accuracy", "consistency")),
    "table1": TableRuns("cifar10", NETWORKS, _ROWS),
    "table2": TableRuns("cifar10", NETWORKS, _ROWS),  # the same runs: consistency in one table, accuracy in the other
    "table3": TableRuns("cifar100", ("resnet18",), _ROWS),
    "table4": TableRuns("cifar10", ("resnet18",), _ROWS_AND_DA),
    "figure5": TableRuns("cifar10", ("resnet18",), _ROWS_AND_DA),
    "table5": TableRuns("mnist-rot", ("e2",), _ROTATED),
    "rotated28": TableRuns("mnist-rot", ("e2",), {name: row | {"data.size": 28} for name, row in _ROTATED.items()}),
    "shifts": TableRuns("cifar10", ("resnet18",), _ROWS_AND_DA),
    "noise": TableRuns("cifar10", ("resnet18",), _ROWS_AND_DA),
    "readings": TableRuns("cifar10", ("resnet18",), _READINGS, seeds=1),
    "heads": TableRuns("cifar10", ("resnet18",), _HEADS, seeds=1),
    "related": TableRuns("cifar10", ("resnet18",), _RELATED, seeds=1),
    "subpixel": TableRuns("cifar10", ("resnet20",), _SUBPIXEL, limit=1000, parts=("accuracy", "adversarial"), seeds=1),
    "pretrained": TableRuns(
        "cifar10",
        ("cifar:resnet20", "cifar:resnet56"),
        _PRETRAINED,
        parts=("accuracy", "consistency", "efficiency"),
        least_shift_images=100,
        seeds_of={"cifar:resnet20": 3, "cifar:resnet56": 1},
    ),
    "kernels": TableRuns(
        "cifar10",
        ("resnet8",),
        {name: row | _FEW for name, row in _KERNELS.items()},
        on="validation",
        parts=("accuracy", "robustness.noise", "aliasing"),
        seeds=8,
    ),
    "ablation": TableRuns("cifar10", ("resnet8",), _ABLATION, on="validation", shift_images=8, parts=_JUDGED),
}
SIGMAS = robustness.SIGMAS  # for the tables, which import no measures
SEEDS = {"paper": 10, "laptop": 2, "smoke": 1}
# what two CPU cores can train; the others on request
SMALL = {"laptop": ("resnet20",), "smoke": ("resnet20",)}
# evaluation that fits the size of the training
SETTINGS = {"paper": Settings(), "laptop": Settings(shift_images=32), "smoke": Settings(limit=64, shift_images=1)}


def settings(name: str, preset: str) -> Settings:
    """How the runs of a table are evaluated."""
    table = SWEEPS[checks.choice("name", name, SWEEPS)]
    usual = SETTINGS[checks.choice("preset", preset, SETTINGS)]
    images = min(usual.shift_images, table.shift_images)
    images = images if preset == "smoke" else max(images, table.least_shift_images)
    limit = min((n for n in (usual.limit, table.limit) if n is not None), default=None)
    return dataclasses.replace(usual, on=table.on, parts=table.parts, limit=limit, shift_images=images)


def networks(name: str, preset: str) -> tuple[str, ...]:
    """The networks a preset trains for a table."""
    models = SWEEPS[name].models
    return SMALL.get(preset, models) if "resnet18" in models else models


def configs(
    name: str,
    preset: str,
    *,
    models: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
    dataset: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> list[Config]:
    """The configurations of a table's runs: seed by seed, so that a sweep that is cut short has complete seeds.

    `models`, `methods`, `seeds` and `dataset` replace those of the table; `changes` hold for every run.
    """
    table = SWEEPS[checks.choice("name", name, SWEEPS)]
    rows = [table.rows.get(m, {"model.method": m}) for m in methods] or list(table.rows.values())
    every = {"data.name": dataset or table.dataset}
    checks.choice("preset", preset, SEEDS)
    wanted = [(model, row) for model in models or networks(name, preset) for row in rows]
    return [
        config(name, preset, model, {"run.seed": seed} | every | dict(row) | dict(changes or {}))
        for seed in seeds or range(max(table.count(preset, model, row) for model, row in wanted))
        for model, row in wanted
        if seeds or seed < table.count(preset, model, row)
    ]


def config(name: str, preset: str, model: str, row: Mapping[str, Any]) -> Config:
    """The configuration of one run of a table, its options in full. `row` changes settings; the seed is 0 without."""
    return resolve(configure(preset, model=model, dataset=SWEEPS[name].dataset, changes=row))


def has_default_options(record: Record) -> bool:
    """Whether a record is of a run with the options that its method has by default today."""
    config = record["config"]
    if config is None or config["model"]["method"] not in known_methods():
        return False
    return bool(config["model"]["options"] == resolve_options(config["model"]["method"]))


def run_name(config: Config) -> str:
    """The name of a run's folder: what a reader tells it from others by, and a key for the rest."""
    key = records.identity(config.to_dict(), config.model.name, config.data.name, {})
    return f"{records.make_name(config.data.name, config.model.name, config)}-{key[:8]}"
