"""Where a map is anchored: its pivot, found by a rule that moves with the map.

The pivot of a sample is the position of its largest score. It must move with the map bit for bit, so scores are
made of maxima, elementwise chains and sums of whole numbers only: other sums round differently at different positions.
Where several positions share the largest score, `ties` decides. Letters: B batch, C channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.ghs import grids
from shiftproof.ghs.ties import TIES, argmax
from shiftproof.tensors import autocast_off, wide

Rule = Callable[[Tensor], Tensor]
PIVOT_RULES = ("max", "phase", "energy", "patch")
_STEPS = 2**22  # from zero to the largest value, where values are added up as whole numbers
_GOLDEN = 1618  # multiples of it modulo a power of two are spread evenly
_TINY = 2.0**-100  # smaller values are told apart by the tie rule alone


def score_max(x: Tensor) -> Tensor:
    """The largest value over the channels: the paper's rule. (B, C, ...) -> (B, ...)"""
    return x.amax(1)


def score_energy(x: Tensor) -> Tensor:
    """The sum of squares over the channels, added up in a fixed tree. (B, C, ...) -> (B, ...)"""
    terms = x.to(wide(x.dtype)).square()
    while terms.shape[1] > 1:
        half = terms.shape[1] // 2
        terms = torch.cat([terms[:, :half] + terms[:, half : 2 * half], terms[:, 2 * half :]], 1)
    return terms[:, 0]


def score_patch(x: Tensor) -> Tensor:
    """A whole number that tells small patches apart: equal patches, equal numbers. (B, C, d1..dn) -> (B, d1..dn)

    The channels of a pixel, in steps of 1/256 of the largest value, make one number, and four pixels of a patch of
    3 x 2 another: sums with fixed weights, of which the last 24 bits are kept. So any patch may have the largest score
    and few share it, but flat patches, of which a picture may have many, have the least, 0. A sample with NaN has NaN.
    """
    axes = tuple(range(1, x.dim()))
    spatial = axes[:-1]  # of the score
    finite = 1 / torch.finfo(wide(x.dtype)).tiny  # the largest power of two whose inverse is a normal number
    level = x.to(wide(x.dtype))
    top = torch.maximum(level.amax(axes, keepdim=True), -level.amin(axes, keepdim=True))
    steps = (level * (256 / top.clamp(_TINY, finite))).clamp(-256, 256).round().to(torch.int32)
    weights = torch.arange(1, x.shape[1] + 1, dtype=torch.int32, device=x.device) * _GOLDEN % 4096
    pixel = (steps * weights.view(-1, *[1] * len(spatial))).sum(1, dtype=torch.int32) & 0x1FFF  # (B, d1..dn)
    right = pixel.roll(-1, spatial[-1])
    # the weights add up to zero
    patch = 4093 * pixel - 7919 * right + 6101 * pixel.roll(-1, 1) - 2275 * right.roll(-2, 1)
    return torch.where(top[:, 0].isnan(), torch.nan, (patch & 0xFFFFFF).float())


def score_phase(x: Tensor, counts: Sequence[int]) -> Tensor:
    """`score_max` in the best phase, minus infinity elsewhere. (B, C, d1..dn) -> (B, d1..dn)

    Two positions have the same phase where a whole number of output samples lies between them, for an output of sizes
    `counts`: whichever of them is the pivot, a periodic output is the same up to its own shift. The best phase has the
    largest sum of largest values over the channels, so all its pixels decide. The values are added up as whole
    numbers, which do not round.
    """
    best = x.amax(1)
    finite = torch.finfo(wide(x.dtype)).max
    level = best.to(wide(x.dtype)).clamp(-finite, finite)
    axes = tuple(range(1, best.dim()))
    top = level.abs().amax(axes, keepdim=True)
    whole = (level / torch.where(top > 0, top, 1.0) * _STEPS).round()
    sums = whole.double()  # exact up to 2^53: the sum of two thousand million pixels
    for axis, (size, count) in enumerate(zip(x.shape[2:], counts), 1):
        sums = _phase_sums(sums, axis, size, count)
    return torch.where(sums == sums.amax(axes, keepdim=True), best, -torch.inf)


def _phase_sums(values: Tensor, axis: int, size: int, count: int) -> Tensor:
    """For each position of an axis the sum over those of its phase: all that are multiples of `size / count` away."""
    if torch.compiler.is_dynamo_compiling() or isinstance(size, torch.SymInt):  # which cannot look for a divisor
        phase = (torch.arange(size, device=values.device) * count).remainder(size)  # equal where the phase is
        return torch.zeros_like(values).index_add(axis, phase, values).index_select(axis, phase)
    period = grids.phases(size, count)
    lines = values.reshape(*values.shape[:axis], size // period, period, *values.shape[axis + 1 :])
    return lines.sum(axis, keepdim=True).expand(lines.shape).flatten(axis, axis + 1)


def check_rule(rule: str | Rule) -> str | Rule:
    """`rule` if it names a pivot rule or is a function."""
    if callable(rule):
        return rule
    if not isinstance(rule, str):
        raise TypeError(f"`pivot_rule` must be a name or a function, not {type(rule).__name__}.")
    return checks.choice("pivot_rule", rule, PIVOT_RULES)


def check_search(rule: str | Rule, ties: str, counts: Sequence[int] | None, ndim: int) -> None:
    """Refuse arguments of `select_pivot` that are wrong for maps of `ndim` axes."""
    checks.choice("ties", ties, TIES)
    if check_rule(rule) == "phase" and (counts is None or len(counts) != ndim):
        given = "" if counts is None else f" (={tuple(counts)})"
        raise ValueError(f"`pivot_rule='phase'` needs `counts`{given}, the size of the output on each of {ndim} axes.")


def select_pivot(
    x: Tensor,
    rule: str | Rule = "max",
    ties: str = "exact",
    companions: Sequence[Tensor] = (),
    counts: Sequence[int] | None = None,
) -> Tensor:
    """The pivot of each sample of `x` (B, C, d1..dn), as (B, n) positions in (row, column) order.

    * moves with the map: for every input and every circular shift the maps aligned at their pivots are equal,
      plateaus, periodic and constant maps included (`ties="exact"`);
    * a sample that contains NaN has no pivot: its entry is -1;
    * not differentiable: gradients pass through the values, not through the choice.

    `rule` names the score whose maximum is taken: `"max"` over all channels (the paper); `"phase"`, the same in the
    best phase of an output of sizes `counts` (`score_phase`); `"energy"` (`score_energy`); `"patch"`, a code of small
    patches that seldom has ties (`score_patch`); or a function (B, C, d1..dn) -> (B, d1..dn) that moves with its input.
    `ties`: `"exact"` compares the aligned maps themselves, `companions` included (the maps of other branches that
    will share the pivot); `"window"` is the paper's suggestion, the larger neighbourhood sum over 3 x 3 and then
    5 x 5 pixels, which cannot decide every case; `"first"` takes the first maximum in memory, and the guarantee does
    not hold where there are ties.
    """
    check_search(rule, ties, counts, x.dim() - 2)
    x = x.detach()
    with autocast_off(x):  # which refuses to put maps and scores of two half precisions together
        scores = _scores(x, rule, counts)
        sizes = scores.shape[1:]
        if x.shape[0] == 0:
            return x.new_empty((0, len(sizes)), dtype=torch.int64)
        # looked for in x: the maximum of another runtime, or a user's rule, may drop a NaN
        ill = x.flatten(1).isnan().any(1)
        index = argmax(scores, ties, (x, *(c.detach() for c in companions)), ~ill)
        return torch.where(ill[:, None], -1, _unravel(index, sizes))


def _scores(x: Tensor, rule: str | Rule, counts: Sequence[int] | None) -> Tensor:
    """The scores (B, d1..dn) of a rule, checked where a user wrote it."""
    if rule == "phase":
        return score_phase(x, counts or ())
    if not callable(rule):
        return {"energy": score_energy, "patch": score_patch}.get(rule, score_max)(x)
    scores = rule(x)
    if scores.shape != (x.shape[0], *x.shape[2:]):
        raise ValueError(
            f"`pivot_rule` must return scores of shape {(x.shape[0], *x.shape[2:])} for maps of shape "
            f"{tuple(x.shape)}, not {tuple(scores.shape)}."
        )
    if scores.is_complex():
        raise TypeError("`pivot_rule` must return real scores, not complex ones.")
    return scores if scores.is_floating_point() else scores.double()


def _unravel(index: Tensor, sizes: Sequence[int]) -> Tensor:
    """(B,) flat positions -> (B, n) positions."""
    out = []
    for size in reversed(sizes[1:]):
        out.append(index.remainder(size))
        index = index.div(size, rounding_mode="floor")
    return torch.stack([index, *reversed(out)], 1)
