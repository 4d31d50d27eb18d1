"""The graph of a network, recorded so that `train()` and `eval()` keep their meaning."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.utils import _pytree as pytree

from shiftproof.conversion.error import ConversionError
from shiftproof.layers import Downsample, RollToPivot

_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm)
_POOLS = ("MaxPool", "AvgPool", "LPPool", "Upsample", "Unpool", "PixelUnshuffle")
_FLAG = "shiftproof_training"
# what a tensor is asked for that does not depend on what it holds
_OF_SHAPE = {"shape", "size", "dim", "ndim", "ndimension", "numel", "nelement", "dtype", "device", "layout", "stride"}
_OF_SHAPE |= {"is_floating_point", "is_complex", "is_cuda", "is_contiguous", "requires_grad", "element_size", "len"}


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


class _Valued(fx.Proxy):
    """What stands for a value during tracing, and knows it: sizes may be made Python numbers, and decide."""

    def __int__(self) -> int:
        return int(self._known())

    __index__ = __int__

    def __float__(self) -> float:
        return float(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __getattr__(self, k: str) -> _Attribute:
        return _Attribute(self, k)

    def _known(self) -> Any:
        """The value, if it follows from shapes and not from what tensors hold."""
        tracer: Any = self.tracer
        if self.node in tracer.data:
            raise fx.proxy.TraceError("symbolically traced variables cannot be used as inputs to control flow")
        return tracer.values[self.node]


class _Attribute(_Valued, fx.proxy.Attribute):
    """An attribute of it, such as `shape`, or a method that is called next."""


class _Tracer(fx.Tracer):
    """Torch's tracer, which knows the value of every node for one input.

    It looks into every module but norms, convolutions, our layers, and those named as `opaque`.
    """

    def __init__(self, opaque: set[str], training: bool, x: Tensor) -> None:
        super().__init__()
        self.opaque, self.training, self.x = opaque, training, x
        self.branching: set[str] = set()
        self.path: list[str] = []
        self.values: dict[fx.Node, Any] = {}
        self.data: set[fx.Node] = set()  # nodes whose value depends on what tensors hold
        self.made = 0  # modules made inside `forward`
        self.running = False  # while a value is computed, modules behave as ever

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        """One input, under its name; what has a default keeps it."""
        names = [*inspect.signature(root_fn).parameters.values()][1:]
        name = names[0].name if names and names[0].kind is not inspect.Parameter.VAR_POSITIONAL else "x"
        return root_fn, [self.root, self.create_proxy("placeholder", name, (), {})]

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return (
            module_qualified_name in self.opaque
            or isinstance(m, (*_NORMS, Downsample, RollToPivot, _ConvNd))
            or super().is_leaf_module(m, module_qualified_name)
        )

    def path_of_module(self, mod: nn.Module) -> str:
        try:
            return super().path_of_module(mod)
        except NameError:  # made inside `forward`
            if any(True for _ in mod.parameters()):
                raise
            assert self.submodule_paths is not None
            self.made += 1
            name = f"made_in_forward_{self.made}"
            self.root.add_module(name, mod)
            self.submodule_paths[mod] = name
            return name

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        return attr_val if self.running else super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self.running:
            return forward(*args, **kwargs)
        self.path.append(self.path_of_module(m))
        out = super().call_module(m, forward, args, kwargs)
        self.path.pop()  # not reached after an exception: the error names the path
        return out

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, _TrainingProbe):  # passed to a function such as dropout: look it up when the network runs
            return self.create_node("call_module", _FLAG, (), {})
        return super().create_arg(a)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        self.running = True
        try:
            value = self.values[node] = self._run(node)
        finally:
            self.running = False
        known = all(n not in self.data for n in node.all_input_nodes) and node.op != "placeholder"
        if isinstance(value, Tensor) or not (known or self._reads_shape(node)):
            self.data.add(node)
        return _Valued(node, self)

    def to_bool(self, obj: fx.Proxy) -> bool:
        return bool(obj._known()) if isinstance(obj, _Valued) else super().to_bool(obj)

    def iter(self, obj: fx.Proxy) -> Any:
        """The entries of a tuple or of sizes, one proxy each."""
        value, entries = self.values.get(obj.node), cast(Any, obj)
        return (entries[i] for i in range(len(value))) if isinstance(value, (tuple, list)) else super().iter(obj)

    def _reads_shape(self, node: fx.Node) -> bool:
        """Whether a node asks for what all inputs of one shape share."""
        if node.op == "call_function" and node.target is getattr:
            return node.args[1] in _OF_SHAPE
        name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
        value = self.values[node]
        tensors = isinstance(value, (tuple, list)) and any(
            isinstance(v, Tensor) for v in value
        )  # asked again, one by one
        return name in _OF_SHAPE or tensors

    def _run(self, node: fx.Node) -> Any:
        """What a node returns, in evaluation mode."""
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: self.values.get(n, self.training))
        with torch.no_grad():
            if node.op == "placeholder":
                return self.x
            if node.op == "get_attr":
                return functools.reduce(getattr, str(node.target).split("."), self.root)
            if node.op == "call_method":
                return getattr(args[0], str(node.target))(*args[1:], **kwargs)
            if node.op == "call_function":
                return node.target(*args, **kwargs)  # type: ignore[operator]
            module = self.root.get_submodule(str(node.target))
            probes = [(m, m.training) for m in module.modules()]
            for m, _ in probes:
                m.training = False
            try:
                return module(*args, **kwargs)
            finally:
                for m, probe in probes:
                    m.training = probe


class Trace(NamedTuple):
    """A network as a graph, and what a user should know about it."""

    graph: fx.GraphModule
    untraced: list[str]  # modules that stay in one piece
    training_differs: list[str]  # modules whose path in evaluation is the one that was recorded
    one_size: bool  # whether sizes became Python numbers, so that the graph fits the recorded ones alone


def trace(model: nn.Module, x: Tensor) -> Trace:
    """The graph of a copy of `model` in evaluation mode, with all its parameters, recorded with the input `x`.

    A module whose path depends on the training mode stays in one piece if it contains nothing to convert (dropout,
    stochastic depth); otherwise its path in evaluation is recorded. A module that cannot be traced stays in one piece
    if it has no stride; otherwise it is an error.
    """
    twin = copy.deepcopy(model)
    opaque: set[str] = set()
    untraceable: set[str] = set()
    while True:
        try:
            graph, tracer = _trace_once(twin, opaque | untraceable, False, x)
        except ConversionError as error:
            if not error.module or _has_stride(twin.get_submodule(error.module)):
                raise
            untraceable.add(error.module)
            continue
        found = {name for name in tracer.branching - opaque if name and not _convertible(twin.get_submodule(name))}
        if not found:
            break
        opaque |= found
    differs = sorted(tracer.branching) if tracer.branching and _differs(twin, graph, opaque | untraceable, x) else []
    if any(node.target == _FLAG for node in graph.nodes):
        twin.add_module(_FLAG, TrainingFlag())
    traced = fx.GraphModule(twin, graph, class_name=type(model).__name__)
    traced._tracer_cls = None  # unpickling traces again, with a tracer of its own
    _keep_unused_tensors(twin, traced)
    traced.eval()
    if not _agree(model, traced, torch.cat([x, x[:1]])):
        raise ConversionError(
            "the graph of the network fits one batch size only: its code makes a Python number of it.",
            "Use `x.shape[0]` or -1 as it is, without `int()`.",
        )
    larger = torch.rand(1, x.shape[1], *(n + 32 for n in x.shape[2:]), dtype=x.dtype, device=x.device)
    return Trace(traced, sorted(untraceable), differs, not _agree(model, traced, larger))


def _agree(model: nn.Module, traced: nn.Module, x: Tensor) -> bool:
    """Whether the graph answers like the network, if the network takes such inputs at all."""
    network = copy.deepcopy(model).eval()
    with torch.no_grad():
        try:
            expected = network(x.clone())
        except Exception:  # whatever the network raises
            return True
        try:
            found = traced(x.clone())
        except (RuntimeError, ValueError, TypeError, IndexError):
            return False
    ours, theirs = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    return len(ours) == len(theirs) and all(
        a.shape == b.shape and torch.allclose(a, b, 1e-3, 1e-4, True) if isinstance(a, Tensor) else a == b
        for a, b in zip(ours, theirs)
    )


def _differs(model: nn.Module, graph: fx.Graph, opaque: set[str], x: Tensor) -> bool:
    """Whether the network takes another path in training."""
    try:
        other, _ = _trace_once(model, opaque, True, x)
    except ConversionError:
        return True
    return [n.format_node() for n in other.nodes] != [n.format_node() for n in graph.nodes]


def _trace_once(model: nn.Module, opaque: set[str], training: bool, x: Tensor) -> tuple[fx.Graph, _Tracer]:
    """The graph, and the tracer that knows how it came about."""
    tracer = _Tracer(opaque, training, x.clone())
    for name, m in model.named_modules():
        m.training = _TrainingProbe(tracer, name)
    try:
        graph = tracer.trace(model)
    except Exception as error:
        path = tracer.path[-1] if tracer.path else ""
        kind = type(model.get_submodule(path)).__name__
        raise ConversionError(
            f"while tracing {f'`{path}` ({kind})' if path else f'the forward pass of {kind}'}: {error}.",
            "The converter records the operations once for all inputs, so no `if`, loop or Python number may depend on "
            "the values of a tensor there. Use tensor operations such as `torch.where` instead, or convert the modules "
            "inside it one by one.",
            module=path,
        ) from error
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
