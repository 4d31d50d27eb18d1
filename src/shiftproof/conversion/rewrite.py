"""Rewrite the graph of a network: every site at stride 1, followed by a downsampling layer, one for each group."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from torch import fx

from shiftproof.conversion.frames import Values, leading_to
from shiftproof.conversion.operation import Operation, node_label
from shiftproof.conversion.plan import Group, Plan
from shiftproof.conversion.replacements import SharedDownsample, StrideOnePool, stride_one_convolution
from shiftproof.conversion.report import Replacement
from shiftproof.layers import Downsample

Make = Callable[[int, tuple[int, ...]], Downsample]  # (channels, stride) -> layer


def rewrite(
    traced: fx.GraphModule, values: dict[fx.Node, Any], plan: Plan, make: Make, padding: str | None
) -> tuple[list[Replacement], list[str], list[str]]:
    """Carry out a plan in place; `values` is what the nodes return for an example.

    Returns what was replaced, and the names of operations that have another padding, or another size of output, now.
    """
    replaced: list[Replacement] = []
    padding_changed, size_changed = [], []
    sites = {site.op.node: site.op for group in plan.groups for site in group}
    for op in plan.operations:
        if op.node not in sites and (op.strided or padding is None):
            continue  # cannot be converted, or need not
        if _set_stride_one(traced, op, padding) and padding is not None and not op.pointwise:
            padding_changed.append(node_label(op.node))
            if not _kept_size(op, values):
                amount = "x".join(map(str, sorted(set(op.padding))))
                size_changed.append(f"{node_label(op.node)} ({op}, padding {amount})")
    earlier = leading_to(traced.graph, set(sites))
    for number, group in enumerate(plan.groups, start=1):
        last = padding == "circular" and group[0].op.node not in earlier
        make_here: Make = make if last else lambda *a: make(*a).staying()
        replaced += _insert_downsampling(traced, group, values, make_here, number)
    for op in sites.values():
        if op.kind == "slice":
            op.node.replace_all_uses_with(op.input)
            traced.graph.erase_node(op.node)
    _sort(traced.graph)
    return replaced, padding_changed, size_changed


def _set_stride_one(traced: fx.GraphModule, op: Operation, padding: str | None) -> bool:
    """Set stride 1 and the padding of an operation; False where there is nothing to set."""
    if op.kind in ("slice", "max pooling with indices"):
        return False
    if op.kind == "convolution":
        if op.pointwise and not op.strided:
            return False
        source: Any = traced.get_submodule(str(op.node.target))
        traced.add_submodule(str(op.node.target), stride_one_convolution(source, op, padding))
        return True
    target = str(op.node.target) if op.node.op == "call_module" else _free_name(traced, f"{op.node.name}_dense")
    traced.add_submodule(target, StrideOnePool(op, padding))
    op.node.op, op.node.target, op.node.args, op.node.kwargs = "call_module", target, (op.input,), {}
    return True


def _kept_size(op: Operation, values: Values) -> bool:
    """Whether the output had the size that the method gives: that of the input over the stride, rounded up."""
    padded = all(2 * p == d * (k - 1) for k, p, d in zip(op.kernel, op.padding, op.dilation))
    before, after = (values[node].shape[2:] for node in (op.input, op.node))
    rounded_up = all(n == -(-m // s) for m, n, s in zip(before, after, op.stride))
    windows_fit = op.strided and all(k <= s for k, s in zip(op.kernel, op.stride))
    return rounded_up and (padded or windows_fit)


def _insert_downsampling(
    traced: fx.GraphModule, group: Group, values: dict[fx.Node, Any], make: Make, number: int
) -> list[Replacement]:
    """Put the downsampling of one group into the graph."""
    maps = list(dict.fromkeys(site.map for site in group))  # each map once, the leader's first
    leader, stride, graph = group[0].op.node, group[0].op.stride, traced.graph
    down = make(values[maps[0]].shape[1], stride)
    parent = str(leader.target).rpartition(".")[0] if leader.op == "call_module" else ""
    small: dict[fx.Node, fx.Node] = {}
    if down.selects and len(maps) > 1:
        target = _free_name(traced, f"{parent}.down".lstrip("."))
        traced.add_submodule(target, SharedDownsample(down))
        with graph.inserting_after([node for node in graph.nodes if node in maps][-1]):
            shared = graph.call_module(target, tuple(maps))
        with graph.inserting_after(shared):
            for i, x in enumerate(maps):
                small[x] = graph.call_function(operator.getitem, (shared, i))
        readers = {shared}
    else:
        for i, x in enumerate(maps):
            target = _free_name(traced, f"{parent}.down".lstrip("."))
            traced.add_submodule(target, down if i == 0 else make(values[x].shape[1], stride))
            with graph.inserting_after(x):
                small[x] = graph.call_module(target, (x,))
        readers = set(small.values())
    replaced = []
    for site in group:
        node, x = site.op.node, site.map
        y = small[x]
        values[y] = values[x]  # the next group asks for the number of its channels
        before = after = _flops(site.op, values)
        if site.downsamples_input:
            node.replace_input_with(x, y)
        else:
            x.replace_all_uses_with(y, delete_user_cb=lambda user: user not in readers)
            after *= math.prod(stride)
        place = "its input" if site.downsamples_input else node_label(site.end)
        replaced.append(Replacement(node_label(node), str(site.op), str(down), place, number, before, after))
    return replaced


def _flops(op: Operation, values: Values) -> int:
    """Two operations per weight and output of a convolution, for one image of the example."""
    if op.kind != "convolution":
        return 0
    x, y = values[op.input], values[op.node]
    weights = math.prod(op.kernel) * x.shape[1] // op.options["groups"]
    return int(2 * weights * y[0].numel())


def _free_name(traced: fx.GraphModule, wanted: str) -> str:
    taken = {name for name, _ in traced.named_modules()} | {name for name, _ in traced.named_parameters()}
    return next(name for name in (wanted, *(f"{wanted}_{i}" for i in range(2, 1000))) if name not in taken)


def _sort(graph: fx.Graph) -> None:
    """Move nodes up until everything is computed before it is used; all others keep their order.

    `legalize_graph` of torch.fx keeps no order: dropout would draw other numbers than in the original network, and what
    is changed in place through a view would change too early. Its `stable_topological_sort` is not in torch 2.4.
    """
    done: set[fx.Node] = set()

    def settle(node: fx.Node, before: fx.Node) -> None:
        if node not in done:
            done.add(node)
            for n in node.all_input_nodes:
                settle(n, before)
            if node is not before:
                before.prepend(node)

    for node in list(graph.nodes):
        settle(node, node)
