"""The sites of a network: its operations with a stride, and where the downsampling that replaces the stride goes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from shiftproof.conversion.frames import Modules, Values
from shiftproof.conversion.operation import Operation, type_name

# words in the names of operations that mix positions or channels: neither norms nor activations
_MIXING = ("linear", "conv", "matmul", "einsum", "getitem", "pool", "interpolate")


@dataclass
class Site:
    """An operation with a stride, and the last of the norms and activations that follow it alone."""

    op: Operation
    end: fx.Node
    activated: bool  # whether there is an activation between the operation and `end`

    @property
    def downsamples_input(self) -> bool:
        """A 1 x 1 convolution without activation commutes with the downsampling, and costs less after it."""
        return self.op.pointwise and not self.activated

    @property
    def map(self) -> fx.Node:
        """The node whose maps are downsampled."""
        return self.op.input if self.downsamples_input else self.end


def find_site(op: Operation, values: Values, modules: Modules) -> Site:
    """The site of an operation with a stride."""
    end, activated = op.node, False
    while len(end.users) == 1 and op.kind != "slice":
        (user,) = end.users
        if not _is_norm_or_activation(user, end, op, values, modules) or _is_random(user, end, values, modules):
            break
        activated = activated or not _is_affine(user, end, values, modules)
        end = user
    return Site(op, end, activated)


def _is_norm_or_activation(user: fx.Node, node: fx.Node, op: Operation, values: Values, modules: Modules) -> bool:
    """Whether subsampling commutes with `user`, and `user` has no weights between positions or channels."""
    name = type_name(user, modules).lower()
    if user.op not in ("call_module", "call_function", "call_method") or any(word in name for word in _MIXING):
        return False
    x, y = values[node], values[user]
    if not isinstance(x, Tensor) or not isinstance(y, Tensor) or x.shape != y.shape:
        return False
    others = (values[n] for n in user.all_input_nodes if n is not node)
    if any(isinstance(v, Tensor) and v.shape[2:] == x.shape[2:] for v in others):
        return False  # maps meet here
    every_second = (slice(None), slice(None), *(slice(None, None, 2) for _ in op.stride))
    try:
        if 1 in x.shape[2:]:  # subsampling a single value tells nothing: try a larger map, as there is at stride 1
            x = torch.randn(*x.shape[:2], *(4 if n == 1 else n for n in x.shape[2:]), dtype=x.dtype, device=x.device)
            y = _call(user, node, x, values, modules)
        subsampled = _call(user, node, x[every_second], values, modules)
        return torch.allclose(subsampled, y[every_second], rtol=1e-4, atol=1e-5)
    except (RuntimeError, ValueError, TypeError):
        return False


def _is_affine(user: fx.Node, node: fx.Node, values: Values, modules: Modules) -> bool:
    x = values[node]
    a, b = torch.randn_like(x), torch.randn_like(x)
    at_a, at_b, at_sum, at_zero = (_call(user, node, t, values, modules) for t in (a, b, a + b, torch.zeros_like(x)))
    return torch.allclose(at_a + at_b, at_sum + at_zero, rtol=1e-3, atol=1e-3)


def _is_random(user: fx.Node, node: fx.Node, values: Values, modules: Modules) -> bool:
    """Whether `user` draws random numbers in training, like dropout: it must draw for as many values as before."""
    training = {str(user.target): copy.deepcopy(modules[str(user.target)]).train()} if user.op == "call_module" else {}
    flags = {n: True if isinstance(v, bool) else v for n, v in values.items() if n in user.all_input_nodes}
    try:
        first, second = (_call(user, node, values[node], flags, {**modules, **training}) for _ in range(2))
    except (RuntimeError, ValueError):
        return False
    return not torch.equal(first, second)


def _call(node: fx.Node, replaced: fx.Node, value: Tensor, values: Values, modules: Modules) -> Any:
    """What `node` returns if its input `replaced` has another value."""
    fill: Callable[[fx.Node], Any] = lambda n: value.clone() if n is replaced else values[n]  # noqa: E731
    args, kwargs = fx.map_arg(node.args, fill), fx.map_arg(node.kwargs, fill)
    with torch.no_grad():
        if node.op == "call_module":
            return modules[str(node.target)](*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]
