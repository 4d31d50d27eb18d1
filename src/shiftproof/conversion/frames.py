"""Which maps of a network move together.

A frame is a set of maps on one grid: if the input shifts, they all shift by the same amount. An operation that keeps
the size of its map keeps the frame, maps that meet in a sum or a concatenation share one, and every downsampling
starts a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, fx, nn

Modules = Mapping[str, nn.Module]
Values = Mapping[fx.Node, Any]


class Frames:
    """The frame and the spatial size of every map in a graph, given the value of every node for one input.

    Each node of `starts` begins a new frame. The output of a node in `keeps` belongs to the frame of its input even if
    the size changes: the converter will pad it to keep the size.
    """

    def __init__(self, graph: fx.Graph, values: Values, starts: set[fx.Node], keeps: set[fx.Node]) -> None:
        size = input_size(graph, values)
        ndim, maps = len(size), list[fx.Node]()
        self._parent: dict[fx.Node, fx.Node] = {}  # a forest: the root stands for the frame
        self.sizes: dict[fx.Node, tuple[int, ...]] = {}  # of every node that is a map
        self.other_size_changes: list[fx.Node] = []  # nodes outside `starts` and `keeps`
        for node in graph.nodes:
            self._parent[node] = node
            value = _first_tensor(values.get(node))
            inputs = [n for n in node.all_input_nodes if n in self.sizes]
            if node.op == "placeholder":  # all maps that come in show one scene
                if value is not None and tuple(value.shape[2:]) == size and value.is_floating_point():
                    self._add(node, size, maps)
                    maps = [node]
                continue
            if value is None or not inputs or node.op == "output":
                continue
            if node in starts or node in keeps:
                self._add(node, tuple(value.shape[-ndim:]), [] if node in starts else inputs)
                continue
            same_size = [n for n in inputs if spatial_axes(value, self.sizes[n])]
            if same_size:
                self._add(node, self.sizes[same_size[0]], same_size)
            elif value.dim() == ndim + 2 and any(n > 1 for n in value.shape[2:]):
                self.other_size_changes.append(node)
                self._add(node, tuple(value.shape[2:]), [])

    def _add(self, node: fx.Node, sizes: tuple[int, ...], inputs: Iterable[fx.Node]) -> None:
        if all(n == 1 for n in sizes):
            return  # a single value per channel has no position
        self.sizes[node] = sizes
        for other in inputs:
            self._parent[self.of(other)] = self.of(node)

    def join(self, a: fx.Node, b: fx.Node) -> bool:
        """Let the frames of two maps be one, if they are not yet."""
        one, other = self.of(a), self.of(b)
        self._parent[one] = other
        return one is not other

    def of(self, node: fx.Node) -> fx.Node:
        """The node that stands for the frame of `node`."""
        while self._parent[node] is not node:
            node = self._parent[node]
        return node


def input_size(graph: fx.Graph, values: Values) -> tuple[int, ...]:
    """The spatial sizes of the first map that comes in."""
    entries = (values[node] for node in graph.nodes if node.op == "placeholder")
    return next(tuple(v.shape[2:]) for v in entries if v.is_floating_point() and v.dim() >= 3)


def leading_to(graph: fx.Graph, goals: set[fx.Node]) -> set[fx.Node]:
    """The nodes on which one of `goals` depends."""
    found: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if any(user in goals or user in found for user in node.users):
            found.add(node)
    return found


def spatial_axes(value: Tensor, sizes: tuple[int, ...]) -> list[int]:
    """Every axis after the batch where a run of axes with these sizes begins, the last one first."""
    starts = range(value.dim() - len(sizes), 0, -1)
    return [axis for axis in starts if tuple(value.shape[axis : axis + len(sizes)]) == sizes]


def _first_tensor(value: Any) -> Tensor | None:
    if isinstance(value, (tuple, list)) and value:
        value = value[0]
    return value if isinstance(value, Tensor) and value.dim() >= 3 else None
