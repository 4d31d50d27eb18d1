"""What one node of a network's graph does: a convolution, a pooling or a slice, and how it is set.

To support another operation, read it here as an `Operation` and build its counterpart at stride 1 in `replacements.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

_POOLS: dict[Any, tuple[str, int]] = {  # modules and functions: the kind and the number of spatial axes
    nn.MaxPool1d: ("max pooling", 1), F.max_pool1d: ("max pooling", 1), torch.max_pool1d: ("max pooling", 1),
    nn.MaxPool2d: ("max pooling", 2), F.max_pool2d: ("max pooling", 2), torch.max_pool2d: ("max pooling", 2),
    nn.MaxPool3d: ("max pooling", 3), F.max_pool3d: ("max pooling", 3), torch.max_pool3d: ("max pooling", 3),
    nn.AvgPool1d: ("average pooling", 1), F.avg_pool1d: ("average pooling", 1),
    nn.AvgPool2d: ("average pooling", 2), F.avg_pool2d: ("average pooling", 2),
    nn.AvgPool3d: ("average pooling", 3), F.avg_pool3d: ("average pooling", 3),
}  # fmt: skip
_ARGUMENTS = {  # of the functions, in order
    "max pooling": ("x", "kernel_size", "stride", "padding", "dilation", "ceil_mode"),
    "average pooling": ("x", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
}


@dataclass
class Operation:
    """A convolution, pooling or slice, with one entry per spatial axis in each of its settings."""

    node: fx.Node
    kind: str  # "convolution", "max pooling", "max pooling with indices", "average pooling", "slice"
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    padding_mode: str = "zeros"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def input(self) -> fx.Node:
        """The node whose map it works on."""
        return self.node.all_input_nodes[0]

    @property
    def strided(self) -> bool:
        """Whether it downsamples."""
        return any(s > 1 for s in self.stride)

    @property
    def pointwise(self) -> bool:
        """Whether it looks at one position at a time."""
        return all(k == 1 for k in self.kernel) and not any(self.padding)

    def __str__(self) -> str:
        words = [self.kind, "x".join(map(str, self.kernel))] if self.kind != "slice" else ["slice"]
        if self.strided:
            words.append("stride " + "x".join(map(str, sorted(set(self.stride)))))
        return " ".join(words)


def read_operation(node: fx.Node, modules: Mapping[str, nn.Module], values: Mapping[fx.Node, Any]) -> Operation | None:
    """The operation that a node performs; None if it is none of those above.

    `values`: what nodes return, for settings that are made of sizes.
    """
    if node.op == "call_module":
        module = modules[str(node.target)]
        if isinstance(module, _ConvNd) and not isinstance(module, _ConvTransposeNd):
            return _convolution(node, module)
        if type(module) in _POOLS:
            return _pooling(node, *_POOLS[type(module)], vars(module))
    if node.op == "call_function":
        if node.target in _POOLS:
            kind, ndim = _POOLS[node.target]
            args, kwargs = fx.map_arg((node.args[1:], dict(node.kwargs)), lambda n: values[n])
            return _pooling(node, kind, ndim, dict(zip(_ARGUMENTS[kind][1:], args)) | kwargs)
        if node.target is operator.getitem and isinstance(node.args[1], tuple):
            return _slice(node, node.args[1])
    return None


def _convolution(node: fx.Node, module: _ConvNd) -> Operation:
    kernel, dilation = tuple(module.kernel_size), tuple(module.dilation)
    if module.padding == "same":
        padding = tuple(d * (k - 1) // 2 for k, d in zip(kernel, dilation))
    else:
        padding = (0,) * len(kernel) if module.padding == "valid" else tuple(map(int, module.padding))
    options = {"groups": module.groups}
    return Operation(node, "convolution", kernel, tuple(module.stride), padding, dilation, module.padding_mode, options)


def _pooling(node: fx.Node, kind: str, ndim: int, given: Mapping[str, Any]) -> Operation:
    def per_axis(value: Any) -> tuple[int, ...]:
        return tuple(map(int, value)) if isinstance(value, (tuple, list)) else (int(value),) * ndim

    kernel, stride = per_axis(given["kernel_size"]), given.get("stride")
    names = ("ceil_mode", "count_include_pad", "divisor_override")
    return Operation(
        node,
        "max pooling with indices" if given.get("return_indices") else kind,
        kernel,
        kernel if stride is None or stride == [] else per_axis(stride),
        per_axis(given.get("padding", 0)),
        per_axis(given.get("dilation", 1)),
        options={k: given[k] for k in names if given.get(k) is not None},
    )


def _slice(node: fx.Node, index: tuple[Any, ...]) -> Operation | None:
    """A slice with steps along spatial axes only, such as x[:, :, ::2, ::2]."""
    if len(index) < 3 or not all(isinstance(i, slice) for i in index):
        return None
    covers_all = all(i.start in (None, 0) and i.stop is None for i in index)
    steps = tuple(1 if i.step is None else i.step for i in index)
    if not covers_all or steps[:2] != (1, 1) or all(s == 1 for s in steps) or not all(type(s) is int for s in steps):
        return None
    ones = (1,) * (len(steps) - 2)
    return Operation(node, "slice", ones, steps[2:], (0,) * len(ones), ones)


def type_name(node: fx.Node, modules: Mapping[str, nn.Module]) -> str:
    """The class of the module that a node calls, or the name of the function or method."""
    if node.op == "call_module":
        return type(modules[str(node.target)]).__name__
    return node.target if isinstance(node.target, str) else str(getattr(node.target, "__name__", node.target))


def node_label(node: fx.Node) -> str:
    """How a message names a node: by its module's path if it has one."""
    return f"`{node.target if node.op == 'call_module' else node.name}`"
