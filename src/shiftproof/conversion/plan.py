"""What a conversion will change in a graph, and what it cannot."""

from __future__ import annotations

from dataclasses import dataclass

from torch import fx

from shiftproof.conversion.frames import Frames, Values
from shiftproof.conversion.groups import Group, group_sites, leads_to
from shiftproof.conversion.operation import Operation, node_label, read_operation, type_name
from shiftproof.conversion.sites import find_site


@dataclass(frozen=True)
class Plan:
    """All convolutions, poolings and slices, the groups of those to replace, and what cannot be converted."""

    operations: list[Operation]
    groups: list[Group]
    problems: list[str]  # sentences


def make_plan(traced: fx.GraphModule, values: Values) -> Plan:
    """The plan for a graph; `values` is what its nodes return for an example."""
    modules = dict(traced.named_modules())
    operations = [op for node in traced.graph.nodes if (op := read_operation(node, modules))]
    strided = [op for op in operations if op.strided]
    unstrided = {op.node for op in operations if not op.strided}
    ndim = next(v.dim() - 2 for node, v in values.items() if node.op == "placeholder")
    frames = Frames(traced.graph, values, ndim, {op.node for op in strided}, unstrided)
    problems = []
    for node in frames.other_size_changes:
        name = type_name(node, modules)
        if name.lower().startswith("adaptive") and not any(leads_to(node, op.node) for op in strided):
            continue  # in the head: all maps are aligned already
        problems.append(
            f"{node_label(node)} ({name}) changes the size of its map in a way that the converter "
            f"does not know. Use a convolution or pooling layer of torch.nn with a stride."
        )
    indexed = [op for op in strided if op.kind == "max pooling with indices"]
    problems += [
        f"{node_label(op.node)} (max pooling) returns indices, which mean nothing at another size. Remove "
        f"`return_indices`."
        for op in indexed
    ]
    groups, ungrouped = group_sites([find_site(op, values, modules) for op in strided if op not in indexed], frames)
    return Plan(operations, groups, problems + ungrouped)
