"""Networks from elsewhere: a Python function that makes one, timm, public CIFAR networks; weights from files."""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof import checks, progress
from shiftproof.models.cifar import CIFAR_RESNETS, published_file
from shiftproof.models.export import FORMATS
from shiftproof.safe_io.torch_files import load_plain

_PARALLEL = "module."  # what `DataParallel` puts before every name
LIBRARIES = ("timm", "cifar")  # whose networks have names


def load_model(source: str, weights: str | Path | None = None, *, pretrained: bool = False) -> nn.Module:
    """The network that `module:factory` (any Python module), `timm:NAME` or `cifar:NAME` makes, in evaluation mode.

    The factory is called without arguments; it may also be a network itself. `cifar:resnet20` is the ResNet-20 for
    CIFAR-10 of public weights (`models.cifar`). A name alone, such as `resnet18`, is one of timm.

    `weights`: a file with a `state_dict`, in safetensors or torch's format; nothing in the file is executed.
    `pretrained`: with the weights that timm, or `models.cifar`, knows of; they are downloaded once.
    Without either, networks of timm and `cifar` have random weights (`has_random_weights`).

    >>> model = load_model("cifar:resnet20")  # with weights: `load_model("cifar:resnet20", pretrained=True)`
    >>> model.linear.out_features
    10
    """
    source = full_source(source)
    module, _, name = source.partition(":")
    if pretrained and (weights is not None or module not in LIBRARIES):
        why = f"{weights} has others" if weights is not None else f"{source} knows no published weights"
        raise ValueError(f"`pretrained=True` is for networks of timm and cifar, without a file of weights: {why}.")
    if module == "cifar":
        model: nn.Module = CIFAR_RESNETS[checks.choice("cifar", name, CIFAR_RESNETS)]()
        weights = published_file(name) if pretrained else weights
    else:
        model = _from_timm(name, pretrained) if module == "timm" else _from_module(module, name)
    if weights is not None:
        put_weights(model, load_weights(Path(weights)), str(weights), source)
    return model.eval()


def full_source(source: str) -> str:
    """`source` as `module:factory` or `timm:NAME`; a name alone is that of timm."""
    check_there(source)
    if source.lower().endswith(FORMATS):
        raise ValueError(
            f"{source}: exported programs and ONNX files can be measured, not converted: their strides are fixed. "
            f"Convert the Python network, as `module:factory`."
        )
    module, colon, name = source.partition(":")
    if not colon and re.fullmatch(r"\w[\w.-]*", source) and "/" not in source:
        return f"timm:{source}"
    if not module or not name:
        raise ValueError(f"{source!r} must be `module:factory`, `timm:NAME` or `cifar:NAME`.")
    return source


def has_random_weights(source: str, weights: object, pretrained: bool) -> bool:
    """Whether a network that `load_model` makes has random weights; a factory of the user's is taken at its word."""
    named = full_source(source).partition(":")[0] in LIBRARIES
    return named and weights is None and not pretrained


def describe_weights(source: str, weights: object, pretrained: bool) -> str:
    """Which weights a network that `load_model` makes has, for results; random ones are announced at once."""
    if has_random_weights(source, weights, pretrained):
        progress.warn(f"{source} has RANDOM weights: take published ones, or name a file of weights.")
        return "random"
    return "published" if pretrained else "its own" if weights is None else str(weights)


def put_weights(model: nn.Module, tensors: Mapping[str, Tensor], origin: str, source: str) -> None:
    """Load tensors into a network; where they do not fit, the error names the first ones that differ.

    If all names have the prefix that `DataParallel` gives them, they lose it.
    """
    own = model.state_dict()
    if tensors and all(name.startswith(_PARALLEL) and name not in own for name in tensors):
        tensors = {name.removeprefix(_PARALLEL): tensor for name, tensor in tensors.items()}
    counters = {k for k in own if k.endswith("num_batches_tracked")}  # not in files from before torch 0.4.1
    differ = [
        f"`{k}` is {tuple(tensors[k].shape)} there and {tuple(v.shape)} in the network"
        for k, v in own.items()
        if k in tensors and tensors[k].shape != v.shape
    ]
    lacks = [f"`{k}`" for k in own if k not in tensors and k not in counters]
    unknown = [f"`{k}`" for k in tensors if k not in own]
    problems = [_first("", differ), _first("the file lacks ", lacks), _first("the network has no ", unknown)]
    if any(problems):
        raise ValueError(f"{origin}: does not fit {source}: {'; '.join(filter(None, problems))}.")
    model.load_state_dict(dict(tensors), strict=False)


def _first(words: str, names: list[str], limit: int = 3) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{words}{', '.join(names[:limit])}{more}" if names else ""


def input_settings(model: nn.Module) -> dict[str, Any]:
    """What a network says of its inputs, as those of timm do: `input_size` (C, H, W), `mean` and `std`; or nothing."""
    known = getattr(model, "pretrained_cfg", None)
    known = known if isinstance(known, Mapping) else {}
    return {k: tuple(known[k]) for k in ("input_size", "mean", "std") if known.get(k)}


def check_there(source: str) -> None:
    """A `source` that is written like a path, with a folder or an extension, must exist; FileNotFoundError if not."""
    path = Path(source)
    if ":" not in source and (path.suffix or path.parent.name) and not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)


def _from_timm(name: str, pretrained: bool) -> nn.Module:
    try:
        timm: Any = importlib.import_module("timm")
    except ModuleNotFoundError:
        raise
    except (ImportError, OSError, RuntimeError) as error:
        raise ValueError(
            f"timm:{name}: timm cannot be imported ({error}): the torchvision here was not built for the installed "
            f"torch {torch.__version__}. Reinstall both from one place, with `pip install --force-reinstall torch "
            "torchvision`, for builds without a GPU with the `--index-url` that pytorch.org gives for CPU. Or build "
            "the network without timm and name it as `module:factory`."
        ) from error
    if name not in timm.list_models():
        near = difflib.get_close_matches(name, timm.list_models(), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"timm knows no network {name!r}: `timm.list_models()` lists those it knows.{hint} A network of your "
            "own is named `module:factory`, a public one for CIFAR-10 `cifar:resnet20`."
        )
    try:
        return timm.create_model(name, pretrained=pretrained)  # type: ignore[no-any-return]
    except Exception as error:  # whatever the download raises
        if not pretrained:
            raise
        raise ValueError(
            f"timm:{name}: no published weights could be had ({checks.one_line(error)}). Name a file of weights."
        ) from error


def _from_module(module: str, name: str) -> nn.Module:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` would
    try:
        made = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is not None and module.startswith(error.name):
            raise ValueError(f"{module}: no such module in this folder or among the installed ones.") from error
        raise
    except AttributeError as error:
        raise ValueError(f"{module} has no {name!r}.") from error
    if not isinstance(made, nn.Module) and callable(made):
        try:
            made = made()
        except Exception as error:  # whatever the user's code raises
            raise ValueError(f"{module}:{name} failed: {type(error).__name__}: {checks.one_line(error)}") from error
    if not isinstance(made, nn.Module):
        raise ValueError(f"{module}:{name} makes a {type(made).__name__}, not a torch.nn.Module.")
    return made


def load_weights(path: Path) -> dict[str, Tensor]:
    """A `state_dict` from safetensors or from torch's format, read without executing anything.

    In a checkpoint it may lie beside other things.
    """
    with path.open("rb") as file:  # a missing or unreadable file raises the system's own error
        try:
            if path.suffix == ".safetensors":
                loaded: Any = importlib.import_module("safetensors.torch").load_file(path)
            else:
                loaded = load_plain(file)
        except Exception as error:  # both have many, most of them internal
            raise ValueError(f"{path}: no weights that can be read safely ({checks.one_line(error)})") from error
    found = _state_dict(loaded)
    if found is None:
        raise ValueError(f"{path}: must hold a state_dict, names and tensors.")
    return found


def _state_dict(loaded: Any) -> dict[str, Tensor] | None:
    """The names and tensors in a file: all that it holds, its `state_dict`, or the one entry that is made of them."""

    def named(value: Any) -> bool:
        return isinstance(value, dict) and all(isinstance(k, str) and isinstance(v, Tensor) for k, v in value.items())

    if named(loaded):
        return loaded  # type: ignore[no-any-return]
    if not isinstance(loaded, dict):
        return None
    if named(loaded.get("state_dict")):
        return loaded["state_dict"]  # type: ignore[no-any-return]
    inside = [value for value in loaded.values() if value and named(value)]
    return inside[0] if len(inside) == 1 else None
