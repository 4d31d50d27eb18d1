"""The options of a method written down in full: when a run is configured, and for what earlier versions stored.

A configuration is stored with every option at its value, so that a later change of a default changes no stored run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from shiftproof import checks
from shiftproof.layers import methods, resolve_options
from shiftproof.training.config import Config, flatten, from_dict, unflatten
from shiftproof.training.stored import ADDED_OPTIONS, ADDED_SETTINGS, first_options


def resolve(config: Config) -> Config:
    """`config` with every option of its method at its value, defaults included; a wrong option is refused."""
    method = checks.choice("model.method", config.model.method, methods())
    try:
        options = resolve_options(method, config.model.options)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`model.options` (={checks.shown(config.model.options, 200)}): {error}") from None
    return _with_options(config, options)


def restore(tree: Mapping[str, Any]) -> Config:
    """The configuration that this or an earlier version stored, with the values that the stored run had."""
    config = from_dict(unflatten(ADDED_SETTINGS | dict(flatten(tree))))
    method, options = config.model.method, config.model.options
    if "kernel" not in options:  # always there for GHS since options are stored in full
        options = first_options(method, options)
    return resolve(_with_options(config, ADDED_OPTIONS.get(method, {}) | options))


def _with_options(config: Config, options: dict[str, Any]) -> Config:
    return dataclasses.replace(config, model=dataclasses.replace(config.model, options=options))
