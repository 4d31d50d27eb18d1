"""Check a converted network on an example: every stage on its own, then the whole.

A stage is what lies between two downsamplings. After the first of them all shifts of the input give the same map, and
the network is invariant whatever it does there. So that mistakes in a later stage show, each stage is checked alone.
For the same reason all this is checked before the front, which rolls the input to its pivot, goes in.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn

from shiftproof.conversion.capture import node_values
from shiftproof.conversion.example import Inputs
from shiftproof.conversion.frames import Frames, leading_to, spatial_axes
from shiftproof.conversion.operation import node_label, read_operation
from shiftproof.conversion.replacements import MoveToSelection, PaddedPool, SharedDownsample
from shiftproof.invariance import same_bits
from shiftproof.layers import Downsample, RollToPivot
from shiftproof.tensors import leaves

_SHIFTS = ((1, 2, 1), (3, 1, 2), (2, 5, 3))


def check_whole(traced: fx.GraphModule, inputs: Inputs, exact: bool) -> list[str]:
    """What a few circular shifts of the inputs change in the output, as sentences: of its bits, or beyond rounding."""
    same = _same if exact else _close
    with torch.no_grad():
        reference = inputs.run(traced)
        if all(same(reference, inputs.shifted(shift).run(traced)) for shift in _SHIFTS):
            return []
    return [f"as a whole the network is not invariant {'bit for bit' if exact else 'to rounding'}."]


def check_stages(traced: fx.GraphModule, inputs: Inputs) -> list[str]:
    """What does not follow when the maps of every stage are shifted by an amount of their own, as sentences."""
    modules = dict(traced.named_modules())
    boundaries, values, frames = _stages(traced, inputs)
    shifts: dict[fx.Node, tuple[int, ...]] = {}  # by frame

    def shift_of(node: fx.Node) -> tuple[int, ...]:
        k, sizes = len(shifts), frames.sizes[node]
        new = tuple(1 + k * (axis + 1) % (size - 1) if size > 1 else 0 for axis, size in enumerate(sizes))
        return shifts.setdefault(frames.of(node), new)

    def shifted(node: fx.Node) -> list[Any]:
        return _rolled(values[node], frames.sizes[node], shift_of(node))

    problems = _separate_selections(boundaries, frames, modules)
    after_first = set(traced.graph.nodes) - _before_first_downsampling(traced.graph, boundaries)
    before_last = leading_to(traced.graph, boundaries)

    class ShiftedRun(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            if n in boundaries:
                return shifted(n)[0] if n in frames.sizes else values[n]
            out = super().run_node(n)
            if n.op == "placeholder" and n in frames.sizes:
                return shifted(n)[0]
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
        inputs.run(ShiftedRun(traced).run)
    return problems


def _rolled(value: Any, sizes: tuple[int, ...], shift: tuple[int, ...]) -> list[Any]:
    """Maps, in containers too, rolled along each run of axes that may be the spatial ones; memory layouts are kept."""
    if isinstance(value, (tuple, list)):
        return [type(value)(parts) for parts in zip(*(_rolled(v, sizes, shift) for v in value))]
    runs = [tuple(range(axis, axis + len(sizes))) for axis in spatial_axes(value, sizes)]
    return [torch.empty_like(value).copy_(value.roll(shift, dims)) for dims in runs] or [value]


def _stages(traced: fx.GraphModule, inputs: Inputs) -> tuple[set[fx.Node], dict[fx.Node, Any], Frames]:
    """What downsamples maps, moves them or rolls them to their pivot, the value of every node, and the frames."""
    modules, kinds = dict(traced.named_modules()), (Downsample, SharedDownsample, MoveToSelection, RollToPivot)

    def changes_frame(node: fx.Node) -> bool:
        module = modules[str(node.target)] if node.op == "call_module" else None
        if isinstance(module, PaddedPool):
            return any(s > 1 for s in module.steps)
        operation = read_operation(node, modules, values)
        return isinstance(module, kinds) or (operation is not None and operation.strided)

    values = node_values(traced, inputs)
    found = {node for node in traced.graph.nodes if changes_frame(node)}
    return found, values, Frames(traced.graph, values, found, set())


def _separate_selections(boundaries: set[fx.Node], frames: Frames, modules: dict[str, nn.Module]) -> list[str]:
    """Layers that make a selection each, although their maps meet again."""
    by_frame: dict[fx.Node, list[str]] = {}
    for node in (node for node in boundaries & frames.sizes.keys() if node.op == "call_module"):
        module = modules[str(node.target)]
        if isinstance(module, SharedDownsample | MoveToSelection) or (
            isinstance(module, Downsample) and module.selects
        ):
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


def _close(a: Any, b: Any) -> bool:
    """Whether two answers are equal to rounding, in containers too."""
    if not isinstance(a, Tensor):
        ours, theirs = leaves(a), leaves(b)
        return not isinstance(b, Tensor) and len(ours) == len(theirs) and all(map(_close_or_equal, ours, theirs))
    if not isinstance(b, Tensor) or a.shape != b.shape:
        return False
    scale = float(b.abs().max()) if b.numel() else 0.0
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4 * scale + 1e-30)


def _close_or_equal(a: Any, b: Any) -> bool:
    return _close(a, b) if isinstance(a, Tensor) else bool(a == b)


def _same(a: Any, b: Any) -> bool:
    """Whether two answers have the same bits, in containers too."""
    ours, theirs = leaves(a), leaves(b)
    return len(ours) == len(theirs) and all(
        same_bits(p, q) if isinstance(p, Tensor) else p == q for p, q in zip(ours, theirs)
    )
