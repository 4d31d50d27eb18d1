"""Networks by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from shiftproof import checks
from shiftproof.layers import Downsample, create_downsample
from shiftproof.models import resnet
from shiftproof.models.pretrained import load_pretrained


def _e2(make: resnet.Make, **keywords: Any) -> nn.Module:
    from shiftproof.models.e2 import E2SFCNN  # needs the package e2cnn

    return E2SFCNN(make, **keywords)


_MODELS: dict[str, Callable[..., nn.Module]] = {**resnet.RESNETS, "e2": _e2}


def models() -> list[str]:
    """The names of all networks."""
    return list(_MODELS)


def create_model(
    name: str,
    method: str | Callable[..., Downsample] = "ghs",
    num_classes: int = 10,
    *,
    in_channels: int = 3,
    padding: str = "circular",
    stem: str = "cifar",
    head: str = "pool",
    size: int | Sequence[int] = 32,
    share: bool = True,
    width: float = 1.0,
    geometry: str = "circular",
    front: bool | None = None,
    subpixel: bool = False,
    weights: str | None = None,
    **options: Any,
) -> nn.Module:
    """A network by name that uses a downsampling method.

    `resnet8`, `resnet18`, `resnet20`, `resnet50` and `resnet56` are residual networks, `e2` is described below.
    `method` and its `options` are those of `create_downsample`; `padding` is for convolutions and method alike.
    `stem="cifar"` is a 3 x 3 convolution, `"imagenet"` a 7 x 7 convolution and a maximum, both downsampled by the
    method. `head="pool"` takes the mean over positions, `"flatten"` lets the classifier see them all, for inputs of
    one `size`. `share=False` gives the two branches of a block a selection each (for ablation).

    `e2` is the rotation-equivariant network for MNIST-rot (see `models.e2`; it needs the extra `e2`). It takes
    none of these three, but a `width` that scales its layers, and a `geometry`, `"circular"` or `"reference"`, that
    says how its convolutions are padded.

    A network that is exactly invariant rolls its input to its own pivot first (`layers.RollToPivot`), so that every
    circular shift gives the same bits on any device. `front=False` leaves that out: then logits change by rounding.
    `front=True` adds it to one that is invariant to rounding, such as `aps`. `subpixel=True` makes the front take the
    fraction of a pixel out too: then circular shifts by any real amount give the same answer.

    `weights` names a data set: the network comes trained on it, if the package has such weights (see
    `models.pretrained.available`). Normalise the images as that data set does.

    >>> import torch
    >>> model = create_model("resnet20", method="ghs", num_classes=10)
    >>> sum(p.numel() for p in model.parameters())
    272474
    >>> model(torch.rand(2, 3, 30, 33)).shape
    torch.Size([2, 10])
    """
    checks.choice("name", name, _MODELS)

    def make(channels: int, stride: int) -> Downsample:
        return create_downsample(method, channels, stride, padding, **options)

    keywords: dict[str, Any] = {"stem": stem, "head": head, "share": share}
    others: dict[str, Any] = {"width": width, "geometry": geometry}
    if name == "e2":
        keywords, others = others, keywords
    else:
        keywords |= {"padding": padding, "size": size}
    keywords |= {"front": front, "subpixel": subpixel}
    for key, value in others.items():
        if value != inspect.signature(create_model).parameters[key].default:
            raise ValueError(
                f"`{key}` (={checks.shown(value)}) is not an argument of the network {name!r}: leave it out."
            )
    model = _MODELS[name](
        make,
        num_classes=checks.integer("num_classes", num_classes),
        in_channels=checks.integer("in_channels", in_channels),
        **keywords,
    )
    if weights is not None:
        try:
            model.load_state_dict(load_pretrained(f"{name}-{method}-{weights}"))
        except RuntimeError as error:
            raise ValueError(f"`weights` (={weights!r}) do not fit this network: {error}") from None
    return model
