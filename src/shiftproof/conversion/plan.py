"""What a conversion will change in a graph, and what it cannot change.

A group is a set of sites whose maps come from one frame by one stride and meet again. Its sites share one selection,
so that their maps stay aligned.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from torch import fx

from shiftproof.conversion.frames import Frames, Values
from shiftproof.conversion.operation import Operation, node_label, read_operation, type_name
from shiftproof.conversion.sites import Site, find_site

Group = list[Site]  # the site whose map decides comes first


@dataclass(frozen=True)
class Plan:
    """All convolutions, poolings and slices, the groups of those to replace, and what cannot be converted."""

    operations: list[Operation]
    groups: list[Group]
    problems: list[str]  # sentences


def make_plan(traced: fx.GraphModule, values: Values) -> Plan:
    """The plan for a graph; `values` is what its nodes return for an example."""
    modules = dict(traced.named_modules())
    operations = [op for node in traced.graph.nodes if (op := read_operation(node, modules, values))]
    strided = [op for op in operations if op.strided]
    unstrided = {op.node for op in operations if not op.strided}
    frames = Frames(traced.graph, values, {op.node for op in strided}, unstrided)
    problems = []
    for node in frames.other_size_changes:
        name = type_name(node, modules)
        if name.lower().startswith("adaptive") and not any(_leads_to(node, op.node) for op in strided):
            continue  # in the head: all maps are aligned already
        problems.append(
            f"{node_label(node)} ({name}) changes the size of its map in a way that the converter "
            f"does not know. Use a convolution or pooling layer of torch.nn with a stride."
        )
    indexed = [op for op in strided if op.kind == "max pooling with indices"]
    for op in indexed:
        problems.append(f"{node_label(op.node)} returns indices, which mean nothing at another size. Do without them.")
    groups, ungrouped = _group_sites([find_site(op, values, modules) for op in strided if op not in indexed], frames)
    return Plan(operations, groups, problems + ungrouped)


def _group_sites(sites: list[Site], frames: Frames) -> tuple[list[Group], list[str]]:
    """The groups, and what keeps the other sites from having one."""
    problems: list[str] = []
    downsampled: list[Site] = []
    groups: list[Group] = []
    for site in sites:
        node = site.op.node
        if site.op.input not in frames.sizes:
            problems.append(
                f"{node_label(node)} ({site.op}) works on something that is not a map of the input. Reshape it after "
                f"the last operation with a stride."
            )
        elif node not in frames.sizes:  # its output is a single value, which has no frame: it may meet any other
            _add_to_group(groups, site, frames)
        else:
            downsampled.append(site)
    by_output = _towers(downsampled, frames)
    for members in by_output.values():
        origins = {(frames.of(site.op.input), site.op.stride) for site in members}
        if len(origins) == 1:
            groups.append(members)
            continue
        names = ", ".join(f"{node_label(site.op.node)} ({site.op})" for site in members)
        problems.append(
            f"{names} meet again, but do not come from one grid by one stride, so no selection fits them all. Give the "
            f"branches the same sequence of strides."
        )
    return [_leader_first(group) for group in groups], problems


def _towers(sites: list[Site], frames: Frames) -> dict[fx.Node, list[Site]]:
    """Sites by the frame of their outputs.

    Where maps meet after several strides each, those between them move together too: their frames are joined.
    """
    while True:
        by_output: dict[fx.Node, list[Site]] = defaultdict(list)
        for site in sites:
            by_output[frames.of(site.op.node)].append(site)
        pairs = [(one.op, site.op) for one, *others in by_output.values() for site in others]
        alike = [
            (a.input, b.input)
            for a, b in pairs
            if a.stride == b.stride and frames.sizes[a.input] == frames.sizes[b.input]
        ]
        if not any(frames.join(a, b) for a, b in alike):
            return by_output


def _add_to_group(groups: list[Group], site: Site, frames: Frames) -> None:
    """Add a site to a group from the same frame by the same stride, unless it needs the output of that group."""
    for group in groups:
        first = group[0].op
        same = frames.of(first.input) is frames.of(site.op.input) and first.stride == site.op.stride
        if same and not any(_leads_to(other.op.node, site.op.input) for other in group):
            group.append(site)
            return
    groups.append([site])


def _leader_first(group: Group) -> Group:
    """The main branch leads: a convolution over a neighbourhood, with its activation."""
    leader = max(group, key=lambda site: (site.op.kind == "convolution" and not site.op.pointwise, site.activated))
    return [leader, *(site for site in group if site is not leader)]


def _leads_to(node: fx.Node, goal: fx.Node) -> bool:
    """Whether the value of `goal` depends on `node`."""
    reached = [node]
    for n in reached:
        reached += [user for user in n.users if user not in reached]
    return goal in reached
