"""Downsampling methods by name: how a method is registered, created, and its options written down in full."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from shiftproof import checks
from shiftproof.ghs.kernel import Kernel, parse_kernel
from shiftproof.layers.base import Downsample
from shiftproof.maps.padding import BORDERS

Factory = Callable[..., Downsample]
F = TypeVar("F", bound=Factory)
_COMMON = ("channels", "stride", "padding", "ndim")
_WRITTEN = (bool, int, float, str, tuple, list, type(None), Kernel)  # what a text can stand for


class _Method(NamedTuple):
    """A registered method: what makes its layers, and the options it takes with their defaults."""

    factory: Factory
    options: Mapping[str, Any]
    passes_on: bool  # whether it hands options it does not know to another method


_registry: dict[str, _Method] = {}


def register_method(
    name: str, options_of: Callable[..., object] | None = None, defaults: Mapping[str, Any] | None = None
) -> Callable[[F], F]:
    """Class decorator: make a downsampling method known under `name`, for `create_downsample` and all that use it.

    What it decorates is called with `channels`, `stride`, `padding`, `ndim` and the user's options as keywords. A
    function that only hands its options on names the class that takes them in `options_of`, and in `defaults` those
    that differ from that class's own.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"`name` (={checks.shown(name)}) must be a non-empty string: use `@register_method('mine')`.")

    def register(factory: F) -> F:
        if name in _registry and _registry[name].factory is not factory:
            raise ValueError(f"`name` (={name!r}) is taken by {_registry[name].factory.__qualname__}: choose another.")
        _registry[name] = _describe(factory, options_of or factory, defaults or {})
        return factory

    return register


def _describe(factory: Factory, options_of: Callable[..., object], defaults: Mapping[str, Any]) -> _Method:
    parameters = inspect.signature(options_of).parameters
    options = {p.name: p.default for p in parameters.values() if p.kind is not p.VAR_KEYWORD and p.name not in _COMMON}
    return _Method(factory, options | dict(defaults), any(p.kind is p.VAR_KEYWORD for p in parameters.values()))


def _find(method: str | Factory) -> _Method:
    if isinstance(method, str):
        return _registry[checks.choice("method", method, _registry)]
    if callable(method):
        return _describe(method, method, {})
    raise TypeError(f"`method` (={checks.shown(method)}) must be a name or a callable, not {type(method).__name__}.")


def methods() -> list[str]:
    """The names of all registered methods, in order of registration."""
    return list(_registry)


def create_downsample(
    method: str | Factory,
    channels: int,
    stride: int | Sequence[int] = 2,
    padding: str = "circular",
    ndim: int = 2,
    **options: Any,
) -> Downsample:
    """A downsampling layer by name, or from a class or function with the same keywords.

    >>> create_downsample("lpf", channels=64)
    BlurPool(stride=2, padding='circular', taps=3)
    """
    found = _find(method)
    channels = checks.integer("channels", channels)
    checks.choice("padding", padding, BORDERS)
    for name in options:
        if name not in found.options and not found.passes_on:
            listed = ", ".join(found.options)
            raise TypeError(f"method {method!r} has no option `{name}`; its options are {listed or 'none'}.")
    return found.factory(channels=channels, stride=stride, padding=padding, ndim=ndim, **options)


def resolve_options(method: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Every option of a method with the value it takes, defaults included, as JSON can hold it.

    Two sets of options that mean the same resolve to the same; a later change of a default changes nothing that was
    resolved before. A layer that is made with the resolved options is the same layer, so a default that has no text,
    such as a function, is left out.

    >>> resolve_options("lpf", {"taps": 5})
    {'taps': 5, 'dense_max': 1}
    """
    options = dict(options or {})
    create_downsample(method, 8, **options)  # wrong names and values are refused
    found = _registry[method]
    mine = {k: v for k, v in found.options.items() if k in options or isinstance(v, _WRITTEN)}
    mine |= {k: v for k, v in options.items() if k in found.options}
    handed_on = {k: v for k, v in options.items() if k not in found.options}
    inner = resolve_options(mine["inner"], handed_on) if found.passes_on and "inner" in mine else handed_on
    kernels = {k: parse_kernel(v) for k, v in mine.items() if isinstance(found.options[k], Kernel)}
    return inner | {name: _plain(name, value) for name, value in (mine | kernels).items()}


def _plain(option: str, value: Any) -> Any:
    """Numbers, words and lists as they are; a kernel as its text; a function as its name."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (tuple, list)):
        return [_plain(option, v) for v in value]
    return _import_name(option, value) if callable(value) else str(value)


def _import_name(option: str, function: Callable[..., object]) -> str:
    """`module.name`, where an import of it gives this very function; no two functions have the same."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    try:
        found = pkgutil.resolve_name(f"{module}:{name}")
    except (ImportError, AttributeError, ValueError):
        found = None
    if found is not function or module == "__main__":
        raise ValueError(
            f"`{option}` (={checks.shown(function)}) must be a function that can be imported by its name: define it "
            "with `def` at the top of a module. Others, such as lambdas, cannot be told apart by their names."
        )
    return f"{module}.{name}"
