"""The operations of a network that make its maps smaller, and which of them have to share one selection.

Sites whose inputs lie on one grid and whose outputs meet again form a group.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from shiftproof.conversion.frames import Frames, Operation, Values, adaptive

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


def follow(op: Operation, values: Values, modules: dict[str, nn.Module]) -> Site:
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
        if 1 in x.shape[2:]:  # at stride 1 there is more of it, and of one value nothing can be left out
            x = torch.randn(*x.shape[:2], *(4 if n == 1 else n for n in x.shape[2:]), dtype=x.dtype, device=x.device)
            y = _apply(user, node, x, values, modules)
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


def unsupported(
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


def group_sites(sites: list[Site], frames: Frames, problems: list[str]) -> list[list[Site]]:
    """Sites whose maps meet again, leader first; what cannot be grouped becomes a problem."""
    by_output: dict[fx.Node, list[Site]] = defaultdict(list)
    alone: list[list[Site]] = []
    for site in sites:
        if site.op.kind == "max pooling with indices":
            continue
        node = site.op.node
        if node.all_input_nodes[0] not in frames.space:
            problems.append(f"{where(node)} ({site.op}) works on something that is no map of the input any more.")
        elif node not in frames.space:  # a single value is left, which has no frame: it may meet any other
            _join(alone, site, frames)
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
        groups.append(group)
    return [_led(group) for group in alone + groups]


def _join(groups: list[list[Site]], site: Site, frames: Frames) -> None:
    """Add a site to a group that comes from the same grid by the same stride, unless one needs the other's outcome."""
    here = site.op.node.all_input_nodes[0]
    for group in groups:
        first = group[0].op
        same = frames.of(first.node.all_input_nodes[0]) is frames.of(here) and first.stride == site.op.stride
        if same and not any(_leads_to(other.op.node, here) for other in group):
            return group.append(site)
    return groups.append([site])


def _led(group: list[Site]) -> list[Site]:
    """The main branch leads: a convolution over a neighbourhood, with its activation."""
    lead = max(group, key=lambda site: (site.op.kind == "convolution" and not site.op.pointwise, site.active))
    return [lead, *(site for site in group if site is not lead)]


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
