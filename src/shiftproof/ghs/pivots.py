"""Where a map is anchored: the pivot, found by a rule that moves with the map, ties included.

The pivot of a sample is the position of its largest score. It must move with the map bit for bit, so scores are
made of maxima, elementwise chains and sums of whole numbers only: a library sum of others rounds differently at
different positions. Letters: B batch, C channels, P pixels (the product of the sizes d1..dn).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.ghs import grids
from shiftproof.ghs.backend import native
from shiftproof.tensors import is_eager, wide

Rule = Callable[[Tensor], Tensor]
Plan = tuple[int, list[int]]  # how many ranks are merged at a time, and how often along each axis
TIES = ("exact", "window", "first")
_STEPS = 2**22  # from nothing to the largest value, where values are added up as whole numbers
_SYMBOLIC_DOUBLINGS = {1: 32, 2: 16, 3: 12}  # by dimension: signals of 2^32 samples, images of 65,536 pixels each way


def score_max(x: Tensor) -> Tensor:
    """The largest value over the channels: the paper's rule. (B, C, ...) -> (B, ...)"""
    return x.amax(1)


def score_energy(x: Tensor) -> Tensor:
    """The sum of squares over the channels, added up in a fixed tree. (B, C, ...) -> (B, ...)"""
    terms = x.to(wide(x.dtype)).square()
    while terms.shape[1] > 1:
        half = terms.shape[1] // 2
        rest = terms[:, 2 * half :]
        terms = terms[:, :half] + terms[:, half : 2 * half]
        terms = torch.cat([terms, rest], 1) if rest.shape[1] else terms
    return terms[:, 0]


def score_phase(x: Tensor, counts: Sequence[int]) -> Tensor:
    """`score_max` in the best phase, minus infinity elsewhere. (B, C, d1..dn) -> (B, d1..dn)

    A phase are the positions that lie on one grid of `counts` samples: whichever of them is the pivot, a periodic
    output is the same up to its own shift. The best phase is the one whose largest values over the channels have the
    largest sum, so it is decided by all of its pixels. Added up are whole numbers, which cannot round.
    """
    best = x.amax(1)
    finite = torch.finfo(wide(x.dtype)).max
    level = best.to(wide(x.dtype)).clamp(-finite, finite)
    axes = tuple(range(1, best.dim()))
    top = level.abs().amax(axes, keepdim=True)
    whole = (level / torch.where(top > 0, top, 1.0) * _STEPS).round()
    sums = whole.double()  # exact up to 2^53: the sum of two thousand million pixels
    for axis, (size, count) in enumerate(zip(x.shape[2:], counts), start=1):
        sums = _phase_sums(sums, axis, size, count)
    return torch.where(sums == sums.amax(axes, keepdim=True), best, -torch.inf)


def _phase_sums(values: Tensor, axis: int, size: int, count: int) -> Tensor:
    """For each position of an axis the sum over those of its phase: all that are multiples of `size / count` away."""
    if torch.compiler.is_dynamo_compiling() or isinstance(size, torch.SymInt):  # where no divisor can be looked for
        i = torch.arange(size, device=values.device)
        same = ((i[:, None] - i) * count).remainder(size).eq(0).to(values.dtype)
        return torch.movedim(torch.movedim(values, axis, -1) @ same, -1, axis)
    period = grids.phases(size, count)
    lines = values.reshape(*values.shape[:axis], size // period, period, *values.shape[axis + 1 :])
    return lines.sum(axis, keepdim=True).expand(lines.shape).flatten(axis, axis + 1)


RULES: dict[str, Rule] = {"max": score_max, "energy": score_energy}
NATIVE = ("max", "phase")  # what the compiled kernels know
PIVOTS = ("max", "phase", "energy", "per-channel")


def phases(pivot: str | Rule, sizes: Sequence[int], counts: Sequence[int]) -> list[int] | None:
    """How many phases each axis has for `pivot="phase"`; None where only the largest value counts."""
    found = [grids.phases(m, n) for m, n in zip(sizes, counts)]
    return found if pivot == "phase" and found != list(sizes) else None


def select_pivot(
    x: Tensor,
    pivot: str | Rule = "max",
    ties: str = "exact",
    companions: Sequence[Tensor] = (),
    counts: Sequence[int] | None = None,
) -> Tensor:
    """The pivot of each sample of `x` (B, C, d1..dn), as (B, n) positions in (row, column) order.

    * moves with the map: for every input and every circular shift the maps aligned at their pivots are equal,
      plateaus, periodic and constant maps included (`ties="exact"`);
    * a sample that contains NaN has no pivot: its entry is -1;
    * not differentiable: gradients pass through the values, not through the choice.

    `pivot` names the score whose maximum is taken: `"max"` over all channels (the paper); `"phase"`, the same among
    the positions whose phase on the grid of the output, of sizes `counts`, has the largest sum of maxima
    (`score_phase`); `"energy"`; or a function (B, C, d1..dn) -> (B, d1..dn) that moves with its input.
    `"per-channel"` gives each channel a pivot of its own, (B, C, n), for ablation.
    `ties`: `"exact"` compares the aligned maps themselves in the order of `aligned_rank`, `companions` included
    (the maps of other branches that will share the pivot); `"window"` is the paper's suggestion, the larger
    neighbourhood sum over 3 x 3 and then 5 x 5 pixels, which cannot decide every case; `"first"` takes the
    first maximum in memory and breaks the law on ties.
    """
    checks.choice("ties", ties, TIES)
    if isinstance(pivot, str):
        checks.choice("pivot", pivot, PIVOTS)
    elif not callable(pivot):
        raise TypeError(f"`pivot` must be a name or a function, not {type(pivot).__name__}.")
    x = x.detach()
    others = [c.detach() for c in companions]
    if pivot == "per-channel":
        if any(c.shape != x.shape for c in others):
            raise ValueError(
                "`companions` must have the shape of `x` for `pivot='per-channel'`: let branches with other channels "
                "choose for themselves (`share=False` in a network)."
            )
        # every channel is a sample of one channel
        planes = [t.flatten(0, 1).unsqueeze(1) for t in (x, *others)]
        return select_pivot(planes[0], "max", ties, planes[1:]).view(x.shape[0], x.shape[1], x.dim() - 2)
    if pivot == "phase" and counts is None:
        raise ValueError("`pivot='phase'` needs `counts`, the sizes of the output.")
    return _select(x, pivot, ties, others, counts or x.shape[2:])


def _select(x: Tensor, pivot: str | Rule, ties: str, companions: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
    if pivot in NATIVE and is_eager(x) and native.fits(x):
        found = native.find(x, phases(pivot, x.shape[2:], counts))
        if found is not None:
            return found
    if pivot == "phase":
        scores = score_phase(x, counts)
    else:
        scores = RULES[pivot](x) if isinstance(pivot, str) else pivot(x)
    if scores.shape != (x.shape[0], *x.shape[2:]):
        raise ValueError(
            f"`pivot` must return scores of shape {(x.shape[0], *x.shape[2:])} for maps of shape {tuple(x.shape)}, "
            f"not {tuple(scores.shape)}."
        )
    if not scores.is_floating_point():
        if scores.is_complex():
            raise TypeError("`pivot` must return real scores, not complex ones.")
        scores = scores.double()
    sizes = scores.shape[1:]
    if x.shape[0] == 0:
        return x.new_empty((0, len(sizes)), dtype=torch.int64)
    flat = scores.flatten(1)
    eager = is_eager(x)
    if eager and isinstance(pivot, str) and x.device.type == "cpu":
        found = _lone_maxima(flat, sizes)
        if found is not None:
            return found
    # looked for on its own: the maximum of another runtime, or a rule of the user's own, may lose a NaN on the way
    ill = x.flatten(1).isnan().any(1)
    best, index = flat.max(1)
    largest = flat == best[:, None]
    undecided = largest.sum(1) != 1
    if ties == "exact" and not eager:
        index = _resolve_traced(undecided, index, scores, x, *companions)
    elif ties == "exact":
        index = _resolve(undecided, index, scores, x, *companions)
    elif ties == "window":
        index = torch.where(undecided, _window_argmax(scores, largest), index)
    return torch.where(ill[:, None], -1, _unravel(index, sizes))


def _lone_maxima(flat: Tensor, sizes: Sequence[int]) -> Tensor | None:
    """The positions of the maxima, where every sample has just one and no NaN: the usual case, by numpy."""
    values = flat.to(wide(flat.dtype)).numpy()
    index = values.argmax(1)
    best = values[np.arange(len(index)), index]
    if np.isnan(best).any() or np.count_nonzero(values == best[:, None]) != len(index):
        return None
    return torch.from_numpy(np.stack(np.unravel_index(index, tuple(sizes)), 1))


def _unravel(index: Tensor, sizes: Sequence[int]) -> Tensor:
    """(B,) flat positions -> (B, n) positions."""
    out = []
    for size in reversed(sizes[1:]):
        out.append(index.remainder(size))
        index = index.div(size, rounding_mode="floor")
    return torch.stack([index, *reversed(out)], 1)


def _resolve(undecided: Tensor, index: Tensor, scores: Tensor, *maps: Tensor) -> Tensor:
    """`index`, with the exact rule applied to the samples that need it: cheap comparisons first."""
    if not bool(undecided.any()):
        return index
    planes = [m.flatten(2) for m in maps]
    varies = torch.stack([(p.amax(2) != p.amin(2)).any(1) for p in planes]).any(0)
    rows = (undecided & varies).nonzero()[:, 0]  # on constant maps every position is as good as another
    if len(rows) == 0:
        return index
    scores, maps = scores[rows], tuple(m[rows] for m in maps)
    left = _eliminate(scores, maps)  # (b, P)
    choice = left.to(torch.int8).argmax(1)
    still = (left.sum(1) > 1).nonzero()[:, 0]
    if len(still):
        rank = aligned_rank(scores[still], [m[still] for m in maps])
        choice[still] = torch.where(left[still], rank, -1).argmax(1)
    return index.index_copy(0, rows, choice)


def _resolve_traced(undecided: Tensor, index: Tensor, scores: Tensor, *maps: Tensor) -> Tensor:
    """`_resolve` without looking at data: a branch inside the graph, taken at run time where a batch needs it."""
    plan = merging_plan(scores.shape[1:])

    def exact(undecided: Tensor, index: Tensor, scores: Tensor, *maps: Tensor) -> Tensor:
        return torch.where(undecided, aligned_rank(scores, maps, plan).argmax(1), index)

    def unique(undecided: Tensor, index: Tensor, scores: Tensor, *maps: Tensor) -> Tensor:
        return index.clone()

    operands = (undecided, index, scores, *maps)
    if not torch.compiler.is_compiling():  # vmap knows no branches
        return exact(*operands)
    return torch.cond(undecided.any(), exact, unique, operands)  # type: ignore[no-any-return]


def _eliminate(scores: Tensor, maps: Sequence[Tensor], budget: int = 128) -> Tensor:
    """The positions that `aligned_rank` can still prefer after comparing the first few entries. (B, P) booleans

    Entry by entry, those positions stay whose entry is the largest. It stops when one is left in every sample or
    the budget of comparisons is spent; most ties end after one or two.
    """
    planes = [scores, *(m[:, c] for m in maps for c in range(m.shape[1]))]
    left = torch.ones_like(scores, dtype=torch.bool)
    axes = tuple(range(1, scores.dim()))
    pixels = scores[0].numel()
    for offset in range(min(pixels, max(1, budget // len(planes)))):
        steps = [-int(o) for o in torch.unravel_index(torch.tensor(offset), scores.shape[1:])]
        for plane in planes:
            entry = plane.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf).roll(steps, axes)
            entry = entry.masked_fill(~left, -torch.inf)
            left = left & (entry == entry.amax(axes, keepdim=True))
            if bool((left.sum(axes) <= 1).all()):
                return left.flatten(1)
    return left.flatten(1)


def aligned_rank(scores: Tensor, maps: Sequence[Tensor], plan: Plan | None = None) -> Tensor:
    """The rank of each position in the order of the maps aligned there. (B, d1..dn), (B, C, d1..dn).. -> (B, P)

    Two positions compare by their score, then by the channels of the maps; where these are equal, by those of the
    next positions in row-major order, around the edges. Equal ranks mean equal aligned maps. Ranks are found by
    prefix doubling: once every position knows the rank of the w entries from it on, the ranks of `base` neighbours
    w apart, read as the digits of one number, give that of base * w entries. Only comparisons are made, so the order
    is exact.
    """
    sizes = tuple(scores.shape[1:])
    base, counts = merging_plan(sizes) if plan is None else plan
    planes = [dense_rank(t.flatten(2)) for t in (scores[:, None], *maps)]
    rank = torch.cat(planes, 1)  # (B, 1 + C.., P)
    while rank.shape[1] > 1:
        rank = torch.nn.functional.pad(rank, (0, 0, 0, -rank.shape[1] % base))  # equal everywhere: decides nothing
        rank = _merge(rank.view(rank.shape[0], -1, base, rank.shape[2]), 2, base)
    rank = rank[:, 0]
    for axis in range(len(sizes), 0, -1):
        size = sizes[axis - 1]
        i = torch.arange(size, device=rank.device)[:, None]
        for k in range(counts[axis - 1]):
            ahead = (i + base**k * torch.arange(base, device=rank.device)).remainder(size)  # (size, base)
            entries = rank.view(-1, *sizes).index_select(axis, ahead.flatten())
            entries = entries.view(-1, *sizes[:axis], base, *sizes[axis:])
            # the digits behind the last axis, where the ranks are
            rank = _merge(entries.movedim(axis + 1, 1).flatten(2), 1, base)
    return rank


def merging_plan(sizes: Sequence[int]) -> Plan:
    """How many ranks are merged at a time, and how often along each axis.

    As many as an int64 holds as the digits of one number; generous where an exporter leaves the sizes open, for spare
    merges change nothing.
    """
    base = 2
    if not any(_is_open(size) for size in sizes):
        base = max(2, min(16, 62 // _bits(math.prod(sizes))))
    return base, [_merges(size, base, len(sizes)) for size in sizes]


def _bits(count: int) -> int:
    """How many bits it takes to number `count` things, at least one; in words that torch 2.4 can trace."""
    bits = 1
    while 1 << bits < count:
        bits += 1
    return bits


def _merges(size: int, base: int, ndim: int) -> int:
    """How often 1 must be multiplied by `base` to reach `size`."""
    enough = _SYMBOLIC_DOUBLINGS[min(ndim, 3)]
    if isinstance(size, torch.SymInt):
        torch._check(
            size <= 2**enough, lambda: f"GHS exported with dynamic sizes takes at most {2**enough} pixels on an axis."
        )
    if _is_open(size):
        return enough
    k = 0
    while base**k < size:
        k += 1
    return k


def _is_open(size: int) -> bool:
    """Whether an exporter may leave a size open."""
    exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # torch 2.4 does not know
    # inside dynamo a dynamic size looks like any other
    return isinstance(size, torch.SymInt) or (torch.compiler.is_dynamo_compiling() and exporting())


def dense_rank(values: Tensor) -> Tensor:
    """How many distinct smaller values a row holds, for each entry; NaN counts as the largest. (..., P) -> (..., P)"""
    ordered, order = values.sort(-1)
    rise = ordered[..., 1:] != ordered[..., :-1]
    if values.is_floating_point():
        rise = rise & ~ordered[..., :-1].isnan()
    rank = torch.nn.functional.pad(rise.to(torch.int64).cumsum(-1), (1, 0))
    return torch.empty_like(rank).scatter(-1, order, rank)


def _merge(rank: Tensor, axis: int, base: int) -> Tensor:
    """The rank of `base` ranks along an axis, in lexicographic order: the digits of one number. (..., base, .., P)"""
    pixels = rank.shape[-1]
    if base == 2:
        return dense_rank(rank.select(axis, 0) * pixels + rank.select(axis, 1))
    digit = 1 << _bits(pixels)  # powers of two are exact even where a runtime takes them as floats
    weights = torch.pow(digit, torch.arange(base - 1, -1, -1, device=rank.device))
    return dense_rank((rank * weights.view(-1, *[1] * (rank.dim() - axis - 1))).sum(axis))


def _window_argmax(scores: Tensor, candidates: Tensor) -> Tensor:
    """Among the candidates the one with the largest sum over 3^n neighbours, then 5^n, then the first."""
    left = candidates
    for radius in (1, 2):
        total = scores.to(wide(scores.dtype))
        for axis in range(1, scores.dim()):
            # added up in the same order everywhere, so that the sum moves with the map bit for bit
            parts = [total.roll(-offset, axis) for offset in range(-radius, radius + 1)]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
        sums = torch.where(left, total.flatten(1).nan_to_num(nan=-torch.inf, posinf=torch.inf), -torch.inf)
        left = left & (sums == sums.amax(1, keepdim=True))
    return left.to(torch.int8).argmax(1)
