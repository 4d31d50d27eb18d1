"""What tests of exported layers and networks share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

DYNAMIC = getattr(torch.export.Dim, "DYNAMIC", None)  # torch 2.4 has none, see `make oldest`
quiet = [
    # torch's compilers and exporters warn about themselves
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:Exporting a model while it is in training mode"),
]


def to_onnx(layer: nn.Module | torch.export.ExportedProgram, x: Tensor, path: Path) -> Callable[[Tensor], Tensor]:
    """The layer as onnxruntime runs it, with a dynamic batch."""
    import onnxruntime

    shapes: dict[str, Any] = {"dynamic_shapes": ({0: DYNAMIC},)} if isinstance(layer, nn.Module) else {}
    program = torch.onnx.export(layer, (x,), dynamo=True, verbose=False, **shapes)
    assert program is not None
    program.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda t: torch.from_numpy(session.run(None, {name: t.numpy()})[0])
