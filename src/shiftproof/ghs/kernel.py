"""What the matrix of one axis is made of: `Hermite`, the paper's family, or `Local`, a window that follows each sample.

A kernel is a frozen dataclass with one text form, used by the command line, configurations, records and exported
networks alike: `str(kernel)` writes it in full, `parse_kernel` reads it, and what a text leaves out keeps its default.
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass

from shiftproof import checks
from shiftproof.ghs import basis, grids

EXTENSIONS = ("zero", "periodic")
GAINS = ("paper", "unit")
TAPERS = ("none", "gaussian")
LARGEST_ORDER = 64

_TEXT = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*")


class _Kernel:
    """The text form that both kernels share, written once: the compiler of torch 2.4 cannot trace its making."""

    text: str

    def _write(self) -> None:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        text = f"{type(self).__name__.lower()}({', '.join(f'{f.name}={getattr(self, f.name)}' for f in fields)})"
        object.__setattr__(self, "text", text)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Hermite(_Kernel):
    """Moments of the whole map, then reconstruction (Eqs. 10 and 11): the paper's family.

    `orders`: the number K of functions, also as `"N"`, `"4N"`, `"N/2"` or `"M"` of the output and input size.
    `sigma`: their scale; a number, `"rule"` (Eq. 24), `"order"` (Eq. 24 of the highest order), `"band"` (cut off at the
    output's Nyquist limit), or a multiple such as `"0.5*band"`.
    `extension`: the map continued by `"zero"` or `"periodic"` beyond its border when moments are taken.
    `projection`: `"quadrature"` (the paper's sum) or `"least-squares"` (the coefficients that fit the map best).
    `gain`: `"paper"`, or `"unit"` to divide each row by its sum, so that a constant map keeps its value.
    `taper`: the weight of order p; 1 up to K (`"none"`, the paper) or 2^(-p/K) for all orders (`"gaussian"`). A series
    that is cut off rings. One that fades out does not: each sample is then a Gaussian mean of the pixels around it,
    with a gain of one half at the output's Nyquist limit for `"band"` and one fifth for `"1.5*band"`.

    >>> str(Hermite(orders="N", sigma="rule"))
    'hermite(orders=N, sigma=rule, extension=periodic, projection=quadrature, gain=unit, taper=gaussian)'
    """

    orders: int | str = "4N"
    sigma: float | str = "band"
    extension: str = "periodic"
    projection: str = "quadrature"
    gain: str = "unit"
    taper: str = "gaussian"

    def __post_init__(self) -> None:
        grids.resolve_sigma(self.sigma, grids.resolve_orders(self.orders, 2, 1), 2, 1)
        # what means the same has one text: 2 and 2.0, '4N' and '4 * N', 'band' and '1*band'
        if isinstance(self.orders, str):
            object.__setattr__(self, "orders", re.sub(r"[\s*]", "", self.orders))
        sigma = re.sub(r"\s", "", self.sigma).removeprefix("1*") if isinstance(self.sigma, str) else float(self.sigma)
        object.__setattr__(self, "sigma", sigma)
        checks.choice("extension", self.extension, EXTENSIONS)
        checks.choice("projection", self.projection, basis.PROJECTIONS)
        checks.choice("gain", self.gain, GAINS)
        checks.choice("taper", self.taper, TAPERS)
        if self.projection == "least-squares" and self.taper == "gaussian":
            raise ValueError(
                "`projection='least-squares'` fits a number of functions, and `taper='gaussian'` uses every order: "
                "set `taper='none'`."
            )
        self._write()


@dataclass(frozen=True)
class Local(_Kernel):
    r"""Moments and reconstruction in a window that follows each sample: even orders up to 2m, read at the centre.

    .. math:: k_m(x) = \frac{e^{-y^2}}{s \sqrt{2 \pi}} \sum_{n=0}^m \frac{(-1/4)^n}{n!} H_{2n}(y),
        \quad y = \frac{x}{s \sqrt{2}}

    * its gain at the frequency w is Q(m + 1, w^2 s^2 / 2), with Q the regularised upper incomplete gamma function;
    * s is `width` times the scale at which that gain is one half at the output's Nyquist limit;
    * a constant map keeps its value; rows are shifts of one another where the stride divides the size.

    `order`: m, from 0 (a Gaussian) to 64; higher orders keep more below the limit and less above it.
    `width`: the scale relative to half gain at the limit; more blurs more.

    >>> str(Local(2))
    'local(order=2, width=1.0)'
    """

    order: int = 2
    width: float = 1.0

    def __post_init__(self) -> None:
        if checks.integer("order", self.order, minimum=0) > LARGEST_ORDER:
            raise ValueError(f"`order` (={self.order}) must be at most {LARGEST_ORDER}.")
        object.__setattr__(self, "width", checks.positive("width", self.width))
        self._write()

    def scale(self, stride: float) -> float:
        """s in pixels for a `stride`, which may be a fraction: `width` sqrt(2 z) stride / pi with Q(m + 1, z) = 1/2."""
        return self.width * math.sqrt(2 * _half_gain(self.order)) * stride / math.pi


Kernel = Hermite | Local
GHS = Hermite()
GHS_PAPER = Hermite("N", "rule", "zero", "quadrature", "paper", "none")
_KINDS: dict[str, type[Hermite] | type[Local]] = {"hermite": Hermite, "local": Local}


def parse_kernel(kernel: Kernel | str) -> Kernel:
    """A kernel from its text form, or the kernel itself.

    >>> parse_kernel("local(order=4)")
    Local(order=4, width=1.0)
    """
    if isinstance(kernel, (Hermite, Local)):
        return kernel
    if not isinstance(kernel, str):
        raise TypeError(f"`kernel` (={checks.shown(kernel)}) must be Hermite(...), Local(...), or the text of one.")
    found = _TEXT.fullmatch(kernel)
    if not found:
        raise ValueError(f"`kernel` (={checks.shown(kernel)}) must look like 'local(order=2)' or 'hermite(orders=N)'.")
    kind = _KINDS[checks.choice("kernel", found[1].lower(), _KINDS)]
    options: dict[str, int | float | str] = {}
    for part in filter(None, (p.strip() for p in (found[2] or "").split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        names = [f.name for f in dataclasses.fields(kind)]
        if not equals or name not in names or name in options:
            raise ValueError(
                f"`kernel` (={checks.shown(kernel)}): {part!r} must be one of {', '.join(names)}, each once, with its "
                f"value after '='."
            )
        options[name] = _number(value)
    return kind(**options)  # type: ignore[arg-type]


def _number(text: str) -> int | float | str:
    """The number in `text`, or `text` where it is a word."""
    try:
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        return text


def _half_gain(order: int) -> float:
    """z with Q(order + 1, z) = e^-z sum_{k <= order} z^k / k! = 1/2, by bisection: Q falls from 1 to 0."""
    low, high = 0.0, order + 2.0
    for _ in range(80):
        z = (low + high) / 2
        term = total = math.exp(-z)
        for k in range(1, order + 1):
            term *= z / k
            total += term
        low, high = (z, high) if total > 0.5 else (low, z)
    return (low + high) / 2
