"""Random uses of a downsampling method: every option, any shape, memory layout and kind of values."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from helpers.laws import DTYPES, all_shifts, hard_maps, stir
from shiftproof.ghs.basis import PROJECTIONS
from shiftproof.ghs.grids import GRIDS
from shiftproof.ghs.kernel import EXTENSIONS, GAINS, TAPERS, Hermite, Local
from shiftproof.ghs.pivots import PIVOT_RULES
from shiftproof.ghs.sampler import ANCHORS
from shiftproof.ghs.ties import TIES
from shiftproof.layers import Downsample, create_downsample, methods, registry
from shiftproof.layers.polyphase import CRITERIA
from shiftproof.maps.padding import BORDERS

COMMON = {"channels", "stride", "padding", "ndim"}
TAME = [name for name, x in hard_maps().items() if bool(x.isfinite().all()) and name != "denormal"]
KINDS = ["nearly periodic", *hard_maps(), "smallest", "largest", "not a number"]
REPEATED = {"one sample": 0, "one channel": 1, "one row": 2}  # expanded views, by the axis that is repeated
LAYOUTS = ["contiguous", "channels last", "reversed", "every other", *REPEATED]
LARGEST = 1600  # pixels of a map


def strongest(x: Tensor) -> Tensor:
    """A rule of a user's own for the pivot."""
    return x.abs().amax(1)


def per_axis(low: int, *high: int) -> st.SearchStrategy[int | tuple[int, ...]]:
    """One integer for all axes, or one for each."""
    return st.integers(low, min(high)) | st.tuples(*(st.integers(low, n) for n in high))


@st.composite
def hermites(draw: st.DrawFn) -> Hermite | str:
    """Any kernel of the paper's family, as a spec or as its text."""
    projection = draw(st.sampled_from(PROJECTIONS))
    orders: Any = draw(st.sampled_from(["4N", "N", "M", "N/2", "2N", 5]))
    sigma: Any = draw(st.sampled_from(["band", "rule", "0.8*band", "2*rule", 0.4]))
    kernel = Hermite(
        orders,
        sigma,
        draw(st.sampled_from(EXTENSIONS)),
        projection,
        draw(st.sampled_from(GAINS)),
        "none" if projection == "least-squares" else draw(st.sampled_from(TAPERS)),
    )
    return str(kernel) if draw(st.booleans()) else kernel


# option -> its values for maps of some channels and sizes; the words come from the source, so a new one is tried
OPTIONS: dict[str, Callable[[int, tuple[int, ...]], st.SearchStrategy[Any]]] = {
    "output_size": lambda channels, sizes: per_axis(1, *sizes),
    "kernel": lambda channels, sizes: (
        hermites() | st.builds(Local, st.integers(0, 8), st.sampled_from([0.8, 1.0, 1.25]))
    ),
    "grid": lambda channels, sizes: st.sampled_from(GRIDS),
    "anchor": lambda channels, sizes: st.sampled_from(ANCHORS),
    "pivot_rule": lambda channels, sizes: st.sampled_from([*PIVOT_RULES, strongest]),
    "ties": lambda channels, sizes: st.sampled_from(TIES),
    "return_selection": lambda channels, sizes: st.booleans(),
    "kernel_size": lambda channels, sizes: st.none() | per_axis(1, *[5] * len(sizes)),
    "mixture": lambda channels, sizes: st.floats(0, 1, width=16),
    "learn": lambda channels, sizes: st.booleans(),
    "taps": lambda channels, sizes: st.integers(1, 7 if len(sizes) < 3 else 4),
    "dense_max": lambda channels, sizes: st.integers(1, 3),
    "criterion": lambda channels, sizes: st.sampled_from(CRITERIA),
    "hidden": lambda channels, sizes: st.integers(1, 8),
    "temperature": lambda channels, sizes: st.tuples(st.floats(0.1, 2), st.floats(0.1, 2)),
    "groups": lambda channels, sizes: st.sampled_from([n for n in range(1, channels + 1) if channels % n == 0]),
    "inner": lambda channels, sizes: st.sampled_from(methods()),
}


def options_of(method: str) -> list[str]:
    """The names of a method's own options, as its signature has them."""
    return list(registry._registry[method].options)


@dataclass(frozen=True)
class Case:
    """A layer and a batch of maps: whatever is random about them follows from `seed`."""

    method: str
    options: dict[str, Any]
    stride: int | tuple[int, ...]
    padding: str
    shape: tuple[int, ...]  # (B, C, d1..dn)
    dtype: torch.dtype
    layout: str
    kinds: tuple[str, ...]  # of the values of the samples, in turn
    grad: bool
    compiled: bool  # whether the kernels in C are used
    seed: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.shape[2:]

    def layer(self) -> Downsample:
        """In evaluation mode, parameters and statistics off their defaults."""
        torch.manual_seed(self.seed)
        ndim = len(self.sizes)
        layer = create_downsample(self.method, self.shape[1], self.stride, self.padding, ndim, **self.options)
        stir(layer)
        return layer.to(self.dtype).eval()

    def kind(self, sample: int) -> str:
        return self.kinds[0 if self.layout == "one sample" else sample % len(self.kinds)]

    def maps(self) -> Tensor:
        """The values, contiguous; those that the layout repeats are equal."""
        samples = [self._values(self.kind(b), self.seed + b) for b in range(self.shape[0])]
        x = torch.stack(samples) if samples else torch.empty(self.shape)
        return self._repeated(x).to(self.dtype).contiguous()

    def _values(self, kind: str, seed: int) -> Tensor:
        """One sample (C, d1..dn), in float64."""
        some, limits = hard_maps(self.sizes, self.shape[1], seed), torch.finfo(self.dtype)
        x = some.get(kind, some["random"])[0].double()
        if kind == "smallest":  # multiples of the smallest number there is
            return (x * 3).round() * limits.smallest_normal * limits.eps
        if kind == "largest":  # the upper half of the range
            return (x.sign() * (1 + x.sigmoid()) * (limits.max / 2)).clamp(limits.min, limits.max)
        if kind == "not a number":
            x.view(-1)[seed % x.numel()] = torch.nan
        elif kind == "nearly periodic":  # one value far away decides
            x = some["checkerboard"][0].double()
            x.view(-1)[seed % x.numel()] = -1
        return x

    def lay(self, x: Tensor) -> Tensor:
        """`x` in the memory layout of the case, as a leaf."""
        if self.layout == "channels last":
            return x.movedim(1, -1).contiguous().movedim(-1, 1)
        if self.layout == "reversed":
            order = list(reversed(range(x.dim())))
            return x.permute(order).contiguous().permute(order)
        if self.layout == "every other":  # nobody may read what lies between
            room = torch.full([2 * n + 1 for n in x.shape], torch.nan, dtype=x.dtype)
            out = room[tuple(slice(1, None, 2) for _ in x.shape)]
            out.copy_(x)
            return out
        return self._repeated(x.clone())

    def _repeated(self, x: Tensor) -> Tensor:
        """The first sample, channel or row in the place of all, if the layout says so."""
        axis = REPEATED.get(self.layout)
        return x if axis is None or not x.numel() else x.narrow(axis, 0, 1).expand(x.shape)

    def shifts(self, count: int = 4) -> list[tuple[int, ...]]:
        """All of a small map; of a large one some."""
        if math.prod(self.sizes) <= 3 * count:
            return list(all_shifts(self.sizes))
        generator = torch.Generator().manual_seed(self.seed)
        return [tuple(int(torch.randint(n, (), generator=generator)) for n in self.sizes) for _ in range(count)]


mixtures = st.lists(st.sampled_from(KINDS), min_size=1, max_size=5, unique=True)


@st.composite
def cases(draw: st.DrawFn, method: str) -> Case:
    """A use of `method`; float32 images without ties, for which there are kernels in C, come often."""
    ndim = draw(st.sampled_from([2, 1, 2, 3]))
    stride = draw(per_axis(1, *[5] * ndim))
    strides = stride if isinstance(stride, tuple) else (stride,) * ndim
    sizes: list[int] = []
    for _ in range(ndim):
        sizes.append(draw(st.integers(1, min(40, LARGEST // math.prod(sizes)))))
    sizes = draw(st.permutations(sizes))
    if draw(st.booleans()):  # sizes that the stride divides, where more is claimed
        sizes = [max(s, n // s * s) for n, s in zip(sizes, strides)]
    channels = draw(st.integers(1, 6))
    options: dict[str, Any] = {}
    names = options_of(method)
    for name in names:
        if draw(st.booleans()):
            options[name] = draw(OPTIONS[name](channels, tuple(sizes)))
    if method == "align" and options.get("anchor") == "stay":
        del options["anchor"]  # of a layer inside, which has no say here
    for name in options_of(options["inner"]) if "inner" in options else []:
        if name not in names and draw(st.booleans()):
            options[name] = draw(OPTIONS[name](channels, tuple(sizes)))
    paper = "ghs-paper" in (method, options.get("inner"))
    anchor = options.get("anchor") if method != "align" else None  # its own, not that of `inner`
    grid = options.get("grid", "inclusive" if paper else "anchored")
    refused = {("corner", "anchored"), ("stay", "inclusive")}
    if (anchor or ("corner" if paper else "center"), grid) in refused:
        options |= {"grid": "periodic"}
    return Case(
        method,
        options,
        stride,
        draw(st.sampled_from(["circular"] * 3 + list(BORDERS))),  # so too with a wrap
        (draw(st.sampled_from([1, 2, 3, 4, 5, 0])), channels, *sizes),
        draw(st.sampled_from([torch.float32, *DTYPES])),
        draw(st.sampled_from(LAYOUTS)),
        tuple(draw(mixtures)) if draw(st.sampled_from([True, True, False])) else ("random",),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.integers(0, 2**16)),
    )
