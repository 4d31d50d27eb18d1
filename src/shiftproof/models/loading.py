"""Networks by the name of the Python function that makes them, and weights from a file."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof import checks
from shiftproof.models.export import FORMATS
from shiftproof.safe_io.torch_files import load_plain


def load_model(source: str, weights: Path | None = None) -> nn.Module:
    """The network that `module:factory` (any Python module) or `timm:NAME` makes, with weights from a file.

    The factory is called without arguments; it may also be a network itself. Weights are a `state_dict` in safetensors
    or in torch's format; nothing in the file is executed.
    """
    check_there(source)
    if source.lower().endswith(FORMATS):
        raise ValueError(
            f"{source}: exported programs and ONNX files can be measured, not converted: their strides are fixed. "
            f"Convert the Python network, as `module:factory`."
        )
    module, _, name = source.partition(":")
    if not module or not name:
        raise ValueError(f"{source!r} must be `module:factory` or `timm:NAME`.")
    model = _from_timm(name) if module == "timm" else _from_module(module, name)
    if weights is not None:
        try:
            model.load_state_dict(load_weights(weights))
        except RuntimeError as error:
            raise ValueError(f"{weights}: does not fit {source}: {checks.one_line(error)}") from error
    return model.eval()


def check_there(source: str) -> None:
    """A `source` that is written like a path, with a folder or an extension, must exist; FileNotFoundError if not."""
    path = Path(source)
    if ":" not in source and (path.suffix or path.parent.name) and not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)


def _from_timm(name: str) -> nn.Module:
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
        raise ValueError(f"timm knows no network {name!r}: `timm.list_models()` lists those it knows.")
    return timm.create_model(name)  # type: ignore[no-any-return]


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
    """A `state_dict` from safetensors or from torch's format, read without executing anything."""
    with path.open("rb") as file:  # a missing or unreadable file raises the system's own error
        try:
            if path.suffix == ".safetensors":
                loaded: Any = importlib.import_module("safetensors.torch").load_file(path)
            else:
                loaded = load_plain(file)
        except Exception as error:  # both have many, most of them internal
            raise ValueError(f"{path}: no weights that can be read safely ({checks.one_line(error)})") from error
    if isinstance(loaded, dict) and isinstance(loaded.get("state_dict"), dict):
        loaded = loaded["state_dict"]
    named = isinstance(loaded, dict) and all(isinstance(k, str) and isinstance(v, Tensor) for k, v in loaded.items())
    if not named:
        raise ValueError(f"{path}: must hold a state_dict, names and tensors.")
    return loaded  # type: ignore[no-any-return]
