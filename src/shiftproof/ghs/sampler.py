"""What GHS does, whatever the maps: its arguments, checked once, and the walk of a call from maps to samples.

Letters: B batch, C channels, d1..dn sizes, M input and N output size of one axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.cache import Cache
from shiftproof.ghs import backend, grids
from shiftproof.ghs.backend.torch_backend import mark_absent
from shiftproof.ghs.borders import sample_between_borders, smooth
from shiftproof.ghs.frame import Frame
from shiftproof.ghs.kernel import GHS, Kernel, Local, parse_kernel
from shiftproof.ghs.matrix import Plan, make_plan
from shiftproof.ghs.pivots import Rule, check_rule, check_search
from shiftproof.ghs.ties import TIES
from shiftproof.maps.padding import BORDERS
from shiftproof.tensors import is_eager, plain

ANCHORS = ("corner", "center", "stay")
_plans: Cache[Plan] = Cache()


@dataclass(frozen=True)
class Sampling:
    """The arguments of `ghs2d` and of the layers, checked once."""

    ndim: int
    stride: tuple[int, ...]
    output_size: tuple[int, ...] | None
    kernel: Kernel
    grid: str
    anchor: str
    pivot_rule: str | Rule
    ties: str
    padding: str = "circular"

    @classmethod
    def of(
        cls,
        ndim: int,
        stride: int | Sequence[int],
        output_size: int | Sequence[int] | None,
        kernel: Kernel | str,
        grid: str,
        anchor: str,
        pivot_rule: str | Rule,
        ties: str,
        padding: str = "circular",
    ) -> Sampling:
        """The arguments in one form, so that equal ones are equal; a wrong one, or a wrong combination, is refused."""
        checks.choice("anchor", anchor, ANCHORS)
        if checks.choice("grid", grid, grids.GRIDS) == "anchored" and anchor == "corner":
            raise ValueError(
                "`grid='anchored'` puts a sample on the middle pixel, to which `anchor='center'` moves the pivot: with "
                "`anchor='corner'` set `grid='periodic'`."
            )
        if grid == "inclusive" and anchor == "stay":
            raise ValueError(
                "`anchor='stay'` rolls samples that are equally spaced around the map, which `grid='inclusive'` does "
                "not give: set `grid='periodic'` or `grid='anchored'`."
            )
        kernel = parse_kernel(kernel)
        if checks.choice("padding", padding, BORDERS) != "circular" and not (
            isinstance(kernel, Local) and anchor == "stay" and output_size is None
        ):
            raise ValueError(
                f"`padding={padding!r}` needs a kernel with a window, on maps that stay in place, at a whole stride: "
                f"set `kernel=Local(...)` and `anchor='stay'`, and leave `output_size` out."
            )
        return cls(
            ndim,
            checks.per_axis("stride", stride, ndim),
            None if output_size is None else checks.per_axis("output_size", output_size, ndim),
            kernel,
            grid,
            anchor,
            check_rule(pivot_rule),
            checks.choice("ties", ties, TIES),
            padding,
        )

    def counts(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The sizes of the output: ceil(M / stride) on each axis, or `output_size`."""
        if self.output_size is None:
            return tuple((m + s - 1) // s for m, s in zip(sizes, self.stride))
        if any(n > m for m, n in zip(sizes, self.output_size)):
            raise ValueError(
                f"`output_size` (={self.output_size}) must be at most the input size {tuple(sizes)} on each axis."
            )
        return self.output_size

    def plan(self, x: Tensor, sizes: Sequence[int] | None = None) -> Plan:
        """What a call does to maps such as `x`: checked and made once for each size, dtype and device.

        With `sizes` the way back: `x` is returned to maps of these sizes.
        """
        if not isinstance(x, Tensor) or not is_eager(x) or 0 in x.shape[1:]:
            _refuse_trace()
            return self._make_plan(x, sizes)
        made_of = self.stride, self.output_size, self.kernel, self.grid, self.anchor, sizes
        return _plans.get((x.shape[2:], x.dtype, x.device, made_of), lambda: self._make_plan(x, sizes))

    def _make_plan(self, x: Tensor, back_to: Sequence[int] | None) -> Plan:
        sizes = checks.maps("x", x, self.ndim).shape[2:] if back_to is None else back_to
        origin = [self._origin(size) for size in sizes]
        stay, back = self.anchor == "stay", back_to is not None
        return make_plan(x, sizes, self.counts(sizes), origin, self.kernel, self.grid, stay, back)

    def _origin(self, size: int) -> int:
        """Where the pivot is moved to."""
        return 0 if self.anchor == "corner" else size // 2

    def select(self, x: Tensor, *companions: Tensor) -> Tensor:
        """The pivots of maps (B, C, d1..dn), as (B, n); `companions` break the ties that `x` leaves open."""
        checks.maps("x", x, self.ndim)
        return find_pivot(x, *companions, rule=self.pivot_rule, ties=self.ties, counts=self.counts(x.shape[2:]))

    def __call__(self, x: Tensor, selection: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The samples of maps (B, C, d1..dn), and the pivots they were taken at: `selection`, or those of `select`."""
        x = plain(x)
        if isinstance(self.kernel, Local) and self.padding != "circular":
            selection = self.select(x) if selection is None else selection
            check_selection(selection, x)
            samples = sample_between_borders(x, selection, self.stride, self.kernel, self.padding)
            return mark_absent(samples, selection), selection
        plan = self.plan(x)
        if selection is None:
            return backend.find_and_sample(x, plan, self.pivot_rule, self.ties)
        check_selection(selection, x)
        return backend.sample(x, selection, plan), selection

    def back(self, y: Tensor, selection: Tensor, output_size: int | Sequence[int] | None = None) -> Tensor:
        """`upsample`: maps (B, C, N1..Nn) at the size and the place of those that `selection` was found on."""
        checks.maps("y", y, self.ndim)
        if output_size is None:
            output_size = [n * s for n, s in zip(y.shape[2:], self.stride)]
        elif isinstance(output_size, Sequence) and len(output_size) == y.dim():  # as `nn.MaxUnpool2d` takes it
            output_size = output_size[2:]
        if isinstance(output_size, Sequence) and any(isinstance(n, torch.SymInt) for n in output_size):
            sizes = tuple(output_size)  # of another tensor in the graph
        else:
            sizes = checks.per_axis("output_size", output_size, self.ndim)
        if tuple(self.counts(sizes)) != tuple(y.shape[2:]):
            raise ValueError(
                f"`output_size` (={sizes}) gives maps of sizes {self.counts(sizes)}, and `y` has {tuple(y.shape[2:])}: "
                f"give the sizes of the map that was downsampled."
            )
        check_selection(selection, y, sizes)
        return backend.spread(plain(y), selection, self.plan(y, sizes))

    def start(self, selection: Tensor, sizes: Sequence[int]) -> Tensor:
        """Where an operation with this stride begins, so that it samples at the pivots `selection`. (B, n)

        A map that stays is moved by less than a stride, if nothing is left over at its end, or if it has a border.
        """
        offsets = []
        for axis, (size, stride) in enumerate(zip(sizes, self.stride)):
            place = selection[:, axis]
            if self.padding != "circular" or (self.anchor == "stay" and size % stride == 0):
                offsets.append(place.remainder(stride))
            else:
                offsets.append((place - self._origin(size) // stride * stride).remainder(size))
        return torch.stack(offsets, 1)

    def smooth(self, x: Tensor) -> Tensor:
        """The kernel at every pixel of maps (B, C, d1..dn), instead of every stride."""
        kernel = Local(0) if self.kernel == GHS else self.kernel
        if not isinstance(kernel, Local):
            raise ValueError(f"`antialias=True` needs a kernel with a window, not {kernel}: set `kernel=Local(...)`.")
        return smooth(plain(x), self.stride, kernel, self.padding)

    def frame(self, selection: Tensor, sizes: Sequence[int]) -> Frame:
        """Where the samples lie in maps of the given sizes with the pivots `selection`."""
        counts = self.counts(sizes)
        rows = [(*grids.place(m, n, self.grid), self._origin(m)) for m, n in zip(sizes, counts)]
        if self.padding != "circular":
            rows = [(0, 1, s, 0) for s in self.stride]
        first, unit, step, origin = torch.tensor(rows, dtype=torch.int64, device=selection.device).mT
        offset = unit * (selection - origin) + first  # whole numbers, so that no sample slips to the next step
        if self.anchor == "stay":
            offset = offset.remainder(step)
        return Frame(tuple(sizes), offset.double() / unit, tuple(s / u for _, u, s, _ in rows))


def find_pivot(
    x: Tensor,
    *companions: Tensor,
    rule: str | Rule = "max",
    ties: str = "exact",
    counts: Sequence[int] | None = None,
    ndim: int | None = None,
) -> Tensor:
    """`select_pivot` of maps (B, C, d1..dn) with its arguments checked, in compiled code where that is possible."""
    ndim = x.dim() - 2 if ndim is None else ndim
    for i, t in enumerate((x, *companions)):
        checks.maps("x" if i == 0 else f"companions[{i - 1}]", t, ndim)
        if t.shape[:1] + t.shape[2:] != x.shape[:1] + x.shape[2:]:
            raise ValueError(
                f"`companions[{i - 1}]` (shape {tuple(t.shape)}) must have the batch and the sizes of `x` "
                f"(shape {tuple(x.shape)})."
            )
    check_search(rule, ties, counts, ndim)
    _refuse_trace()
    return backend.find(plain(x), rule, ties, [plain(c) for c in companions], counts)


def _refuse_trace() -> None:
    if not torch.compiler.is_compiling() and torch._C._is_tracing():
        raise RuntimeError(
            "GHS cannot go through `torch.jit.trace`, which keeps one side of every branch: use `torch.export`."
        )


def check_selection(selection: Tensor, x: Tensor, sizes: Sequence[int] | None = None) -> None:
    """Refuse pivots that were not found on maps such as `x`, or on maps of other `sizes`."""
    if not isinstance(selection, Tensor) or selection.dtype != torch.int64:
        raise TypeError(f"`selection` must be an int64 tensor from `select`, not {checks.shown(selection)}.")
    if selection.device != x.device:
        raise ValueError(f"`selection` (on {selection.device}) must be on the device of the maps ({x.device}).")
    shape = (x.shape[0], x.dim() - 2)
    if tuple(selection.shape) != shape:
        raise ValueError(
            f"`selection` (shape {tuple(selection.shape)}) must have the shape {shape} for maps of shape "
            f"{tuple(x.shape)}: take it from `select` on a map of the same batch."
        )
    if is_eager(selection) and selection.numel():
        for axis, size in enumerate(sizes or x.shape[2:]):
            top = int(selection[..., axis].max())
            if top >= size:
                raise ValueError(
                    f"`selection` (up to {top} on axis {axis}) must lie inside the map (size {size} there): "
                    f"take it from `select` on a map of the same size."
                )
