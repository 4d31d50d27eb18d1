"""The network of a run that comes from elsewhere: made, given as many classes as the data set has, converted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof import progress
from shiftproof.conversion import ConversionError, calibrate, convert
from shiftproof.models.cifar import sha256
from shiftproof.models.loading import describe_weights, load_model
from shiftproof.training.config import ModelConfig

# settings that mean nothing to a converted network, and those that mean nothing to one of ours
OURS = ("stem", "head", "share", "width", "geometry")
THEIRS = ("weights_sha256", "pretrained", "placement", "antialias", "calibrate")


def refuse(model: ModelConfig, names: Sequence[str]) -> dict[str, Any]:
    """The settings of a network without the named ones, which must be as they are by default."""
    usual = ModelConfig()
    for name in names:
        if (value := getattr(model, name)) != getattr(usual, name):
            whose = "a network from elsewhere" if model.converted else "a network of this package"
            raise ValueError(f"`{name}` (={value!r}) is no setting of {whose} such as {model.name!r}: leave it out.")
    return {name: value for name, value in vars(model).items() if name not in names}


def build(model: ModelConfig, classes: int, shape: Sequence[int], images: Tensor | None = None) -> nn.Module:
    """The network of a configuration for inputs (B, *shape), in evaluation mode.

    `images`: normalised inputs, for a run that begins: the network takes the weights that the configuration names, and
    is calibrated on these if it says so. Without, its weights are of no account.
    """
    settings = refuse(model, OURS)
    begins = images is not None
    if begins and model.weights is not None:
        found = sha256(Path(model.weights))
        if found != model.weights_sha256:
            raise ValueError(f"{model.weights}: has sha256 {found}; the run is configured for {model.weights_sha256}.")
    source = load_model(model.name, model.weights if begins else None, pretrained=begins and model.pretrained)
    x = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    new = set_classes(source, classes, x, model.name)
    if begins:
        describe_weights(model.name, model.weights, model.pretrained)  # warns of random ones
    if begins and new:
        progress.warn(f"{model.name}: its last layer `{new}` is new, for {classes} classes.")
    if model.method == "strided" and model.padding == "keep":
        return source  # as it is
    try:
        network = convert(
            source,
            model.method,
            None if model.padding == "keep" else model.padding,
            example=x,
            **{name: settings[name] for name in ("placement", "antialias", "subpixel")},
            **model.options,
        )
    except ConversionError as error:
        remedy = "" if "strict=False" in error.remedy else error.remedy  # nothing is guaranteed then
        raise ConversionError(f"{model.name}: {error.problem}", remedy, module=error.module) from error
    if images is not None and model.calibrate:
        network = calibrate(network, images[: model.calibrate], source)
    return network


def set_classes(model: nn.Module, classes: int, x: Tensor, name: str) -> str | None:
    """Give a classifier as many `classes`: the name of its last layer, if that had to be replaced by a random one."""
    try:
        with torch.no_grad():
            scores = model.eval()(x)
    except Exception as error:  # whatever the network raises
        raise ValueError(f"{name}: fails on images of shape {tuple(x.shape[1:])}: {error}") from error
    if not isinstance(scores, Tensor) or scores.dim() != 2:
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise ValueError(f"{name}: must be a classifier, whose output is (B, classes), not {got}.")
    if (count := scores.shape[1]) == classes:
        return None
    heads = [(path, m) for path, m in model.named_modules() if isinstance(m, nn.Linear) and m.out_features == count]
    if not heads:
        raise ValueError(
            f"{name}: has {count} classes and the data {classes}, and no last linear layer that could be replaced: "
            f"make the network with {classes} classes."
        )
    path, head = heads[-1]  # the last one
    model.set_submodule(path, nn.Linear(head.in_features, classes, head.bias is not None))
    return str(path)
