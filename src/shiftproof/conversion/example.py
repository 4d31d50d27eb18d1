"""Inputs to convert and check a network with."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from shiftproof import checks
from shiftproof.conversion.error import ConversionError
from shiftproof.invariance.trials import copy_of

_SIZES = (64, 224, 32, 28, 128)  # tried in turn if the caller gives no example


@dataclass(frozen=True)
class Inputs:
    """What a network is called with: values in order, then by name; tensors and whatever else it takes.

    The maps are the tensors of the same kind as the first map: with its number of axes and its sizes. They show one
    scene, and move together.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @classmethod
    def of(cls, model: nn.Module, example: Any) -> Inputs:
        """The inputs that a caller gave: a tensor, a tuple in the order of the arguments, or a dictionary by name."""
        if isinstance(example, Inputs):
            return example
        if isinstance(example, Mapping):
            known = list(inspect.signature(model.forward).parameters)
            place = {name: i for i, name in enumerate(known)}
            found = cls((), {k: example[k] for k in sorted(example, key=lambda k: place.get(k, len(place)))})
        else:
            found = cls(tuple(example) if isinstance(example, (tuple, list)) else (example,), {})
        for value in (*found.args, *found.kwargs.values()):
            if isinstance(value, (Mapping, list, tuple)):
                raise ConversionError(
                    f"`example` gives the network a {type(value).__name__} of inputs as one argument.",
                    "Wrap the network in a module whose `forward` takes each tensor by itself.",
                )
        if found.tensors and not any(_is_map(t) for t in found.tensors):
            if len(found.tensors) == 1:
                checks.floating("example", found.tensors[0])
            shapes = ", ".join(str(tuple(t.shape)) for t in found.tensors)
            raise ValueError(f"`example` (shape {shapes}) must be a batch of inputs (B, C, H, W).")
        if not found.tensors:
            checks.floating("example", example)
        return found

    @property
    def tensors(self) -> list[Tensor]:
        """In order; the graph of the network has one input for each."""
        return [v for v in (*self.args, *self.kwargs.values()) if isinstance(v, Tensor)]

    @property
    def first(self) -> Tensor:
        """The first map."""
        return next(t for t in self.tensors if _is_map(t))

    def moves(self, t: Tensor) -> bool:
        """Whether a tensor is one of the maps."""
        return _is_map(t) and t.shape[2:] == self.first.shape[2:]

    def change(self, f: Callable[[Tensor], Tensor]) -> Inputs:
        """The same inputs with every tensor changed."""
        new: Callable[[Any], Any] = lambda v: f(v) if isinstance(v, Tensor) else v  # noqa: E731
        return Inputs(tuple(map(new, self.args)), {k: new(v) for k, v in self.kwargs.items()})

    def call(self, network: Callable[..., Any]) -> Any:
        """What a network of Python code answers; it gets copies, which it may change."""
        fresh = self.change(copy_of)
        return network(*fresh.args, **fresh.kwargs)

    def run(self, graph: Callable[..., Any]) -> Any:
        """What the graph of a network answers, which takes the tensors alone."""
        return graph(*map(copy_of, self.tensors))

    def shifted(self, shift: Sequence[int]) -> Inputs:
        """The same inputs with their maps rolled."""
        dims = tuple(range(2, self.first.dim()))
        return self.change(lambda t: copy_of(t, shift[: len(dims)], dims) if self.moves(t) else t)

    def one_more(self) -> Inputs:
        """With one more sample in the batch."""
        return self.change(lambda t: torch.cat([t, t[:1]]) if t.dim() and len(t) == len(self.first) else t)

    def larger(self) -> Inputs:
        """One sample of larger maps."""

        def grown(t: Tensor) -> Tensor:
            if self.moves(t):
                return torch.rand(1, t.shape[1], *(n + 32 for n in t.shape[2:]), dtype=t.dtype, device=t.device)
            return t[:1] if t.dim() and len(t) == len(self.first) else t

        return self.change(grown)


def _is_map(t: Tensor) -> bool:
    return t.is_floating_point() and t.dim() >= 3


def input_layout(model: nn.Module) -> tuple[int, int]:
    """The number of channels and of spatial axes of a network's input, from its first convolution."""
    first = next((m for m in model.modules() if isinstance(m, _ConvNd)), None)
    return (3, 2) if first is None else (first.in_channels, len(first.kernel_size))


def random_inputs(model: nn.Module, sizes: Sequence[int]) -> Tensor:
    """A batch of two, the same in every call, in the dtype and on the device of the parameters. (2, C, *sizes)"""
    x = torch.rand(2, input_layout(model)[0], *sizes, generator=torch.Generator().manual_seed(0))
    return x.to(next(model.parameters(), x))


def find_inputs(model: nn.Module, example: Any) -> Inputs:
    """Inputs that the network accepts in evaluation: `example` if there is one."""
    if example is not None:
        candidates = [Inputs.of(model, example)]
    else:
        sizes = ([size] * input_layout(model)[1] for size in _SIZES)
        candidates = [Inputs((random_inputs(model, size),), {}) for size in sizes]
    errors = []
    network = copy_in_evaluation(model)
    for inputs in candidates:
        try:
            with torch.no_grad():
                inputs.call(network)
            return inputs
        except Exception as error:  # whatever the network raises
            shapes = ", ".join(str(tuple(t.shape)) for t in inputs.tensors)
            errors.append(f"{shapes}: {next(iter(str(error).splitlines()), type(error).__name__)}")
            cause = error
    raise ConversionError(
        f"the network fails on inputs of shape {'; '.join(errors)}.", "Choose inputs that fit with `example`."
    ) from cause


def copy_in_evaluation(model: nn.Module) -> nn.Module:
    """A copy of a network, in evaluation mode."""
    if isinstance(model, torch.jit.ScriptModule):
        raise ConversionError(
            f"{type(model).__name__} is compiled by TorchScript.", "Convert the Python network that it was made from."
        )
    try:
        return copy.deepcopy(model).eval()
    except Exception as error:  # whatever the parts of the network raise
        raise ConversionError(
            f"the network cannot be copied: {checks.one_line(error)}",
            "If it has weights made by hooks, as `torch.nn.utils.weight_norm` makes them, remove those, or use "
            "`torch.nn.utils.parametrizations`.",
        ) from error
