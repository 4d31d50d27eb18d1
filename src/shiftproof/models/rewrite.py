"""Rewrite the graph of a network: every site at stride 1, a downsampling layer behind it.

A site is an operation with a stride. Sites whose inputs lie on one grid and whose outputs meet again form a group,
which shares one selection.
"""

from __future__ import annotations

import copy
import math
import operator
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.conv import _ConvNd

from shiftproof.layers import Downsample
from shiftproof.models.dense import DensePool, Together, dense_convolution
from shiftproof.models.frames import Frames, Operation, Values, adaptive, operation
from shiftproof.models.report import ConversionReport, Replaced
from shiftproof.models.tracing import ConversionError

Make = Callable[[int, tuple[int, ...]], Downsample]  # (channels, stride) -> layer

# functions that look beyond one value per channel: no norm, no activation
_MIXING = ("linear", "conv", "matmul", "einsum", "getitem", "pool", "interpolate")


@dataclass
class Site:
    """An operation with a stride, and where its downsampling goes: behind the node `end`, or before the operation."""

    op: Operation
    end: fx.Node
    active: bool  # whether an activation stands between the operation and `end`

    @property
    def before(self) -> bool:
        """A 1 x 1 convolution without activation, as in a shortcut, commutes with the downsampling: do less work."""
        return self.op.pointwise and not self.active

    @property
    def map(self) -> fx.Node:
        """The node whose maps are made smaller."""
        return self.op.node.all_input_nodes[0] if self.before else self.end


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
    sites = [_follow(op, values, modules) for op in ops if op.strided]
    nodes = {site.op.node for site in sites}
    ndim = next(v.dim() - 2 for node, v in values.items() if node.op == "placeholder")
    frames = Frames(traced.graph, values, ndim, nodes, {op.node for op in ops} - nodes)
    problems = _unsupported(traced, frames, sites, ops, modules)
    groups = _group(sites, frames, problems)
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
            _make_dense(traced, op, padding, modules, report)
    for number, group in enumerate(groups, start=1):
        _downsample(traced, group, values, make, number, costs, report)
    for op in ops:
        if op.node in converted and op.kind == "slice":
            op.node.replace_all_uses_with(op.node.args[0])  # type: ignore[arg-type]
            traced.graph.erase_node(op.node)
    _sort(traced)


def _follow(op: Operation, values: Values, modules: dict[str, nn.Module]) -> Site:
    """The site, with the last of the norms and activations that follow it alone."""
    end, active = op.node, False
    while len(end.users) == 1 and op.kind != "slice":
        (user,) = end.users
        if not _is_norm_or_activation(user, end, op, values, modules) or _is_random(user, end, values, modules):
            break
        active = active or not _is_affine(user, end, values, modules)
        end = user
    return Site(op, end, active)


def _is_norm_or_activation(
    user: fx.Node, node: fx.Node, op: Operation, values: Values, modules: dict[str, nn.Module]
) -> bool:
    """Whether a subsampling may change places with `user`, which is no layer of weights between positions."""
    name = (
        type(modules[str(user.target)]).__name__
        if user.op == "call_module"
        else str(getattr(user.target, "__name__", user.target))
    )
    if user.op not in ("call_module", "call_function", "call_method") or any(word in name.lower() for word in _MIXING):
        return False
    x, y = values[node], values[user]
    if not isinstance(x, Tensor) or not isinstance(y, Tensor) or x.shape != y.shape:
        return False
    others = (values[n] for n in user.all_input_nodes if n is not node)
    if any(isinstance(v, Tensor) and v.shape[2:] == x.shape[2:] for v in others):
        return False  # maps meet here
    every = (slice(None), slice(None), *(slice(None, None, 2) for _ in op.stride))
    try:
        return torch.allclose(_apply(user, node, x[every], values, modules), y[every], rtol=1e-4, atol=1e-5)
    except (RuntimeError, ValueError, TypeError):
        return False


def _is_affine(user: fx.Node, node: fx.Node, values: Values, modules: dict[str, nn.Module]) -> bool:
    x = values[node]
    a, b = torch.randn_like(x), torch.randn_like(x)
    at_a, at_b, at_sum, at_zero = (_apply(user, node, t, values, modules) for t in (a, b, a + b, torch.zeros_like(x)))
    return torch.allclose(at_a + at_b, at_sum + at_zero, rtol=1e-3, atol=1e-3)


def _is_random(user: fx.Node, node: fx.Node, values: Values, modules: dict[str, nn.Module]) -> bool:
    """Whether `user` draws at random in training, such as dropout: it shall draw for as many values as before."""
    learning = {str(user.target): copy.deepcopy(modules[str(user.target)]).train()} if user.op == "call_module" else {}
    flags = {n: True if isinstance(v, bool) else v for n, v in values.items() if n in user.all_input_nodes}
    try:
        first, second = (_apply(user, node, values[node], flags, modules | learning) for _ in range(2))
    except (RuntimeError, ValueError):
        return False
    return not torch.equal(first, second)


def _apply(node: fx.Node, replaced: fx.Node, value: Tensor, values: Values, modules: dict[str, nn.Module]) -> Any:
    """What `node` gives where its input `replaced` has another value."""
    fill: Callable[[fx.Node], Any] = lambda n: value.clone() if n is replaced else values[n]  # noqa: E731
    args, kwargs = fx.map_arg(node.args, fill), fx.map_arg(node.kwargs, fill)
    with torch.no_grad():
        if node.op == "call_module":
            return modules[str(node.target)](*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _unsupported(
    traced: fx.GraphModule, frames: Frames, sites: list[Site], ops: list[Operation], modules: dict[str, nn.Module]
) -> list[str]:
    """What changes the size of maps and is no site, as sentences."""
    out = []
    last = [site.op.node for site in sites]
    for node in frames.resized:
        if adaptive(node, modules) and not any(_leads_to(node, site) for site in last):
            continue  # a head: it sees only maps that are aligned already
        what = type(modules[str(node.target)]).__name__ if node.op == "call_module" else _shown(node)
        out.append(
            f"{where(node)} ({what}) changes the size of its map in a way that is not known here: use a convolution "
            f"or pooling layer of torch.nn with a stride."
        )
    for op in ops:
        if op.strided and op.kind == "max pooling with indices":
            out.append(f"{where(op.node)} (max pooling) hands out indices, which have no meaning at another size.")
    return out


def _group(sites: list[Site], frames: Frames, problems: list[str]) -> list[list[Site]]:
    """Sites whose maps meet again, leader first; what cannot be grouped becomes a problem."""
    by_output: dict[fx.Node, list[Site]] = defaultdict(list)
    alone = []
    for site in sites:
        if site.op.kind == "max pooling with indices":
            continue
        node = site.op.node
        if node.all_input_nodes[0] not in frames.space:
            problems.append(f"{where(node)} ({site.op}) works on something that is no map of the input any more.")
        elif node not in frames.space:  # a single value is left, which has no frame
            alone.append([site])
        else:
            by_output[frames.of(node)].append(site)
    groups = []
    for members in by_output.values():
        by_input: dict[tuple[fx.Node, tuple[int, ...]], list[Site]] = defaultdict(list)
        for site in members:
            by_input[frames.of(site.op.node.all_input_nodes[0]), site.op.stride].append(site)
        if len(by_input) > 1:
            names = ", ".join(f"{where(site.op.node)} ({site.op})" for site in members)
            problems.append(
                f"{names} meet again, but do not come from one grid by one stride, so that no selection fits them all: "
                f"give the branches the same sequence of strides."
            )
            continue
        (group,) = by_input.values()
        # the main branch leads: a convolution over a neighbourhood, with its activation
        lead = max(group, key=lambda site: (site.op.kind == "convolution" and not site.op.pointwise, site.active))
        groups.append([lead, *(site for site in group if site is not lead)])
    return alone + groups


def _make_dense(
    traced: fx.GraphModule, op: Operation, padding: str | None, modules: dict[str, nn.Module], report: ConversionReport
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
        if not op.keeps_size and not (op.strided and all(k <= s for k, s in zip(op.kernel, op.stride))):
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


def where(node: fx.Node) -> str:
    """The place of a node in the words of the network's author."""
    if node.op == "call_module":
        return f"`{node.target}`"
    return f"`{node.name}`"


def _shown(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _leads_to(node: fx.Node, goal: fx.Node) -> bool:
    seen, todo = set(), [node]
    while todo:
        n = todo.pop()
        if n is goal:
            return True
        for user in n.users:
            if user not in seen:
                seen.add(user)
                todo.append(user)
    return False


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
