"""The options of a method written down in full: when a run is configured, and for what earlier versions stored.

A configuration is stored with every option at its value, so that a later change of a default changes no stored run.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shiftproof import checks
from shiftproof.data import datasets
from shiftproof.layers import methods, resolve_options
from shiftproof.models import models
from shiftproof.models.cifar import sha256
from shiftproof.training.config import Config, flatten, from_dict, unflatten

# Settings and options (by method) that came after the first stored runs, with the value that runs without them had.
# A new one is entered here when it is introduced. An entry never changes, whatever happens to the default.
ADDED_SETTINGS: dict[str, Any] = {
    "model.subpixel": False,
    "model.weights": None,
    "model.weights_sha256": None,
    "model.pretrained": False,
    "model.placement": "after",
    "model.antialias": False,
    "model.calibrate": 0,
    "data.mean": [],
    "data.std": [],
}
ADDED_OPTIONS: dict[str, dict[str, Any]] = {}

# Options that were removed, by themselves or in the text of a kernel.
_REMOVED = ("pivot=per-channel", "pivot_rule=per-channel", "taper=linear", "taper=cosine")

# What version 0.1 meant by an option that it left out. It stored only the options that were given.
_MATRIX = ("orders", "sigma", "extension", "projection", "gain", "taper")  # now the text `kernel`
_GHS = dict(zip(_MATRIX, ("4N", "band", "periodic", "quadrature", "unit", "gaussian")))
_GHS_PAPER = dict(zip(_MATRIX, ("N", "rule", "zero", "quadrature", "paper", "none")))
_EVERY_GHS = {"ties": "exact", "output_size": None, "return_selection": False}
_UNWRITTEN: dict[str, dict[str, Any]] = {
    "ghs": _GHS | {"grid": "pivot", "anchor": "center", "pivot": "phase"} | _EVERY_GHS,
    "ghs-paper": _GHS_PAPER | {"grid": "inclusive", "anchor": "corner", "pivot": "max"} | _EVERY_GHS,
    "align": {"inner": "strided", "anchor": "center"},
    "aps": {"taps": 3, "criterion": "l2", "dense_max": 1},
    "avg": {"kernel_size": None},
    "lpf": {"taps": 3, "dense_max": 1},
    "lpf-adaptive": {"taps": 3, "groups": None},
    "lps": {"taps": 3, "hidden": 16, "temperature": [1.0, 0.1], "dense_max": 1},
    "max": {"kernel_size": None},
    "mixed": {"kernel_size": None, "mixture": 0.5, "learn": True},
    "stochastic": {"kernel_size": None},
    "strided": {},
}


class RemovedError(ValueError):
    """A stored run needs an option that was removed."""


def resolve(config: Config) -> Config:
    """`config` with every option of its method at its value, defaults included; a wrong option is refused.

    A file of weights is named by its sha256 too, so that a run is known by what it began with.
    """
    if not config.model.converted:
        checks.choice("model.name", config.model.name, models())
    elif config.model.weights is not None and config.model.weights_sha256 is None:
        digest = sha256(Path(config.model.weights))
        config = dataclasses.replace(config, model=dataclasses.replace(config.model, weights_sha256=digest))
    checks.choice("data.name", config.data.name, datasets())
    method, given = checks.choice("model.method", config.model.method, methods()), config.model.options
    try:
        options = resolve_options(method, given)
    except (TypeError, ValueError) as error:
        found = re.match(r"`(\w+)` ", str(error))
        if found and found[1] in given:
            raise ValueError(f"`model.options.{found[1]}` {str(error)[found.end() :]}") from None
        words = re.findall(r"`(\w+)`", str(error))  # an option, or a part of the text that is its value
        meant = {k: v for k, v in given.items() if any(word == k or f"{word}=" in str(v) for word in words)}
        raise ValueError(f"{_named(meant or given)}: {error}") from None
    return _with_options(config, options)


def restore(tree: Mapping[str, Any]) -> Config:
    """The configuration that this or an earlier version stored, with the values that the stored run had."""
    config = from_dict(unflatten(ADDED_SETTINGS | dict(flatten(tree))))
    method, options = config.model.method, config.model.options
    if removed := {k: v for k, v in options.items() if any(gone in f"{k}={v}" for gone in _REMOVED)}:
        raise RemovedError(
            f"begun with {_named(removed)}, which was removed: continue it with the version of shiftproof that began "
            "it, or begin another run in another folder."
        )
    if "kernel" not in options:  # always there for GHS since options are stored in full
        options = first_options(method, options)
    return resolve(_with_options(config, ADDED_OPTIONS.get(method, {}) | options))


def _named(options: Mapping[str, Any]) -> str:
    return ", ".join(f"`model.options.{k}` (={checks.shown(v, 200)})" for k, v in options.items())


def _with_options(config: Config, options: dict[str, Any]) -> Config:
    return dataclasses.replace(config, model=dataclasses.replace(config.model, options=options))


def first_options(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options as version 0.1 meant them, under today's names; values that are gone since then stay as they are.

    >>> first_options("align", {"inner": "lpf", "taps": 5})
    {'taps': 5, 'dense_max': 1, 'inner': 'lpf', 'anchor': 'center'}
    """
    usual = _UNWRITTEN.get(method, {})
    if method == "align":
        mine = usual | {name: value for name, value in options.items() if name in usual}
        handed_on = {name: value for name, value in options.items() if name not in usual}
        return first_options(str(mine["inner"]), handed_on) | mine
    full = usual | dict(options)
    if method in ("ghs", "ghs-paper"):
        kernel = ", ".join(f"{name}={full.pop(name)}" for name in _MATRIX)
        full |= {"kernel": f"hermite({kernel})", "pivot_rule": full.pop("pivot")}
        full["grid"] = "anchored" if full["grid"] == "pivot" else full["grid"]
    return full
