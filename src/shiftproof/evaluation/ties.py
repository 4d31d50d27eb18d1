"""How often the largest value of a map, which the paper takes for its pivot, occurs more than once in real networks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof.evaluation.classifier import Classifier
from shiftproof.evaluation.statistics import hits
from shiftproof.layers.base import Downsample

Listener = Callable[[str, Tensor], None]


def tied(x: Tensor) -> Tensor:
    """Whether several positions share the largest value over all channels, per sample. (B, C, ...) -> (B,)"""
    best = x.amax(1).flatten(1)
    return (best == best.amax(1, keepdim=True)).sum(1) > 1


def measure_ties(f: Classifier, model: nn.Module, images: Tensor) -> dict[str, Any]:
    """The share of images (N, C, H, W) with a tied maximum, in the `input` and by layer that looks for a pivot.

    `any`: in the input or in one of these layers. A layer that serves two branches looks at the main one.
    """
    count, seen = images.shape[0], dict[str, list[Tensor]]()

    def listen(name: str, x: Tensor) -> None:
        seen.setdefault(name, []).append(tied(x.detach()).cpu())

    def at_input(x: Tensor, _: slice) -> Tensor:
        listen("input", x)
        return x

    with listening(model, listen):
        f.scores(images, at_input, "consistency: ties")
    layers = {name: torch.cat(parts)[:count] for name, parts in seen.items()}
    found = {name: hits(ties).to_dict() for name, ties in layers.items()}
    some = torch.stack(list(layers.values())).any(0)
    return {"input": found.pop("input"), "any": hits(some).to_dict(), "layers": found}


@contextlib.contextmanager
def listening(model: nn.Module, listen: Listener) -> Iterator[None]:
    """Tell `listen` of each map in which a layer of the network looks for its selection, with the layer's name."""
    hooks, layers = [], list[Downsample]()
    for name, layer in model.named_modules():
        if not isinstance(layer, Downsample) or not layer.selects:
            continue

        def select(x: Tensor, *companions: Tensor, name: str = name, own: Any = layer.select) -> Any:
            listen(name, x)
            return own(x, *companions)

        def before(_: nn.Module, arguments: tuple[Any, ...], name: str = name) -> None:
            if len(arguments) == 1:  # without a selection: the layer looks for its own
                listen(name, arguments[0])

        layers.append(layer)
        layer.select = select  # type: ignore[method-assign]
        hooks.append(layer.register_forward_pre_hook(before))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for layer in layers:
            del layer.select
