"""What decides where several positions share the largest score: comparisons only, so the choice is exact.

`"exact"` compares the maps aligned at each position, entry by entry in row-major order around the edges. Cheap
comparisons come first; what they leave is ranked by prefix doubling. Letters: B batch, C channels, P pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from shiftproof.tensors import is_eager, wide

TIES = ("exact", "window", "first")
Schedule = tuple[int, list[int]]  # how many ranks are merged at a time, and how often along each axis
_SYMBOLIC_DOUBLINGS = {1: 32, 2: 16, 3: 12}  # by dimension: signals of 2^32 samples, images of 65,536 pixels each way


def argmax(scores: Tensor, ties: str, maps: Sequence[Tensor], wanted: Tensor | None = None) -> Tensor:
    """The position of the largest score of each sample; ties are decided by the `maps`. (B, d1..dn) -> (B,)

    `wanted` (B,): the samples that matter; any position will do for the others.
    """
    flat = scores.flatten(1)
    best, index = flat.max(1)
    largest = flat == best[:, None]
    tied = largest.sum(1) != 1
    if wanted is not None:
        tied = tied & wanted
    if ties == "exact":
        return (_resolve if is_eager(scores) else _resolve_traced)(tied, index, scores, *maps)
    if ties == "window":
        return torch.where(tied, _window_argmax(scores, largest), index)
    return index


def _resolve(tied: Tensor, index: Tensor, scores: Tensor, *maps: Tensor) -> Tensor:
    """`index`, with the exact rule applied to the samples that need it: cheap comparisons first."""
    if not bool(tied.any()):
        return index
    planes = [m.flatten(2) for m in maps]
    varies = torch.stack([(p.amax(2) != p.amin(2)).any(1) for p in planes]).any(0)
    rows = (tied & varies).nonzero()[:, 0]  # on constant maps every position is as good as another
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


def _resolve_traced(tied: Tensor, index: Tensor, scores: Tensor, *maps: Tensor) -> Tensor:
    """`_resolve` without looking at data: a branch inside the graph, taken at run time where a batch needs it."""
    schedule = merging_schedule(scores.shape[1:])

    def exact(tied: Tensor, index: Tensor, scores: Tensor, *maps: Tensor) -> Tensor:
        return torch.where(tied, aligned_rank(scores, maps, schedule).argmax(1), index)

    def unique(tied: Tensor, index: Tensor, scores: Tensor, *maps: Tensor) -> Tensor:
        return index.clone()

    # copies: the exporter fails on views into memory whose size it does not know
    operands = (tied, index, scores, *(m.clone() for m in maps))
    if not torch.compiler.is_compiling():  # vmap knows no branches
        return exact(*operands)
    return torch.cond(tied.any(), exact, unique, operands)  # type: ignore[no-any-return]


def _eliminate(scores: Tensor, maps: Sequence[Tensor], budget: int = 128) -> Tensor:
    """The positions that `aligned_rank` can still prefer after comparing the first few entries. (B, P) booleans

    Entry by entry, those positions stay whose entry is the largest. It stops when one is left in every sample or
    the budget of comparisons is spent; most ties end after one or two.
    """
    planes = []
    for m in (scores[:, None], *maps):
        for plane in m.unbind(1):
            absent = plane.isnan()
            if bool(absent.any()):  # NaN is above infinity
                planes.append(absent.to(plane.dtype))
            planes.append(plane.masked_fill(absent, 0.0))
    left = torch.ones_like(scores, dtype=torch.bool)
    axes = tuple(range(1, scores.dim()))
    pixels = scores[0].numel()
    for offset in range(min(pixels, max(1, budget // len(planes)))):
        steps = [-int(o) for o in np.unravel_index(offset, scores.shape[1:])]
        for plane in planes:
            entry = plane.roll(steps, axes).masked_fill(~left, -torch.inf)
            left = left & (entry == entry.amax(axes, keepdim=True))
            if bool((left.sum(axes) <= 1).all()):
                return left.flatten(1)
    return left.flatten(1)


def aligned_rank(scores: Tensor, maps: Sequence[Tensor], schedule: Schedule | None = None) -> Tensor:
    """The rank of each position in the order of the maps aligned there. (B, d1..dn), (B, C, d1..dn).. -> (B, P)

    Two positions compare by their score, then by the channels of the maps; where these are equal, by those of the
    next positions in row-major order, around the edges. Equal ranks mean equal aligned maps. Ranks are found by
    prefix doubling: once every position knows the rank of the w entries from it on, the ranks of `base` neighbours
    w apart, read as the digits of one number, give that of base * w entries. Only comparisons are made, so the order
    is exact.
    """
    sizes = tuple(scores.shape[1:])
    base, counts = merging_schedule(sizes) if schedule is None else schedule
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
            # the digits move before the axes, the ranks stay last
            rank = _merge(entries.movedim(axis + 1, 1).flatten(2), 1, base)
    return rank


def merging_schedule(sizes: Sequence[int]) -> Schedule:
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
