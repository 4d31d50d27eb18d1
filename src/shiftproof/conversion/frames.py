"""Which maps of a network lie on the same grid, and which of its operations make maps smaller.

A frame is a set of maps that move together: every operation that keeps the size of its map keeps the frame, and maps
that meet (in a sum, a concatenation) share one. A site is an operation with a stride; behind it begins a new frame.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

Values = Mapping[fx.Node, Any]

_MAX_MODULES = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
_AVG_MODULES = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
_ADAPTIVE = ("adaptive_avg_pool", "adaptive_max_pool", "AdaptiveAvgPool", "AdaptiveMaxPool")
_MAX_FUNCTIONS = {
    F.max_pool1d: 1, F.max_pool2d: 2, F.max_pool3d: 3,
    torch.max_pool1d: 1, torch.max_pool2d: 2, torch.max_pool3d: 3,
}  # fmt: skip
_AVG_FUNCTIONS = {F.avg_pool1d: 1, F.avg_pool2d: 2, F.avg_pool3d: 3}


@dataclass
class Operation:
    """A convolution or pooling: what it is and how it is set."""

    node: fx.Node
    kind: str  # "convolution", "max pooling", "average pooling", "slice"
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    mode: str = "zeros"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def ndim(self) -> int:
        """The number of spatial axes."""
        return len(self.stride)

    @property
    def strided(self) -> bool:
        """Whether it makes maps smaller."""
        return any(s > 1 for s in self.stride)

    @property
    def pointwise(self) -> bool:
        """Whether it sees one position at a time."""
        return all(k == 1 for k in self.kernel) and not any(self.padding)

    @property
    def keeps_size(self) -> bool:
        """Whether its padding would keep the size at stride 1."""
        return all(2 * p == d * (k - 1) for k, p, d in zip(self.kernel, self.padding, self.dilation))

    def __str__(self) -> str:
        words = [self.kind, "x".join(map(str, self.kernel))] if self.kind != "slice" else ["slice"]
        if self.strided:
            words.append("stride " + "x".join(map(str, sorted(set(self.stride)))))
        return " ".join(words)


def operation(node: fx.Node, modules: Mapping[str, nn.Module]) -> Operation | None:
    """The convolution or pooling that a node is, or None."""
    if node.op == "call_module":
        module = modules[str(node.target)]
        if isinstance(module, _ConvNd) and not isinstance(module, _ConvTransposeNd):
            return _convolution(node, module)
        if isinstance(module, _MAX_MODULES + _AVG_MODULES):
            ndim = int(type(module).__name__[-2])
            kind = "max pooling" if isinstance(module, _MAX_MODULES) else "average pooling"
            return _pooling(node, kind, ndim, vars(module))
    if node.op == "call_function":
        for kind, known in (("max pooling", _MAX_FUNCTIONS), ("average pooling", _AVG_FUNCTIONS)):
            if node.target in known:
                names = ["x", "kernel_size", "stride", "padding", "dilation", "ceil_mode"]
                if kind == "average pooling":
                    names[4:] = ["ceil_mode", "count_include_pad", "divisor_override"]
                given = dict(zip(names, node.args)) | dict(node.kwargs)
                return _pooling(node, kind, known[node.target], given)  # type: ignore[index]
        if node.target is operator.getitem and isinstance(node.args[1], tuple):
            return _slice(node, node.args[1])
    return None


def _per_axis(value: Any, ndim: int) -> tuple[int, ...]:
    return tuple(int(v) for v in value) if isinstance(value, (tuple, list)) else (int(value),) * ndim


def _convolution(node: fx.Node, module: _ConvNd) -> Operation:
    kernel, dilation = tuple(module.kernel_size), tuple(module.dilation)
    if isinstance(module.padding, str):
        zero = (0,) * len(kernel)
        padding = zero if module.padding == "valid" else tuple(d * (k - 1) // 2 for k, d in zip(kernel, dilation))
    else:
        padding = tuple(int(p) for p in module.padding)
    return Operation(
        node,
        "convolution",
        kernel,
        tuple(module.stride),
        padding,
        dilation,
        module.padding_mode,
        {"groups": module.groups},
    )


def _pooling(node: fx.Node, kind: str, ndim: int, given: Mapping[str, Any]) -> Operation:
    kernel = _per_axis(given["kernel_size"], ndim)
    stride = given.get("stride")
    if given.get("return_indices"):
        kind = "max pooling with indices"
    names = ("ceil_mode", "count_include_pad", "divisor_override")
    return Operation(
        node,
        kind,
        kernel,
        kernel if stride is None or stride == [] else _per_axis(stride, ndim),
        _per_axis(given.get("padding", 0), ndim),
        _per_axis(given.get("dilation", 1), ndim),
        options={k: given[k] for k in names if given.get(k) is not None},
    )


def _slice(node: fx.Node, index: tuple[Any, ...]) -> Operation | None:
    """x[:, :, ::2, ::2]"""
    if len(index) < 3 or not all(isinstance(i, slice) for i in index):
        return None
    starts_anew = all(i.start in (None, 0) and i.stop is None for i in index)
    steps = tuple(1 if i.step is None else i.step for i in index)
    if not starts_anew or steps[:2] != (1, 1) or all(s == 1 for s in steps) or not all(type(s) is int for s in steps):
        return None
    ones = (1,) * (len(steps) - 2)
    return Operation(node, "slice", ones, steps[2:], (0,) * len(ones), ones)


class Frames:
    """The frame and the spatial size of every map in a graph, given the value of every node for one input.

    `sites` begin a new frame; `same` are operations whose output is to be taken for a map of the same frame whatever
    its size (they will be padded to keep it).
    """

    def __init__(self, graph: fx.Graph, values: Values, ndim: int, sites: set[fx.Node], same: set[fx.Node]) -> None:
        self._parent: dict[fx.Node, fx.Node] = {}
        self.space: dict[fx.Node, tuple[int, ...]] = {}
        self.resized: list[fx.Node] = []  # other operations that change the size of a map
        for node in graph.nodes:
            self._parent[node] = node
            value = _first_tensor(values.get(node))
            inputs = [n for n in node.all_input_nodes if n in self.space]
            if value is None or (node.op != "placeholder" and not inputs) or node.op == "output":
                continue
            if node.op == "placeholder" or node in sites or node in same:
                self._set(node, tuple(value.shape[-ndim:]), [] if node in sites else inputs)
                continue
            kept = [n for n in inputs if place(value, self.space[n]) is not None]
            if kept:
                self._set(node, self.space[kept[0]], kept)
            elif value.dim() == ndim + 2 and any(n > 1 for n in value.shape[2:]):
                self.resized.append(node)
                self._set(node, tuple(value.shape[2:]), [])

    def _set(self, node: fx.Node, space: tuple[int, ...], together: Iterable[fx.Node]) -> None:
        if all(n == 1 for n in space):
            return  # a single value per channel has no place
        self.space[node] = space
        for other in together:
            self._parent[self.of(other)] = self.of(node)

    def of(self, node: fx.Node) -> fx.Node:
        """The node that stands for the frame of `node`."""
        while self._parent[node] is not node:
            node = self._parent[node]
        return node


def place(value: Tensor, space: tuple[int, ...]) -> int | None:
    """The first of the neighbouring axes of `value`, behind the batch, that have the sizes `space`; None if none."""
    for axis in range(value.dim() - len(space), 0, -1):
        if tuple(value.shape[axis : axis + len(space)]) == space:
            return axis
    return None


def _first_tensor(value: Any) -> Tensor | None:
    if isinstance(value, (tuple, list)) and value:
        value = value[0]
    return value if isinstance(value, Tensor) and value.dim() >= 3 else None


def adaptive(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether a node is adaptive pooling."""
    name = type(modules[str(node.target)]).__name__ if node.op == "call_module" else _name(node.target)
    return name.startswith(_ADAPTIVE)


def _name(target: str | Callable[..., Any]) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))
