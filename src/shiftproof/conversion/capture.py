"""The graph of a network, recorded so that `train()` and `eval()` keep their meaning."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from shiftproof.conversion.error import ConversionError
from shiftproof.layers import Downsample, RollToPivot

_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm)
_POOLS = ("MaxPool", "AvgPool", "LPPool", "Upsample", "Unpool", "PixelUnshuffle")
_FLAG = "shiftproof_training"


class TrainingFlag(nn.Module):
    """Returns whether the network is in training mode, for functions such as dropout that take it as an argument."""

    def forward(self) -> bool:
        """`training`."""
        return self.training


class _TrainingProbe:
    """Stands in for `module.training` during tracing and notes which modules branch on it."""

    def __init__(self, tracer: _Tracer, name: str) -> None:
        self.tracer, self.name = tracer, name

    def __bool__(self) -> bool:
        self.tracer.branching.add(self.name)
        return self.tracer.training


class _Tracer(fx.Tracer):
    """Torch's tracer; it looks into every module but norms, convolutions, our layers, and those named as `opaque`."""

    def __init__(self, opaque: set[str], training: bool) -> None:
        super().__init__()
        self.opaque, self.training = opaque, training
        self.branching: set[str] = set()
        self.path: list[str] = []

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return (
            module_qualified_name in self.opaque
            or isinstance(m, (*_NORMS, Downsample, RollToPivot, _ConvNd))
            or super().is_leaf_module(m, module_qualified_name)
        )

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        self.path.append(self.path_of_module(m))
        out = super().call_module(m, forward, args, kwargs)
        self.path.pop()  # not reached after an exception: the error names the path
        return out

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, _TrainingProbe):  # passed to a function such as dropout: look it up when the network runs
            return self.create_node("call_module", _FLAG, (), {})
        return super().create_arg(a)


def trace(model: nn.Module) -> tuple[fx.GraphModule, list[str]]:
    """The graph of a copy of `model` in evaluation mode, with all its parameters, and the modules it could not trace.

    A module whose path depends on the training mode stays in one piece if it contains nothing to convert (dropout,
    stochastic depth); otherwise both paths must be the same. A module that cannot be traced stays in one piece if it
    has no stride; otherwise it is an error.
    """
    twin = copy.deepcopy(model)
    opaque: set[str] = set()
    untraceable: set[str] = set()
    while True:
        try:
            graph, branching = _trace_once(twin, opaque | untraceable, training=False)
        except ConversionError as error:
            if not error.module or _has_stride(twin.get_submodule(error.module)):
                raise
            untraceable.add(error.module)
            continue
        found = {name for name in branching - opaque if name and not _convertible(twin.get_submodule(name))}
        if not found:
            break
        opaque |= found
    if branching:
        other, _ = _trace_once(twin, opaque | untraceable, training=True)
        if [n.format_node() for n in other.nodes] != [n.format_node() for n in graph.nodes]:
            names = ", ".join(f"`{name or 'the model'}`" for name in sorted(branching))
            raise ConversionError(
                f"while tracing: {names} does something else in training than in evaluation.",
                "Move the code that depends on `training` into a module without convolutions and poolings.",
            )
    if any(node.target == _FLAG for node in graph.nodes):
        twin.add_module(_FLAG, TrainingFlag())
    traced = fx.GraphModule(twin, graph, class_name=type(model).__name__)
    traced._tracer_cls = None  # unpickling traces again, with a tracer of its own
    _keep_unused_tensors(twin, traced)
    return traced.eval(), sorted(untraceable)


def _trace_once(model: nn.Module, opaque: set[str], training: bool) -> tuple[fx.Graph, set[str]]:
    """The graph, and the modules that branch on the training mode."""
    tracer = _Tracer(opaque, training)
    for name, m in model.named_modules():
        m.training = _TrainingProbe(tracer, name)
    _, *rest = inspect.signature(model.forward).parameters.values()
    defaults = {p.name: p.default for p in rest if p.default is not p.empty}
    try:
        graph = tracer.trace(model, concrete_args=defaults or None)
    except Exception as error:
        path = tracer.path[-1] if tracer.path else ""
        kind = type(model.get_submodule(path)).__name__
        raise ConversionError(
            f"while tracing {f'`{path}` ({kind})' if path else f'the forward pass of {kind}'}: {error}.",
            "The converter records the operations once for all inputs, so no `if`, loop or Python number may depend on "
            "the values or the shape of a tensor there. Use tensor operations such as `torch.where` instead, or "
            "convert the modules inside it one by one.",
            module=path,
        ) from error
    _remove_default_arguments(graph)
    return graph, tracer.branching


def _remove_default_arguments(graph: fx.Graph) -> None:
    """Remove the inputs that keep their defaults, and torch's assertions that they do."""
    _, *rest = [node for node in graph.nodes if node.op == "placeholder"]
    for node in rest:
        doomed = [node]
        for n in doomed:
            doomed += n.users
        for n in reversed(doomed):
            graph.erase_node(n)
    graph.set_codegen(fx.graph.CodeGen())


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


def copy_before_in_place(traced: fx.GraphModule, x: Tensor) -> None:
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
        Watcher(traced).run(x.clone())
    for node, changed in found:
        for user in [user for user in changed.users if order.get(user, 0) > order[node]]:
            user.replace_input_with(changed, node)  # it comes later and reads the changed map
        with traced.graph.inserting_before(node):
            node.replace_input_with(changed, traced.graph.call_method("clone", (changed,)))
    traced.recompile()


def node_values(traced: fx.GraphModule, x: Tensor) -> dict[fx.Node, Any]:
    """What every node returns for the input `x`."""
    values: dict[fx.Node, Any] = {}

    class Recorder(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            out = super().run_node(n)
            # a copy, because an in-place operation would change it later
            values[n] = fx.node.map_aggregate(out, lambda v: v.clone() if isinstance(v, Tensor) else v)
            return out

    with torch.no_grad():
        Recorder(traced).run(x)
    return values
