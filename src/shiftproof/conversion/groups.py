"""The groups of a network: sites whose maps come from one frame by one stride and meet again.

The sites of a group share one selection, so that their maps stay aligned.
"""

from __future__ import annotations

from collections import defaultdict

from torch import fx

from shiftproof.conversion.frames import Frames
from shiftproof.conversion.operation import node_label
from shiftproof.conversion.sites import Site

Group = list[Site]  # the site whose map decides comes first


def group_sites(sites: list[Site], frames: Frames) -> tuple[list[Group], list[str]]:
    """The groups, and what keeps the other sites from having one."""
    problems: list[str] = []
    by_output: dict[fx.Node, list[Site]] = defaultdict(list)
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
            by_output[frames.of(node)].append(site)
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


def _add_to_group(groups: list[Group], site: Site, frames: Frames) -> None:
    """Add a site to a group from the same frame by the same stride, unless it needs the output of that group."""
    for group in groups:
        first = group[0].op
        same = frames.of(first.input) is frames.of(site.op.input) and first.stride == site.op.stride
        if same and not any(leads_to(other.op.node, site.op.input) for other in group):
            group.append(site)
            return
    groups.append([site])


def _leader_first(group: Group) -> Group:
    """The main branch leads: a convolution over a neighbourhood, with its activation."""
    leader = max(group, key=lambda site: (site.op.kind == "convolution" and not site.op.pointwise, site.activated))
    return [leader, *(site for site in group if site is not leader)]


def leads_to(node: fx.Node, goal: fx.Node) -> bool:
    """Whether the value of `goal` depends on `node`."""
    seen: set[fx.Node] = set()
    todo = [node]
    while todo:
        n = todo.pop()
        if n is goal:
            return True
        todo += [user for user in n.users if user not in seen]
        seen.update(n.users)
    return False
