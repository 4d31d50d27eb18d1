"""What has to be run for a table: every row a change of settings, every column a network, every seed a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shiftproof import checks
from shiftproof.experiments import records
from shiftproof.experiments.evaluate import Settings
from shiftproof.training.config import Config, configure


@dataclass(frozen=True)
class Sweep:
    """A table as runs: data set x networks x rows.

    `on`: the images its runs are evaluated on; `shift_images`: all shifts of at most so many of them; `parts`: what is
    measured.
    """

    dataset: str
    models: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Any]]
    on: str = "test"
    shift_images: int = 64
    parts: tuple[str, ...] = Settings.parts


def _methods(*names: str) -> dict[str, dict[str, Any]]:
    return {name: {"model.method": name} for name in names}


def _cut_off(**options: Any) -> dict[str, Any]:
    """GHS with a series that is cut off at the output's Nyquist limit: where the search for a default began."""
    usual = {"sigma": "band", "taper": "none", "grid": "periodic", "pivot": "max"}
    return {"model.method": "ghs", "model.options": usual | options}


def _ghs(**options: Any) -> dict[str, Any]:
    return {"model.method": "ghs", "model.options": options}


def _paper(**options: Any) -> dict[str, Any]:
    return {"model.method": "ghs-paper", "model.options": options}


_NETWORKS = ("resnet18", "resnet20", "resnet50", "resnet56")
_ROWS = _methods("strided", "align", "lpf", "aps", "ghs-paper", "ghs")
_ROWS_AND_DA = _methods("da") | _ROWS

# A small network on few images, so that there is time for several seeds, and small batches, for many steps; judged on
# the held-out images. From `cut off` on: one change each against it; from `GHS, ...` on, against the default.
ABLATION: dict[str, dict[str, Any]] = {
    **_methods("strided", "lpf", "aps", "ghs", "ghs-paper"),
    "paper, anchor: center": _paper(anchor="center"),
    # 4N functions are more than the map has pixels, and have no least-squares fit
    "paper, anchor: center, projection: least squares": _paper(anchor="center", projection="least-squares"),
    "align": {"model.method": "align"},
    "align, LPF inside": {"model.method": "align", "model.options": {"inner": "lpf"}},
    "cut off": _cut_off(),
    "pivot: energy": _cut_off(pivot="energy"),
    "pivot: per channel": _cut_off(pivot="per-channel") | {"model.share": False},  # branches differ in channels
    "anchor: corner": _cut_off(anchor="corner"),
    "extension: zero": _cut_off(extension="zero"),
    "grid: inclusive": _cut_off(grid="inclusive"),
    # next to nothing is left at the border to scale up
    "orders: N/2, gain: paper": _cut_off(orders="N/2", gain="paper"),
    "orders: N": _cut_off(orders="N"),
    "orders: 2N": _cut_off(orders="2N"),
    "orders: 8N": _cut_off(orders="8N"),
    "sigma: rule": _cut_off(sigma="rule"),
    "sigma: 0.5 band": _cut_off(sigma="0.5*band"),
    "sigma: 0.75 band": _cut_off(sigma="0.75*band"),
    "sigma: 1.5 band": _cut_off(sigma="1.5*band"),
    "sigma: 2 band": _cut_off(sigma="2*band"),
    "gain: paper": _cut_off(gain="paper"),
    "taper: linear": _cut_off(taper="linear"),
    "taper: cosine": _cut_off(taper="cosine"),
    "taper: gaussian": _cut_off(taper="gaussian"),
    "taper: gaussian, sigma: 1.5 band": _cut_off(taper="gaussian", sigma="1.5*band"),
    "taper: gaussian, sigma: 2 band": _cut_off(taper="gaussian", sigma="2*band"),
    "ties: window": _cut_off(ties="window"),
    "ties: first": _cut_off(ties="first"),
    "separate pivots": _cut_off() | {"model.share": False},
    "head: flatten": _cut_off() | {"model.head": "flatten"},
    "GHS, pivot: max": _ghs(pivot="max"),
    "GHS, grid: periodic": _ghs(grid="periodic"),
    "GHS, sigma: 1.5 band": _ghs(sigma="1.5*band"),
    "GHS, taper: none": _ghs(taper="none"),
}
_FEW = {"data.limit": 10000, "optim.epochs": 8, "optim.batch_size": 64, "optim.lr": 0.2}
_JUDGED = ("accuracy", "consistency", "robustness.noise", "aliasing")
_ABLATION = {name: row | _FEW for name, row in ABLATION.items()}

# small enough for every machine, and nothing to download
_SHORT = {"optim.epochs": 12, "optim.batch_size": 64, "optim.lr": 0.2}
_DIGITS = {name: row | _SHORT for name, row in _methods("strided", "lpf", "aps", "ghs").items()}

SWEEPS = {
    "digits": Sweep("digits", ("resnet20",), _DIGITS, parts=("accuracy", "consistency")),
    "table1": Sweep("cifar10", _NETWORKS, _ROWS),
    "table2": Sweep("cifar10", _NETWORKS, _ROWS),  # the same runs: consistency in one table, accuracy in the other
    "table3": Sweep("cifar100", ("resnet18",), _ROWS),
    "table4": Sweep("cifar10", ("resnet18",), _ROWS_AND_DA),
    "figure5": Sweep("cifar10", ("resnet18",), _ROWS_AND_DA),
    "table5": Sweep("mnist-rot", ("e2",), _methods("max", "lpf", "aps", "ghs-paper", "ghs")),
    "shifts": Sweep("cifar10", ("resnet18",), _ROWS_AND_DA),
    "ablation": Sweep("cifar10", ("resnet8",), _ABLATION, on="validation", shift_images=8, parts=_JUDGED),
}
SEEDS = {"paper": 10, "laptop": 2, "smoke": 1}
# what two CPU cores can train; the others on request
SMALL = {"laptop": ("resnet20",), "smoke": ("resnet20",)}
# evaluation that fits the size of the training
SETTINGS = {"paper": Settings(), "laptop": Settings(shift_images=32), "smoke": Settings(limit=64, shift_images=1)}


def settings(name: str, preset: str) -> Settings:
    """How the runs of a table are evaluated."""
    sweep = SWEEPS[checks.choice("NAME", name, SWEEPS)]
    usual = SETTINGS[checks.choice("preset", preset, SETTINGS)]
    images = min(usual.shift_images, sweep.shift_images)
    return dataclasses.replace(usual, on=sweep.on, parts=sweep.parts, shift_images=images)


def networks(name: str, preset: str) -> tuple[str, ...]:
    """The networks a preset trains for a table."""
    models = SWEEPS[name].models
    return SMALL.get(preset, models) if "resnet18" in models else models


def plan(
    name: str,
    preset: str,
    *,
    models: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
    dataset: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> list[Config]:
    """The configurations of a sweep: seed by seed, so that a sweep that is cut short has seeds complete.

    `models`, `methods`, `seeds` and `dataset` stand in for those of the table; `changes` hold for every run.
    """
    sweep = SWEEPS[checks.choice("NAME", name, SWEEPS)]
    rows = [sweep.rows.get(m, {"model.method": m}) for m in methods] or list(sweep.rows.values())
    return [
        config(name, preset, model, row, seed, dataset, changes)
        for seed in seeds or range(SEEDS[checks.choice("preset", preset, SEEDS)])
        for model in models or networks(name, preset)
        for row in rows
    ]


def config(
    name: str,
    preset: str,
    model: str,
    row: Mapping[str, Any],
    seed: int = 0,
    dataset: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration of one run of a table."""
    every = dict(row) | dict(changes or {})
    return configure(preset, model=model, dataset=dataset or SWEEPS[name].dataset, seed=seed, changes=every)


def title(config: Config) -> str:
    """The name of a run's folder: what tells it from others, and a key for the rest."""
    key = records.identity(config.to_dict(), config.model.name, config.data.name, {})
    return f"{config.data.name}-{config.model.name}-{config.recipe}-{config.preset}-seed{config.run.seed}-{key[:8]}"
