"""The graph of a network, recorded so that `train()` and `eval()` keep their meaning."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.conv import _ConvNd

from shiftproof.conversion.error import ConversionError
from shiftproof.conversion.example import Inputs, copy_in_evaluation
from shiftproof.conversion.tracer import FLAG, Tracer, TrainingFlag, TrainingProbe
from shiftproof.invariance.trials import copy_of
from shiftproof.tensors import leaves

_POOLS = ("MaxPool", "AvgPool", "LPPool", "Upsample", "Unpool", "PixelUnshuffle")


class Trace(NamedTuple):
    """A network as a graph, and what a user should know about it."""

    graph: fx.GraphModule
    untraced: list[str]  # modules that stay in one piece
    training_differs: list[str]  # modules whose path in evaluation is the one that was recorded
    one_size: bool  # whether sizes became Python numbers, so that the graph fits the recorded ones alone


def trace(model: nn.Module, inputs: Inputs) -> Trace:
    """The graph of a copy of `model` in evaluation mode, with all its parameters, recorded with these inputs.

    A module whose path depends on the training mode stays in one piece if it contains nothing to convert (dropout,
    stochastic depth); otherwise its path in evaluation is recorded. A module that cannot be traced stays in one piece
    if it has no stride; otherwise it is an error.
    """
    twin = copy_in_evaluation(model)
    opaque: set[str] = set()
    untraceable: set[str] = set()
    while True:
        try:
            graph, tracer = _trace_once(twin, opaque | untraceable, False, inputs)
        except ConversionError as error:
            if not error.module or _has_stride(twin.get_submodule(error.module)):
                raise
            untraceable.add(error.module)
            continue
        found = {name for name in tracer.branching - opaque if name and not _convertible(twin.get_submodule(name))}
        if not found:
            break
        opaque |= found
    differs = (
        sorted(tracer.branching) if tracer.branching and _differs(twin, graph, opaque | untraceable, inputs) else []
    )
    if any(node.target == FLAG for node in graph.nodes):
        twin.add_module(FLAG, TrainingFlag())
    traced = fx.GraphModule(twin, graph, class_name=type(model).__name__)
    traced._tracer_cls = None  # unpickling traces again, with a tracer of its own
    _keep_unused_tensors(twin, traced)
    traced.eval()
    if not _agree(model, traced, inputs.one_more()):
        raise ConversionError(
            "the graph of the network fits one batch size only: its code makes a Python number of it.",
            "Use `x.shape[0]` or -1 as it is, without `int()`.",
        )
    return Trace(traced, sorted(untraceable), differs, not _agree(model, traced, inputs.larger()))


def _agree(model: nn.Module, traced: nn.Module, inputs: Inputs) -> bool:
    """Whether the graph answers like the network, if the network takes such inputs at all."""
    network = copy_in_evaluation(model)
    with torch.no_grad():
        try:
            expected = inputs.call(network)
        except Exception:  # whatever the network raises
            return True
        try:
            found = inputs.run(traced)
        except (RuntimeError, ValueError, TypeError, IndexError):
            return False
    ours, theirs = leaves(found), leaves(expected)
    return len(ours) == len(theirs) and all(
        isinstance(b, Tensor) and a.shape == b.shape and torch.allclose(a, b, 1e-3, 1e-4, True)
        if isinstance(a, Tensor)
        else a is b or (type(a) is type(b) and bool(a == b))
        for a, b in zip(ours, theirs)
    )


def _differs(model: nn.Module, graph: fx.Graph, opaque: set[str], inputs: Inputs) -> bool:
    """Whether the network takes another path in training."""
    try:
        other, _ = _trace_once(model, opaque, True, inputs)
    except ConversionError:
        return True
    return [n.format_node() for n in other.nodes] != [n.format_node() for n in graph.nodes]


def _trace_once(model: nn.Module, opaque: set[str], training: bool, inputs: Inputs) -> tuple[fx.Graph, Tracer]:
    """The graph, and the tracer that knows how it came about."""
    tracer = Tracer(opaque, training, inputs.change(copy_of))
    for name, m in model.named_modules():
        m.training = TrainingProbe(tracer, name)
    try:
        graph = tracer.trace(model)
    except Exception as error:
        path = tracer.path[-1] if tracer.path else ""
        kind, reason = type(model.get_submodule(path)).__name__, str(error) or type(error).__name__
        raise ConversionError(
            f"while tracing {f'`{path}` ({kind})' if path else f'the forward pass of {kind}'}: {reason}.",
            "The converter records the operations once for all inputs, so no `if`, loop or Python number may depend on "
            "the values of a tensor there. Use tensor operations such as `torch.where` instead, or convert the modules "
            "inside it one by one.",
            module=path,
        ) from error
    for node in graph.nodes:  # or the code of the graph would wrap names for every later trace
        node.meta.pop("is_wrapped", None)
    return graph, tracer


def _convertible(module: nn.Module) -> bool:
    """Whether a module contains something that the converter might have to change."""
    inside = (m for m in module.modules() if m is not module)
    return any(isinstance(m, _ConvNd) or type(m).__name__.startswith(_POOLS) for m in inside)


def _has_stride(module: nn.Module) -> bool:
    """Whether a module contains something with a stride above 1."""
    strides = (getattr(m, "stride", 1) for m in module.modules())
    return any(s > 1 for stride in strides for s in (stride if isinstance(stride, tuple) else (stride,)))


def _keep_unused_tensors(source: nn.Module, target: nn.Module) -> None:
    """Give `target` the parameters and buffers that its graph does not use, so that the keys stay the same."""
    have = set(target.state_dict())
    for name, value in source.state_dict(keep_vars=True).items():
        if name in have or not isinstance(value, Tensor):
            continue
        *path, last = name.split(".")
        parent = target
        for part in path:
            if not hasattr(parent, part):
                parent.add_module(part, nn.Module())
            parent = getattr(parent, part)
        if isinstance(value, nn.Parameter):
            parent.register_parameter(last, value)
        else:
            parent.register_buffer(last, value)


def copy_before_in_place(traced: fx.GraphModule, inputs: Inputs) -> None:
    """Let an operation that changes a map in place work on a copy if other nodes read that map too.

    Otherwise a reader that the converter moves down would see the changed map.
    """
    order = {node: i for i, node in enumerate(traced.graph.nodes)}
    found: list[tuple[fx.Node, fx.Node]] = []

    class Watcher(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            before = {i: v._version for i in n.all_input_nodes if isinstance(v := self.env[i], Tensor)}
            out = super().run_node(n)
            found.extend((n, i) for i, version in before.items() if self.env[i]._version > version and len(i.users) > 1)
            return out

    with torch.no_grad():
        inputs.run(Watcher(traced).run)
    for node, changed in found:
        for user in [user for user in changed.users if order.get(user, 0) > order[node]]:
            user.replace_input_with(changed, node)  # it comes later and reads the changed map
        with traced.graph.inserting_before(node):
            node.replace_input_with(changed, traced.graph.call_method("clone", (changed,)))
    traced.recompile()


def node_values(traced: fx.GraphModule, inputs: Inputs) -> dict[fx.Node, Any]:
    """What every node returns for these inputs."""
    values: dict[fx.Node, Any] = {}

    class Recorder(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            out = super().run_node(n)
            # a copy, because an in-place operation would change it later
            values[n] = fx.node.map_aggregate(out, lambda v: v.clone() if isinstance(v, Tensor) else v)
            return out

    with torch.no_grad():
        inputs.run(Recorder(traced).run)
    return values
