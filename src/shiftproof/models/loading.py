"""Networks by the name of their maker, weights from a file, converted networks into a file."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof.conversion.converter import conversion_report, convert
from shiftproof.safe_io.torch_files import load_plain

FORMATS = (".pt2", ".onnx")


def load_model(source: str, weights: Path | None = None) -> nn.Module:
    """The network that `module:factory` (any Python module) or `timm:NAME` makes, with weights from a file.

    The factory is called without arguments; a network itself will do as well. Weights are a `state_dict`, as
    safetensors or as torch stores it; nothing in the file is executed.
    """
    if source.lower().endswith(FORMATS):
        raise ValueError(
            f"{source}: exported programs and ONNX files can be measured, not converted: their strides are frozen. "
            f"Convert the Python network, as `module:factory`."
        )
    module, _, name = source.partition(":")
    if not module or not name:
        raise ValueError(f"{source!r} must be `module:factory` or `timm:NAME`.")
    if module == "timm":
        try:
            timm = importlib.import_module("timm")
        except RuntimeError as error:  # its torchvision does not fit the torch that is here
            raise ValueError(f"timm is installed but cannot be imported: {error}") from error
        if name not in timm.list_models():
            raise ValueError(f"timm knows no network {name!r}.")
        model = timm.create_model(name)
    else:
        model = _from_module(module, name)
    if weights is not None:
        try:
            model.load_state_dict(load_weights(weights))
        except RuntimeError as error:
            raise ValueError(f"{weights}: does not fit {source}: {error}") from error
    return model.eval()  # type: ignore[no-any-return]


def _from_module(module: str, name: str) -> nn.Module:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` would
    try:
        made = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is not None and module.startswith(error.name):
            raise ValueError(f"{module}: no such module here or among the installed ones.") from error
        raise
    except AttributeError as error:
        raise ValueError(f"{module} has no {name!r}.") from error
    if not isinstance(made, nn.Module) and callable(made):
        made = made()
    if not isinstance(made, nn.Module):
        raise ValueError(f"{module}:{name} makes a {type(made).__name__}, not a torch.nn.Module.")
    return made


def load_weights(path: Path) -> dict[str, Tensor]:
    """A `state_dict` from safetensors or from torch's format, read without executing anything."""
    with path.open("rb"):  # missing or unreadable: the system's own words
        pass
    try:
        if path.suffix == ".safetensors":
            loaded: Any = importlib.import_module("safetensors.torch").load_file(path)
        else:
            with path.open("rb") as file:
                loaded = load_plain(file)
    except Exception as error:  # both have many, most of them internal
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"{path}: no weights that can be read safely ({reason[:200]})") from error
    if isinstance(loaded, dict) and isinstance(loaded.get("state_dict"), dict):
        loaded = loaded["state_dict"]
    named = isinstance(loaded, dict) and all(isinstance(k, str) and isinstance(v, Tensor) for k, v in loaded.items())
    if not named:
        raise ValueError(f"{path}: must hold a state_dict, names and tensors.")
    return loaded  # type: ignore[no-any-return]


def save_model(model: nn.Module, x: Tensor, path: Path) -> None:
    """Export a network for inputs of the size of `x` and any batch, as `.pt2` or `.onnx`; renamed when whole."""
    part = path.with_name(f".{path.name}.part{path.suffix}")
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        program = torch.export.export(model.eval(), (x,), dynamic_shapes=shapes)
        if path.suffix == ".pt2":
            torch.export.save(program, part)
        else:
            exported = torch.onnx.export(program, (x,), dynamo=True, verbose=False)
            assert exported is not None
            exported.save(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def run(
    source: str,
    weights: Path | None,
    method: str,
    padding: str,
    size: list[int] | None,
    loose: bool,
    out: Path | None,
    as_json: bool,
) -> int:
    """`shiftproof convert`: convert, print the report, write the file."""
    if out is not None and out.suffix not in FORMATS:
        raise ValueError(f"{out}: must end in {' or '.join(FORMATS)}.")
    model = load_model(source, weights)
    x = None
    if size is not None:
        height, width = size if len(size) == 2 else size * 2
        first = next((p for p in model.parameters() if p.dim() == 4), None)
        x = torch.rand(2, 3 if first is None else first.shape[1], height, width)
    new = convert(model, method, None if padding == "keep" else padding, example=x, strict=not loose)
    report = conversion_report(new)
    if out is not None:
        shape = tuple(report.example) if x is None else x.shape
        save_model(new, torch.rand(shape), out)
    if as_json:
        print(json.dumps(report.to_dict() | {"source": source, "file": None if out is None else str(out)}, indent=2))
        return 0
    try:
        from rich.console import Console

        console = Console()
        Console(width=max(console.width, 140) if not console.is_terminal else None).print(report.table())
    except ModuleNotFoundError:
        print(report)
    if out is not None:
        print(f"wrote {out}, for inputs of size {shape[2]} x {shape[3]}")
    return 0
