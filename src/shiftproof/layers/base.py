"""The protocol every downsampling method follows, and the registry that knows them by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import Tensor, nn

from shiftproof import checks
from shiftproof.maps import shifts

LAWS = ("exact-invariant", "equivariant", "none")

Factory = Callable[..., "Downsample"]
_COMMON = ("channels", "stride", "padding", "ndim")
_registry: dict[str, tuple[Factory, Callable[..., object]]] = {}
F = TypeVar("F", bound=Factory)


class Downsample(nn.Module):
    """A layer that makes maps smaller: (B, C, d1..dn) -> (B, C, ceil(d1/s1)..ceil(dn/sn)).

    `select(x)` takes the data-dependent decision of the method (a pivot, a polyphase index, or None), and
    `forward(x, selection=None)` applies it, so that branches which meet again can share one decision. `law` names
    the shift law the method claims, one of `LAWS`.
    """

    law: str = "none"
    padding: str | None = None
    in_convolution = False  # whether a network may give the stride to the convolution before the layer instead

    def __init__(self, stride: int | Sequence[int] = 2, ndim: int = 2, padding: str | None = None) -> None:
        super().__init__()
        self.ndim = checks.dimensions(ndim)
        self.stride = checks.per_axis("stride", stride, ndim)
        if padding is not None:
            self.padding = checks.choice("padding", padding, shifts.BORDERS)

    def select(self, x: Tensor, *companions: Tensor) -> Tensor | None:
        """The decision for `x`; `companions` are the maps of other branches that will share it."""
        return None

    @property
    def selects(self) -> bool:
        """Whether the method takes a decision that branches can share."""
        return type(self).select is not Downsample.select

    def split(self) -> tuple[nn.Module | None, Downsample]:
        """What to do to the input of a network once (or None), and the layer to use at each place inside it."""
        return None, self

    def progress(self, done: float) -> None:
        """Training tells the share of its steps that is done, from 0 to 1; methods with a schedule follow it."""

    def extra_repr(self) -> str:
        """Stride and padding, then whatever options the method adds."""
        stride = self.stride[0] if len(set(self.stride)) == 1 else self.stride
        words = [] if "output_size" in self.options() else [f"stride={stride}"]
        if self.ndim != 2:
            words.append(f"ndim={self.ndim}")
        if self.padding is not None:
            words.append(f"padding={self.padding!r}")
        return ", ".join(words + [f"{k}={v!r}" for k, v in self.options().items()])

    def options(self) -> dict[str, Any]:
        """The options worth showing in the `repr`."""
        return {}


def register_method(name: str, options_of: Callable[..., object] | None = None) -> Callable[[F], F]:
    """Class decorator: make a downsampling method known under `name`, for `create_downsample` and all that use it.

    What it decorates is called with `channels`, `stride`, `padding`, `ndim` and the user's options as keywords. A
    function that hands its options on names in `options_of` to whom.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"`name` (={checks.shown(name)}) must be a non-empty string: use `@register_method('mine')`.")

    def register(factory: F) -> F:
        if name in _registry and _registry[name][0] is not factory:
            raise ValueError(f"`name` (={name!r}) is taken by {_registry[name][0].__qualname__}: choose another.")
        _registry[name] = factory, options_of or factory
        return factory

    return register


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
    if isinstance(method, str):
        factory, options_of = _registry[checks.choice("method", method, _registry)]
    elif callable(method):
        factory, options_of = method, method
    else:
        raise TypeError(
            f"`method` (={checks.shown(method)}) must be a name or a callable, not {type(method).__name__}."
        )
    channels = checks.integer("channels", channels)
    checks.choice("padding", padding, shifts.BORDERS)
    known_options = inspect.signature(options_of).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in known_options.values())
    for name in options:
        if name not in known_options and not anything:
            listed = ", ".join(p for p in known_options if p not in _COMMON)
            raise TypeError(f"method {method!r} has no option `{name}`; its options are {listed or 'none'}.")
    return factory(channels=channels, stride=stride, padding=padding, ndim=ndim, **options)
