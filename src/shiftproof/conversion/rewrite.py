"""Rewrite the graph of a network.

Placement after: every site at stride 1, followed by a downsampling layer, one for each group. Placement before: every
site as it is, on a map that is moved to where the layer of its group would sample.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from torch import fx, nn

from shiftproof.conversion.frames import Values, leading_to
from shiftproof.conversion.operation import Operation, node_label
from shiftproof.conversion.plan import Group, Plan
from shiftproof.conversion.replacements import MoveToSelection, PaddedPool, SharedDownsample, padded_convolution
from shiftproof.conversion.report import Replacement
from shiftproof.layers import Downsample

Make = Callable[[int, tuple[int, ...]], Downsample]  # (channels, stride) -> layer


def rewrite(
    traced: fx.GraphModule,
    values: dict[fx.Node, Any],
    plan: Plan,
    make: Make,
    padding: str | None,
    placement: str = "after",
    antialias: bool = False,
) -> tuple[list[Replacement], list[str], list[str]]:
    """Carry out a plan in place; `values` is what the nodes return for an example.

    Returns what was replaced, and the names of operations that have another padding, or another size of output, now.
    """
    replaced: list[Replacement] = []
    padding_changed, size_changed = [], []
    before = placement == "before"
    sites = {site.op.node: site.op for group in plan.groups for site in group}
    for op in plan.operations:
        if (op.node not in sites and op.strided) or (padding is None and (before or op.node not in sites)):
            continue  # cannot be converted, or need not
        stride = op.stride if before else (1,) * len(op.stride)
        if _set_padding(traced, op, padding, stride) and padding is not None and not op.pointwise:
            padding_changed.append(node_label(op.node))
            if not _kept_size(op, values):
                amount = "x".join(map(str, sorted(set(op.padding))))
                size_changed.append(f"{node_label(op.node)} ({op}, padding {amount})")
    earlier = leading_to(traced.graph, set(sites))
    for number, group in enumerate(plan.groups, start=1):
        last = padding == "circular" and group[0].op.node not in earlier
        make_here: Make = make if last else lambda *a: make(*a).staying()
        if before:
            replaced += _insert_move(traced, group, values, make_here, number, padding == "circular", antialias)
        else:
            replaced += _insert_downsampling(traced, group, values, make_here, number)
    for op in sites.values():
        if op.kind == "slice" and not before:
            op.node.replace_all_uses_with(op.input)
            traced.graph.erase_node(op.node)
    _sort(traced.graph)
    return replaced, padding_changed, size_changed


def _set_padding(traced: fx.GraphModule, op: Operation, padding: str | None, stride: tuple[int, ...]) -> bool:
    """Set the padding and the stride of an operation; False where there is nothing to set."""
    if op.kind in ("slice", "max pooling with indices"):
        return False
    if op.kind == "convolution":
        if op.pointwise and stride == op.stride:
            return False
        source: Any = traced.get_submodule(str(op.node.target))
        traced.add_submodule(str(op.node.target), padded_convolution(source, op, padding, stride))
        return True
    target = str(op.node.target) if op.node.op == "call_module" else _free_name(traced, f"{op.node.name}_dense")
    traced.add_submodule(target, PaddedPool(op, padding, stride))
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
    stride = group[0].op.stride
    down = make(values[maps[0]].shape[1], stride)
    if down.selects and len(maps) > 1:
        small = _insert_shared(traced, group, maps, SharedDownsample(down), "down")
    else:
        small = {}
        for i, x in enumerate(maps):
            layer = down if i == 0 else make(values[x].shape[1], stride)
            small |= _insert_shared(traced, group, [x], layer, "down")
    readers = {reader for y in small.values() for reader in (y, *y.all_input_nodes)} - set(maps)
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


def _insert_move(
    traced: fx.GraphModule,
    group: Group,
    values: dict[fx.Node, Any],
    make: Make,
    number: int,
    wraps: bool,
    antialias: bool,
) -> list[Replacement]:
    """Put the move of the inputs of one group into the graph."""
    maps = list(dict.fromkeys(site.op.input for site in group))
    down = make(values[maps[0]].shape[1], group[0].op.stride)
    moved = _insert_shared(traced, group, maps, MoveToSelection(down, wraps, antialias), "move")
    replaced = []
    for site in group:
        node, x = site.op.node, site.op.input
        values[moved[x]] = values[x]
        node.replace_input_with(x, moved[x])
        cost = _flops(site.op, values)
        now = f"{site.op} on a map that {down} moves"
        replaced.append(Replacement(node_label(node), str(site.op), now, "its input", number, cost, cost))
    return replaced


def _insert_shared(
    traced: fx.GraphModule, group: Group, maps: list[fx.Node], layer: nn.Module, name: str
) -> dict[fx.Node, fx.Node]:
    """Call a layer on some maps, next to the leader of their group; returns what it makes of each."""
    leader, graph = group[0].op.node, traced.graph
    parent = str(leader.target).rpartition(".")[0] if leader.op == "call_module" else ""
    target = _free_name(traced, f"{parent}.{name}".lstrip("."))
    traced.add_submodule(target, layer)
    with graph.inserting_after([node for node in graph.nodes if node in maps][-1]):
        called = graph.call_module(target, tuple(maps))
    if len(maps) == 1:
        return {maps[0]: called}
    with graph.inserting_after(called):
        return {x: graph.call_function(operator.getitem, (called, i)) for i, x in enumerate(maps)}


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
