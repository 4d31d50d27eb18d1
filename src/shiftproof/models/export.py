"""Write a network to a file that other programs can run."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

FORMATS = (".pt2", ".onnx")


def save_model(model: nn.Module, x: Tensor, path: Path) -> None:
    """Export a network for inputs of the size of `x` and any batch, as `.pt2` or `.onnx`; no file is left half done."""
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
