"""Check a converted network on an example: every stage on its own, then every operation, then the whole.

A stage is what lies between two downsamplings. After the first of them all shifts of the input give the same map, and
the network is invariant whatever it does there. So that mistakes in a later stage show, each stage is checked alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn

from shiftproof.conversion.capture import node_values
from shiftproof.conversion.frames import Frames, spatial_axes
from shiftproof.conversion.operation import node_label
from shiftproof.conversion.replacements import SharedDownsample
from shiftproof.invariance import same_bits
from shiftproof.layers import Downsample
from shiftproof.layers.align import RollToPivot

_SHIFTS = ((1, 2, 1), (3, 1, 2), (2, 5, 3))
_EXACT_SHIFTS = 11  # under which every operation before the first downsampling is compared bit for bit


def verify(traced: fx.GraphModule, x: Tensor, law: str, aligned: bool) -> list[str]:
    """What breaks the law of the network, as sentences; if the input is `aligned` first, only the whole is checked."""
    if law == "none":
        return []
    x = x.contiguous()  # like its shifted copies: another memory layout may round differently
    problems = [] if aligned else check_stages(traced, x)
    if law == "exact-invariant" and not problems and not aligned:
        problems = check_rounding(traced, x)
    if law == "exact-invariant" and not problems and not is_invariant(traced, x):
        problems = [
            "as a whole the network is not invariant bit for bit. Look for an operation before the first downsampling "
            "whose rounding depends on positions, such as a mean over the map."
        ]
    return problems


def is_invariant(traced: fx.GraphModule, x: Tensor) -> bool:
    """Whether a few circular shifts of `x` leave every bit of the output as it is."""
    dims = tuple(range(2, x.dim()))
    with torch.no_grad():
        reference = traced(x.clone())
        return all(_same(reference, traced(x.roll(shift[: len(dims)], dims))) for shift in _SHIFTS)


def check_stages(traced: fx.GraphModule, x: Tensor) -> list[str]:
    """What does not follow when the maps of every stage are shifted by an amount of their own, as sentences."""
    modules = dict(traced.named_modules())
    boundaries, values, frames = _stages(traced, x)
    shifts: dict[fx.Node, tuple[int, ...]] = {}  # by frame

    def shift_of(node: fx.Node) -> tuple[int, ...]:
        k, sizes = len(shifts), frames.sizes[node]
        new = tuple(1 + k * (axis + 1) % (size - 1) if size > 1 else 0 for axis, size in enumerate(sizes))
        return shifts.setdefault(frames.of(node), new)

    def shifted(node: fx.Node) -> list[Any]:
        return _rolled(values[node], frames.sizes[node], shift_of(node))

    problems = _separate_selections(boundaries, frames, modules)
    after_first = set(traced.graph.nodes) - _before_first_downsampling(traced.graph, boundaries)
    before_last = _before_last_downsampling(traced.graph, boundaries)

    class ShiftedRun(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            if (n.op == "placeholder" and n in frames.sizes) or n in boundaries:
                return shifted(n)[0] if n in frames.sizes else values[n]
            out = super().run_node(n)
            if n not in frames.sizes or n.op == "output":
                return out
            options = shifted(n)
            if any(_close(out, option) for option in options):
                return out
            if n in before_last or n not in after_first:  # a stage, or a network before its first downsampling
                problems.append(
                    f"{node_label(n)} does not move with its map: it treats positions differently, or joins maps that "
                    f"do not share a selection."
                )
            return options[0]

    with torch.no_grad():
        ShiftedRun(traced).run(x.clone())
    return problems


def check_rounding(traced: fx.GraphModule, x: Tensor) -> list[str]:
    """What lies before the first downsampling and does not move with its map bit for bit, as sentences.

    Each operation is checked on its own, with inputs that are shifted exactly: a sum over positions may round
    differently after a shift and yet leave the output of the network as it was.
    """
    boundaries, values, frames = _stages(traced, x)
    sizes = tuple(x.shape[2:])
    early = _before_first_downsampling(traced.graph, boundaries)
    found: dict[fx.Node, None] = {}  # in order, each once

    class ShiftedRun(fx.Interpreter):
        def __init__(self, shift: tuple[int, ...]) -> None:
            super().__init__(traced)
            self.shift = shift

        def run_node(self, n: fx.Node) -> Any:
            if n not in early or n.op == "output" or frames.sizes.get(n, sizes) != sizes:
                return values[n]
            expected = _rolled(values[n], sizes, self.shift)[0] if n in frames.sizes else values[n]
            if n.op != "placeholder" and not _same(super().run_node(n), expected):
                found[n] = None
            return expected

    with torch.no_grad():
        for k in range(1, _EXACT_SHIFTS + 1):
            ShiftedRun(tuple(k * (axis + 1) % size for axis, size in enumerate(sizes))).run(x.clone())
    return [
        f"{node_label(n)} does not round alike at every position, like a mean or a norm over the map. Move it after "
        f"the first downsampling, or use one that looks at each position alone."
        for n in found
    ]


def _rolled(value: Any, sizes: tuple[int, ...], shift: tuple[int, ...]) -> list[Any]:
    """Maps, in containers too, rolled along each run of axes that may be the spatial ones; memory layouts are kept."""
    if isinstance(value, (tuple, list)):
        return [type(value)(parts) for parts in zip(*(_rolled(v, sizes, shift) for v in value))]
    runs = [tuple(range(axis, axis + len(sizes))) for axis in spatial_axes(value, sizes)]
    return [torch.empty_like(value).copy_(value.roll(shift, dims)) for dims in runs] or [value]


def _stages(traced: fx.GraphModule, x: Tensor) -> tuple[set[fx.Node], dict[fx.Node, Any], Frames]:
    """The layers that downsample maps or roll them to their pivot, the value of every node, and the frames."""
    modules, kinds = dict(traced.named_modules()), (Downsample, SharedDownsample, RollToPivot)
    found = {n for n in traced.graph.nodes if n.op == "call_module" and isinstance(modules[str(n.target)], kinds)}
    values = node_values(traced, x)
    return found, values, Frames(traced.graph, values, x.dim() - 2, found, set())


def _separate_selections(boundaries: set[fx.Node], frames: Frames, modules: dict[str, nn.Module]) -> list[str]:
    """Layers that make a selection each, although their maps meet again."""
    by_frame: dict[fx.Node, list[str]] = {}
    for node in boundaries & frames.sizes.keys():
        module = modules[str(node.target)]
        if isinstance(module, SharedDownsample) or (isinstance(module, Downsample) and module.selects):
            by_frame.setdefault(frames.of(node), []).append(node_label(node))
    return [
        f"{' and '.join(sorted(names))} each make their own selection, but their maps meet again."
        for names in by_frame.values()
        if len(names) > 1
    ]


def _before_first_downsampling(graph: fx.Graph, boundaries: set[fx.Node]) -> set[fx.Node]:
    """Nodes that the input reaches without a downsampling."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if node not in boundaries and (node.op == "placeholder" or any(n in found for n in node.all_input_nodes)):
            found.add(node)
    return found


def _before_last_downsampling(graph: fx.Graph, boundaries: set[fx.Node]) -> set[fx.Node]:
    """Nodes whose maps are still to be downsampled."""
    found: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if any(user in boundaries or user in found for user in node.users):
            found.add(node)
    return found


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
