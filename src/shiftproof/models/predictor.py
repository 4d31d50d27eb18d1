"""A network from a file or a Python function, as a function from images to scores."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import shiftproof.layers  # noqa: F401  (registers the operators that exported networks may call)
from shiftproof import checks
from shiftproof.models.export import FORMATS
from shiftproof.models.loading import describe_weights, input_settings, load_model
from shiftproof.safe_io.torch_files import load_program

_ONNX_TYPES = {"tensor(float)": torch.float32, "tensor(double)": torch.float64, "tensor(float16)": torch.float16}


@dataclass(frozen=True)
class Predictor:
    """A function from images (B, C, H, W) to scores (B, classes), and what is known about its inputs.

    `channels` and `size` (height, width) are None if any will do. `batch` is the smallest and the largest batch that
    `function` accepts: larger ones are split, smaller ones are filled up with copies whose scores are dropped. If there
    are several outputs, the first one counts.
    """

    source: str
    function: Callable[[Tensor], Any]
    channels: int | None = None
    size: tuple[int, int] | None = None
    batch: tuple[int, int | None] = (1, None)
    dtype: torch.dtype = torch.float32
    inputs: Mapping[str, Any] = field(default_factory=dict)  # the usual ones, as in `loading.input_settings`
    weights: str = "its own"  # which ones it has, for results

    def __call__(self, x: Tensor) -> Tensor:
        """Scores of a batch of any size."""
        least, most = self.batch
        with torch.no_grad():
            parts = torch.split(x.to(self.dtype), most or max(1, len(x)))
            return torch.cat([self._scores(part, least) for part in parts])

    def _scores(self, x: Tensor, least: int) -> Tensor:
        count = len(x)
        filled = x if count >= least else x[torch.arange(least) % count]
        try:
            out = self.function(filled)
        except Exception as error:  # whatever the network raises
            raise ValueError(
                f"{self.source}: fails on images of shape {tuple(filled.shape)}: "
                f"{type(error).__name__}: {checks.one_line(error)}"
            ) from error
        if isinstance(out, (tuple, list)) and out:
            out = out[0]
        if not isinstance(out, Tensor) or out.dim() != 2 or len(out) != len(filled):
            got = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
            raise ValueError(f"{self.source}: must return scores ({len(filled)}, classes), not {got}.")
        return out[:count].float()


def load_predictor(source: str, weights: Path | None = None, pretrained: bool = False) -> Predictor:
    """The network in a `.pt2` or `.onnx` file, or the one `module:factory` or `timm:NAME` makes, with `weights`.

    Files are safe to load even if they come from a stranger: `safe_io.torch_files` vets exported programs, and ONNX is
    data that onnxruntime runs. A module is Python code and is executed, like any import.
    """
    if not source.lower().endswith(FORMATS):
        model = load_model(source, weights, pretrained=pretrained)
        first = next((p for p in model.parameters() if p.dim() == 4), None)
        channels = None if first is None else _colours(source, first.shape[1])
        which = describe_weights(source, weights, pretrained)
        return Predictor(source, model, channels, inputs=input_settings(model), weights=which)
    if weights is not None or pretrained:
        raise ValueError(f"{weights or 'published weights'}: {source} has its weights inside. Leave them out.")
    path = Path(source)
    with path.open("rb"):  # a missing or unreadable file raises the system's own error
        pass
    return _exported(path) if source.lower().endswith(".pt2") else _onnx(path)


def _exported(path: Path) -> Predictor:
    program = load_program(path)
    names = program.graph_signature.user_inputs
    inputs = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    if len(inputs) != 1 or not isinstance(inputs[0], Tensor) or inputs[0].dim() != 4:
        raise ValueError(
            f"{path}: must take one batch of images (B, C, H, W), not {len(inputs)} inputs of other kinds."
        )
    batch = inputs[0].shape[0]
    least = most = _number(batch)
    if least is None:
        bounds = program.range_constraints[batch.node.expr]  # type: ignore[attr-defined]
        least, most = int(bounds.lower), int(bounds.upper) if bounds.upper.is_Integer else None
    function = program.module(check_guards=False)  # the guards are strings of the file; sizes are checked without them
    return _of_file(path, function, inputs[0].shape, (max(1, least), most), inputs[0].dtype)


def _onnx(path: Path) -> Predictor:
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # problems are raised as exceptions
    try:
        # folding would compute constants of any size that the file asks for
        session = runtime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=["ConstantFolding"]
        )
    except Exception as error:  # onnxruntime has one class for each of its codes
        reason = checks.one_line(error).replace(str(path), path.name)
        raise ValueError(f"{path}: no ONNX network that can be read ({reason})") from error
    inputs = session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in _ONNX_TYPES:
        got = ", ".join(f"{i.name} {i.type} {i.shape}" for i in inputs)
        raise ValueError(f"{path}: must take one batch of images (B, C, H, W) of floats, not {got}.")
    batch = _number(inputs[0].shape[0])

    def function(x: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {inputs[0].name: x.contiguous().numpy()})[0])

    return _of_file(path, function, inputs[0].shape, (batch or 1, batch), _ONNX_TYPES[inputs[0].type])


def _of_file(
    path: Path,
    function: Callable[[Tensor], Any],
    shape: Sequence[object],
    batch: tuple[int, int | None],
    dtype: torch.dtype,
) -> Predictor:
    """A predictor for inputs of this shape (B, C, H, W); where one size is free, it takes the value of the other."""
    channels, height, width = map(_number, shape[1:])
    height, width = height or width, width or height
    size = None if height is None or width is None else (height, width)
    return Predictor(str(path), function, _colours(str(path), channels), size, batch, dtype)


def _number(size: object) -> int | None:
    """A size if it is fixed, else None; free ones are None, a name or a symbol."""
    return size if isinstance(size, int) and size > 0 else None


def _colours(source: str, channels: int | None) -> int | None:
    if channels not in (None, 1, 3):
        raise ValueError(
            f"{source}: takes images of {channels} channels; pictures have 1 or 3. The order must be (B, C, H, W)."
        )
    return channels
