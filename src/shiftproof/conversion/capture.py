"""The graph of a network, traced so that `train()` and `eval()` keep their meaning."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from shiftproof.layers import Downsample

_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm)


class ConversionError(ValueError):
    """The network cannot be converted; the message says where, why, and what to do."""

    module: str = ""  # the innermost module that could not be traced


class TrainingFlag(nn.Module):
    """Says whether the network is in training mode, to functions that want to know."""

    def forward(self) -> bool:
        """`training`."""
        return self.training


class _Asked:
    """Stands in for `module.training` while tracing, and notes who decides by it."""

    def __init__(self, tracer: _Tracer, name: str) -> None:
        self.tracer, self.name = tracer, name

    def __bool__(self) -> bool:
        self.tracer.asked.add(self.name)
        return self.tracer.mode


class _Tracer(fx.Tracer):
    """Torch's tracer; it looks into every module but norms, our own layers, and those named as `opaque`."""

    def __init__(self, opaque: set[str], mode: bool) -> None:
        super().__init__()
        self.opaque, self.mode = opaque, mode
        self.asked: set[str] = set()
        self.path: list[str] = []

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return (
            module_qualified_name in self.opaque
            or isinstance(m, (*_NORMS, Downsample, _ConvNd))
            or super().is_leaf_module(m, module_qualified_name)
        )

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        self.path.append(self.path_of_module(m))
        out = super().call_module(m, forward, args, kwargs)
        self.path.pop()  # stays where an exception was raised, for the message
        return out

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, _Asked):  # handed to a function such as dropout: ask when the network runs
            return self.create_node("call_module", FLAG, (), {})
        return super().create_arg(a)


FLAG = "shiftproof_training"


def trace(model: nn.Module) -> fx.GraphModule:
    """The graph of a copy of `model`, with all its parameters under their names; the model is left untouched.

    Modules whose path depends on the training mode stay whole where they contain nothing to convert (dropout,
    stochastic depth); others are refused unless both paths are the same. A module that cannot be traced stays whole
    if it has no stride, and is named in `meta["untraced"]`.
    """
    twin = copy.deepcopy(model)
    modes = {name: m.training for name, m in twin.named_modules()}
    opaque: set[str] = set()
    whole: set[str] = set()  # left untraced because they could not be
    while True:
        try:
            graph, asked = _trace_once(twin, opaque | whole, mode=False)
        except ConversionError as error:
            if not error.module or _strided(twin.get_submodule(error.module)):
                raise
            whole.add(error.module)
            continue
        small = {name for name in asked - opaque if name and not _convertible(twin.get_submodule(name))}
        if not small:
            break
        opaque |= small
    if asked:
        other, _ = _trace_once(twin, opaque | whole, mode=True)
        if _text(other) != _text(graph):
            names = ", ".join(f"`{name or 'the model'}`" for name in sorted(asked))
            raise ConversionError(
                f"while tracing: {names} takes another path in training than in evaluation. Split it into modules "
                f"of which the one that decides contains no convolution or pooling."
            )
    for name, m in twin.named_modules():
        m.training = modes.get(name, model.training)
    if any(node.target == FLAG for node in graph.nodes):
        twin.add_module(FLAG, TrainingFlag())
    traced = fx.GraphModule(twin, graph, class_name=type(model).__name__)
    traced._tracer_cls = None  # unpickling traces again, with a tracer of its own
    traced.meta["untraced"] = sorted(whole)
    _keep_unused(twin, traced)
    traced.train(model.training)
    for name, m in traced.named_modules():
        m.training = modes.get(name, model.training)
    return traced


def _trace_once(model: nn.Module, opaque: set[str], mode: bool) -> tuple[fx.Graph, set[str]]:
    tracer = _Tracer(opaque, mode)
    for name, m in model.named_modules():
        m.__dict__["training"] = _Asked(tracer, name)
    _, *rest = inspect.signature(model.forward).parameters.values()
    defaults = {p.name: p.default for p in rest if p.default is not p.empty}
    try:
        graph = tracer.trace(model, concrete_args=defaults or None)
    except Exception as error:
        where = (
            f"`{tracer.path[-1]}` ({type(model.get_submodule(tracer.path[-1])).__name__})"
            if tracer.path
            else (f"the forward pass of {type(model).__name__}")
        )
        refusal = ConversionError(
            f"while tracing {where}: {error}. torch.fx follows tensors, not Python decisions about their values or "
            f"sizes: rewrite that part without them, or convert the modules inside it one by one."
        )
        refusal.module = tracer.path[-1] if tracer.path else ""
        raise refusal from error
    _one_input(graph)
    return graph, tracer.asked


def _one_input(graph: fx.Graph) -> None:
    """Remove the placeholders of arguments that keep their defaults, and torch's assertions that they do."""
    _, *rest = [node for node in graph.nodes if node.op == "placeholder"]
    for node in rest:
        doomed = [node]
        for n in doomed:
            doomed += n.users
        for n in reversed(doomed):
            graph.erase_node(n)
    graph.set_codegen(fx.graph.CodeGen())


def _text(graph: fx.Graph) -> list[str]:
    return [node.format_node() or "" for node in graph.nodes]


def _convertible(module: nn.Module) -> bool:
    """Whether a module contains something that the converter might have to change."""
    pools = ("MaxPool", "AvgPool", "LPPool", "Upsample", "Unpool", "PixelUnshuffle")
    return any(
        isinstance(m, _ConvNd) or type(m).__name__.startswith(pools) for m in module.modules() if m is not module
    )


def _strided(module: nn.Module) -> bool:
    """Whether a module contains something with a stride."""
    strides = (getattr(m, "stride", 1) for m in module.modules())
    return any(s > 1 for stride in strides for s in (stride if isinstance(stride, tuple) else (stride,)))


def _keep_unused(source: nn.Module, target: nn.Module) -> None:
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


def run(traced: fx.GraphModule, x: Tensor) -> dict[fx.Node, Any]:
    """What every node gives for the input `x`."""
    values: dict[fx.Node, Any] = {}

    class Recorder(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            out = super().run_node(n)
            values[n] = fx.node.map_aggregate(out, _copied)  # an operation in place would change it later
            return out

    with torch.no_grad():
        Recorder(traced).run(x)
    return values


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value
