"""Check a converted network on an example: every stage on its own, then the whole."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn

from shiftproof.conversion.capture import ConversionError, run
from shiftproof.conversion.dense import Together
from shiftproof.conversion.frames import Frames, place
from shiftproof.conversion.report import ConversionReport
from shiftproof.conversion.sites import where
from shiftproof.invariance import same_bits
from shiftproof.layers import Downsample
from shiftproof.layers.align import RollToPivot

_SHIFTS = ((1, 2, 1), (3, 1, 2), (2, 5, 3))
_TRIES = 12  # shifts under which every operation before the first downsampling is compared bit for bit


def verify(traced: fx.GraphModule, x: Tensor, report: ConversionReport, strict: bool, aligned: bool) -> None:
    """Refuse (or with `strict=False` report) what keeps the network from the law its method claims.

    Where the input is `aligned` once, the stages behind it claim nothing.
    """
    if report.law == "none":
        return
    x = x.contiguous()  # as its shifted copies are: another memory layout may round differently
    problems = [] if aligned else stages(traced, x)
    if report.law == "exact-invariant" and not problems and not aligned:
        problems = inexact(traced, x)
    if report.law == "exact-invariant" and not problems and not whole(traced, x):
        problems = [
            "as a whole the network is not invariant bit for bit: look for an operation before the first downsampling "
            "whose rounding depends on positions, such as a mean over the map."
        ]
    if problems and strict:
        raise ConversionError(
            "the converted network would not keep its law:\n"
            + "\n".join(f"* {p}" for p in problems)
            + "\nWith `strict=False` it is returned nevertheless, and the report says so."
        )
    if problems:
        report.left += problems
        report.law = "none"


def whole(traced: fx.GraphModule, x: Tensor) -> bool:
    """Whether a few circular shifts of `x` leave every bit of the output as it is."""
    dims = range(2, x.dim())
    reference = _output(traced, x)
    return all(_same(reference, _output(traced, x.roll(shift[: x.dim() - 2], tuple(dims)))) for shift in _SHIFTS)


def _output(traced: fx.GraphModule, x: Tensor) -> Any:
    values = run(traced, x)
    return next(v for node, v in values.items() if node.op == "output")


def stages(traced: fx.GraphModule, x: Tensor) -> list[str]:
    """Run the network on `x`, then again with the maps of every stage shifted its own way: they must follow.

    A stage is what lies between two downsamplings; behind the first one the whole network sees aligned maps and is
    invariant whatever it does, so each stage is looked at alone. What breaks a stage comes back as sentences.
    """
    modules = dict(traced.named_modules())
    separators = _separators(traced, modules)
    values = run(traced, x)
    frames = Frames(traced.graph, values, x.dim() - 2, separators, set())
    amounts: dict[fx.Node, tuple[int, ...]] = {}

    def amount(node: fx.Node) -> tuple[int, ...]:
        frame = frames.of(node)
        if frame not in amounts:
            k = len(amounts)
            amounts[frame] = tuple(
                1 + k * (axis + 1) % (size - 1) if size > 1 else 0 for axis, size in enumerate(frames.space[node])
            )
        return amounts[frame]

    def moved(node: fx.Node, value: Any) -> list[Any]:
        """`value` shifted with its frame, along every pair of axes that may be the spatial ones."""
        if isinstance(value, (tuple, list)):
            options = [moved(node, v) for v in value]
            return [type(value)(o) for o in zip(*options)]
        space = frames.space[node]
        first = place(value, space)
        if first is None:
            return [value]
        axes = [a for a in range(1, value.dim() - len(space) + 1) if tuple(value.shape[a : a + len(space)]) == space]
        axes.sort(key=lambda a: a != first)
        return [value.roll(amount(node), tuple(range(a, a + len(space)))) for a in axes]

    problems = _apart(separators, frames, modules)
    behind = _behind(traced.graph, separators)
    ahead = _ahead(traced.graph, separators)

    class Shifted(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            if (n.op == "placeholder" and n in frames.space) or n in separators:
                return moved(n, values[n])[0] if n in frames.space else values[n]
            out = super().run_node(n)
            if n not in frames.space or n.op == "output":
                return out
            if any(_close(out, option) for option in moved(n, values[n])):
                return out
            if n in ahead or n not in behind:  # a stage, or a network before its first downsampling
                problems.append(
                    f"{where(n)} does not move with its map: it treats positions differently, or joins maps that do "
                    f"not share a selection."
                )
            return moved(n, values[n])[0]

    with torch.no_grad():
        Shifted(traced).run(x.clone())
    return problems


def inexact(traced: fx.GraphModule, x: Tensor) -> list[str]:
    """What lies before the first downsampling and does not move with its map bit for bit, as sentences.

    Behind it all shifts see one and the same map. Each operation is looked at on its own, with inputs moved exactly,
    for the outcome of a sum over positions often rounds alike all the same.
    """
    modules = dict(traced.named_modules())
    separators = _separators(traced, modules)
    values = run(traced, x)
    sizes = tuple(x.shape[2:])
    frames = Frames(traced.graph, values, len(sizes), separators, set())
    early = set(traced.graph.nodes) - _behind(traced.graph, separators)
    found: dict[fx.Node, None] = {}

    class Once(fx.Interpreter):
        def __init__(self, shift: tuple[int, ...]) -> None:
            super().__init__(traced)
            self.shift = shift

        def run_node(self, n: fx.Node) -> Any:
            if n not in early or n.op == "output" or frames.space.get(n, sizes) != sizes:
                return values[n]
            wanted = values[n]
            if n in frames.space:
                wanted = _turned(wanted, sizes, self.shift)
            if n.op != "placeholder" and not _same(super().run_node(n), wanted):
                found[n] = None
            return wanted

    with torch.no_grad():
        for k in range(1, _TRIES):
            Once(tuple(k * (axis + 1) % size for axis, size in enumerate(sizes))).run(x.clone())
    return [
        f"{where(n)} does not round alike at every position, as a mean or a norm over the map does not: put it behind "
        f"the first downsampling, or take one that looks at each position alone."
        for n in found
    ]


def _turned(value: Any, space: tuple[int, ...], shift: tuple[int, ...]) -> Any:
    """Maps, in containers too, circularly shifted along their spatial axes, in the memory layout they had."""
    if isinstance(value, (tuple, list)):
        return type(value)(_turned(v, space, shift) for v in value)
    first = place(value, space)
    if first is None:
        return value
    return torch.empty_like(value).copy_(value.roll(shift, tuple(range(first, first + len(space)))))


def _separators(traced: fx.GraphModule, modules: dict[str, nn.Module]) -> set[fx.Node]:
    """The layers that make maps smaller, or turn them."""
    kinds = (Downsample, Together, RollToPivot)
    return {n for n in traced.graph.nodes if n.op == "call_module" and isinstance(modules[str(n.target)], kinds)}


def _apart(separators: set[fx.Node], frames: Frames, modules: dict[str, nn.Module]) -> list[str]:
    """Layers that select each for itself although their maps meet again."""
    by_frame: dict[fx.Node, list[fx.Node]] = {}
    for node in separators:
        module = modules[str(node.target)]
        if node in frames.space and (
            isinstance(module, Together) or (isinstance(module, Downsample) and module.selects)
        ):
            by_frame.setdefault(frames.of(node), []).append(node)
    return [
        f"{' and '.join(sorted(map(where, nodes)))} select each for itself, but their maps meet again."
        for nodes in by_frame.values()
        if len(nodes) > 1
    ]


def _behind(graph: fx.Graph, separators: set[fx.Node]) -> set[fx.Node]:
    """Nodes all of whose maps have passed a downsampling."""
    fresh: set[fx.Node] = set()  # those that see the input itself
    for node in graph.nodes:
        if node not in separators and (node.op == "placeholder" or any(n in fresh for n in node.all_input_nodes)):
            fresh.add(node)
    return set(graph.nodes) - fresh


def _ahead(graph: fx.Graph, separators: set[fx.Node]) -> set[fx.Node]:
    """Nodes whose maps are yet to be made smaller."""
    out: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if any(user in separators or user in out for user in node.users):
            out.add(node)
    return out


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, (tuple, list)):
        return all(_close(p, q) for p, q in zip(a, b))
    if not isinstance(a, Tensor) or a.shape != b.shape:
        return False
    scale = float(b.abs().max()) if b.numel() else 0.0
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4 * scale + 1e-30)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(_same(p, q) for p, q in zip(a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return same_bits(a, b) if isinstance(a, Tensor) else a == b
