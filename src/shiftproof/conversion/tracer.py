"""Torch's symbolic tracer, taught what values the sizes have and which modules ask for the training mode."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from shiftproof.conversion.example import Inputs
from shiftproof.layers import Downsample, RollToPivot

_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm)
FLAG = "shiftproof_training"
# make tensors of sizes, which may be values of the graph
_FACTORIES = (torch.zeros, torch.ones, torch.full, torch.empty, torch.eye, torch.arange, torch.linspace, torch.rand)
# what a tensor is asked for that does not depend on what it holds
_OF_SHAPE = {"shape", "size", "dim", "ndim", "ndimension", "numel", "nelement", "dtype", "device", "layout", "stride"}
_OF_SHAPE |= {"is_floating_point", "is_complex", "is_cuda", "is_contiguous", "requires_grad", "element_size", "len"}


class TrainingFlag(nn.Module):
    """Returns whether the network is in training mode, for functions such as dropout that take it as an argument."""

    def forward(self) -> bool:
        """`training`."""
        return self.training


class TrainingProbe:
    """Stands in for `module.training` during tracing and notes which modules branch on it."""

    def __init__(self, tracer: Tracer, name: str) -> None:
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


class Tracer(fx.Tracer):
    """Torch's tracer, which knows the value of every node for one input.

    It looks into every module but norms, convolutions, our layers, and those named as `opaque`.
    """

    def __init__(self, opaque: set[str], training: bool, inputs: Inputs) -> None:
        super().__init__()
        self.opaque, self.training, self.inputs = opaque, training, inputs
        self._autowrap_search.append(torch)
        self._autowrap_function_ids |= {id(f) for f in _FACTORIES}
        self.branching: set[str] = set()
        self.path: list[str] = []
        self.values: dict[fx.Node, Any] = {}
        self.data: set[fx.Node] = set()  # nodes whose value depends on what tensors hold
        self.made = 0  # modules made inside `forward`
        self.running = False  # while a value is computed, modules behave as ever

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        """An input for each tensor, under the name of its argument; what else was given, or has a default, stays."""
        known = [*inspect.signature(root_fn).parameters.values()][1:]
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [p.name for p in known if p.kind in kinds]
        names += ["x", *(f"x_{i}" for i in range(1, len(self.inputs.args)))]  # of *args
        given = [*zip(names, self.inputs.args), *self.inputs.kwargs.items()]
        self.given = {name: value for name, value in given if isinstance(value, Tensor)}
        proxies = {name: self.create_proxy("placeholder", name, (), {}) for name in self.given}

        def call(root: nn.Module, *_: Any) -> Any:
            count = len(self.inputs.args)
            args = [proxies.get(name, value) for name, value in given[:count]]
            return root_fn(root, *args, **{name: proxies.get(name, value) for name, value in given[count:]})

        call.__annotations__.clear()  # they are text, which a graph cannot be pickled with
        return call, [self.root, *proxies.values()]

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether the graph keeps a module in one piece."""
        return (
            module_qualified_name in self.opaque
            or isinstance(m, (*_NORMS, Downsample, RollToPivot, _ConvNd))
            or super().is_leaf_module(m, module_qualified_name)
        )

    def path_of_module(self, mod: nn.Module) -> str:
        """The name of a module; one made inside `forward` gets a name."""
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
        """Parameters as nodes of the graph, and as they are while a value is computed."""
        return attr_val if self.running else super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Notes the path of the module, for errors."""
        if self.running:
            return forward(*args, **kwargs)
        self.path.append(self.path_of_module(m))
        out = super().call_module(m, forward, args, kwargs)
        self.path.pop()  # not reached after an exception: the error names the path
        return out

    def create_arg(self, a: Any) -> Any:
        """Arguments as the graph stores them."""
        if isinstance(a, TrainingProbe):  # passed to a function such as dropout: look it up when the network runs
            return self.create_node("call_module", FLAG, (), {})
        return super().create_arg(a)

    def create_node(self, kind: str, *args: Any, **kwargs: Any) -> fx.Node:
        """A new node; that of a constant knows its value."""
        node = super().create_node(kind, *args, **kwargs)
        if kind == "get_attr":
            self._record(node)
        return node

    def _record(self, node: fx.Node) -> Any:
        """Note the value of a node."""
        before, self.running = self.running, True
        try:
            value = self.values[node] = self._run(node)
        finally:
            self.running = before
        return value

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """A new node with its value, and whether the value depends on what tensors hold."""
        value = self._record(node)
        known = all(n not in self.data for n in node.all_input_nodes) and node.op != "placeholder"
        if isinstance(value, Tensor) or not (known or self._reads_shape(node)):
            self.data.add(node)
        return _Valued(node, self)

    def to_bool(self, obj: fx.Proxy) -> bool:
        """The branch that a value takes, where it is known from shapes."""
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
        asked_again = isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value)  # one by one
        return name in _OF_SHAPE or asked_again

    def _run(self, node: fx.Node) -> Any:
        """What a node returns, in evaluation mode."""
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: self.values.get(n, self.training))
        with torch.no_grad():
            if node.op == "placeholder":
                return self.given[str(node.target)]
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
