"""Rewrite the graph of a network: every site at stride 1, a downsampling layer behind it, one for each group."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from torch import fx, nn
from torch.nn.modules.conv import _ConvNd

from shiftproof.conversion.capture import ConversionError
from shiftproof.conversion.dense import DensePool, Together, dense_convolution
from shiftproof.conversion.frames import Frames, Operation, Values, operation
from shiftproof.conversion.report import ConversionReport, Replaced
from shiftproof.conversion.sites import Site, follow, group_sites, unsupported, where
from shiftproof.layers import Downsample

Make = Callable[[int, tuple[int, ...]], Downsample]  # (channels, stride) -> layer


def rewrite(
    traced: fx.GraphModule,
    values: dict[fx.Node, Any],
    make: Make,
    padding: str | None,
    strict: bool,
    report: ConversionReport,
) -> None:
    """Replace every site of `traced` in place; `values` is what its nodes give for an example."""
    modules = dict(traced.named_modules())
    ops = [op for node in traced.graph.nodes if (op := operation(node, modules))]
    sites = [follow(op, values, modules) for op in ops if op.strided]
    nodes = {site.op.node for site in sites}
    ndim = next(v.dim() - 2 for node, v in values.items() if node.op == "placeholder")
    frames = Frames(traced.graph, values, ndim, nodes, {op.node for op in ops} - nodes)
    problems = unsupported(traced, frames, sites, ops, modules)
    groups = group_sites(sites, frames, problems)
    if problems and strict:
        raise ConversionError(
            "cannot convert everything:\n"
            + "\n".join(f"* {p}" for p in problems)
            + "\nWith `strict=False` these are left as they are, and listed in the report."
        )
    report.left += problems
    if not groups:
        raise ConversionError(
            "nothing to convert: the network has no convolution or pooling with a stride above 1."
            if not sites
            else "nothing could be converted:\n" + "\n".join(f"* {p}" for p in problems)
        )
    converted = {site.op.node for group in groups for site in group}
    costs = {op.node: _flops(op, values) for op in ops}
    for op in ops:
        if (op.node in converted or (op.node not in nodes and padding is not None)) and op.kind != "slice":
            _make_dense(traced, op, values, padding, modules, report)
    for number, group in enumerate(groups, start=1):
        _downsample(traced, group, values, make, number, costs, report)
    for op in ops:
        if op.node in converted and op.kind == "slice":
            op.node.replace_all_uses_with(op.node.args[0])  # type: ignore[arg-type]
            traced.graph.erase_node(op.node)
    _sort(traced)


def _make_dense(
    traced: fx.GraphModule,
    op: Operation,
    values: Values,
    padding: str | None,
    modules: dict[str, nn.Module],
    report: ConversionReport,
) -> None:
    """Set stride 1 and the padding of an operation."""
    name = where(op.node)
    if op.kind == "convolution":
        module = modules[str(op.node.target)]
        assert isinstance(module, _ConvNd)
        if not op.strided and op.pointwise:
            return
        dense = dense_convolution(module, op, padding)
        _put(traced, str(op.node.target), dense)
    else:
        if op.kind == "max pooling with indices":
            return
        dense = DensePool(op, padding)
        if op.node.op == "call_module":
            _put(traced, str(op.node.target), dense)
        else:
            target = _free_name(traced, f"{op.node.name}_dense")
            _put(traced, target, dense)
            op.node.op, op.node.target = "call_module", target
        op.node.args, op.node.kwargs = (op.node.all_input_nodes[0],), {}
    if padding is not None and not op.pointwise:
        report.repadded.append(name)
        before, after = (values[node].shape[2:] for node in (op.node.all_input_nodes[0], op.node))
        rounded_up = all(n == -(-m // s) for m, n, s in zip(before, after, op.stride))
        if not rounded_up or not (op.keeps_size or (op.strided and all(k <= s for k, s in zip(op.kernel, op.stride)))):
            report.resized.append(f"{name} ({op}, padding {'x'.join(map(str, sorted(set(op.padding))))})")


def _downsample(
    traced: fx.GraphModule,
    group: list[Site],
    values: dict[fx.Node, Any],
    make: Make,
    number: int,
    costs: dict[fx.Node, int],
    report: ConversionReport,
) -> None:
    """Put the downsampling of one group into the graph."""
    inputs = list(dict.fromkeys(site.map for site in group))  # each map once, the leader's first
    stride = group[0].op.stride
    down = make(values[inputs[0]].shape[1], stride)
    parent = str(group[0].op.node.target).rpartition(".")[0] if group[0].op.node.op == "call_module" else ""
    graph = traced.graph
    small: dict[fx.Node, fx.Node] = {}
    if down.selects and len(inputs) > 1:
        target = _free_name(traced, f"{parent}.down".lstrip("."))
        _put(traced, target, Together(down))
        with graph.inserting_after(_last(graph, inputs)):
            together = graph.call_module(target, tuple(inputs))
        with graph.inserting_after(together):
            for i, x in enumerate(inputs):
                small[x] = graph.call_function(operator.getitem, (together, i))
        made = {together}
    else:
        for i, x in enumerate(inputs):
            target = _free_name(traced, f"{parent}.down".lstrip("."))
            _put(traced, target, down if i == 0 else make(values[x].shape[1], stride))
            with graph.inserting_after(x):
                small[x] = graph.call_module(target, (x,))
        made = set(small.values())
    for site in group:
        x = site.map
        y = small[x]
        values[y] = values[x]  # the next group asks for the number of its channels
        if site.before:
            site.op.node.replace_input_with(x, y)
        else:
            x.replace_all_uses_with(y, delete_user_cb=lambda user: user not in made)
        before = costs[site.op.node]
        dense = before if site.before else before * math.prod(stride)
        behind = f"before {where(site.op.node)}" if site.before else where(site.end)
        report.replaced.append(Replaced(where(site.op.node), str(site.op), str(down), behind, number, before, dense))


def _flops(op: Operation, values: Values) -> int:
    """Two operations per weight and output of a convolution, for one image of the example."""
    if op.kind != "convolution":
        return 0
    x, y = values[op.node.all_input_nodes[0]], values[op.node]
    weights = math.prod(op.kernel) * x.shape[1] // op.options["groups"]
    return int(2 * weights * y[0].numel())


def _last(graph: fx.Graph, nodes: list[fx.Node]) -> fx.Node:
    wanted = set(nodes)
    ordered: list[fx.Node] = [node for node in graph.nodes if node in wanted]
    return ordered[-1]


def _put(traced: fx.GraphModule, target: str, module: nn.Module) -> None:
    traced.delete_submodule(target)
    traced.add_submodule(target, module)


def _free_name(traced: fx.GraphModule, wanted: str) -> str:
    taken = {name for name, _ in traced.named_modules()} | {name for name, _ in traced.named_parameters()}
    names = [wanted, *(f"{wanted}_{i}" for i in range(2, 1000))]
    return next(name for name in names if name not in taken)


def _sort(traced: fx.GraphModule) -> None:
    """Bring the nodes into an order in which everything is computed before it is used."""
    old, new = traced.graph, fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}

    def emit(node: fx.Node) -> None:
        if node not in copies:
            for n in node.all_input_nodes:
                emit(n)
            copies[node] = new.node_copy(node, copies.__getitem__)

    for node in old.nodes:
        emit(node)
    new._codegen = old._codegen
    traced.graph = new
