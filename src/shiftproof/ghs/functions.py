"""Hermite polynomials and the Gaussian-Hermite functions built on them (paper, section 3.1).

Letters: p order, x position, s scale (sigma), t = x/s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from shiftproof import checks

Array = npt.NDArray[np.float64]

# ln 2 in two parts: the head has 32 significant bits, so its product with an exponent below 2^20 is exact.
_LN2_HEAD = math.floor(math.log(2) * 2**32) / 2**32
_LN2_TAIL = 1.9082149292705877e-10  # ln 2 - head
_RESCALE = 256  # mantissas are brought back once they pass 2^256


def hermite(orders: int, x: Tensor | npt.ArrayLike) -> Tensor:
    r"""Hermite polynomials H_0 .. H_{orders-1} at `x` (Eq. 1), by their three-term recurrence (Eq. 3).

    .. math:: H_p(x) = 2x H_{p-1}(x) - 2(p-1) H_{p-2}(x)

    The paper prints 2p instead of 2(p-1), which its own Eqs. 1 and 2 contradict. The values grow like
    sqrt(2^p p!) and leave the range of float64 near order 270; `gauss_hermite` never does.

    Shape: (orders, \*x.shape).

    >>> hermite(4, [0.0, 1.0])[:, 1]
    tensor([ 1.,  2.,  2., -4.], dtype=torch.float64)
    """
    orders = checks.integer("orders", orders)
    t, dtype = _positions(x)
    h = np.empty((orders, *t.shape))
    h[0] = 1
    for p in range(1, orders):
        h[p] = 2 * t * h[p - 1] - (2 * (p - 1) * h[p - 2] if p > 1 else 0)
    return torch.from_numpy(h).to(dtype)


def hermite_series(order: int, x: float) -> float:
    r"""H_order(x) by the explicit series (Eq. 2), in exact integer coefficients: slow, the oracle of the tests.

    .. math:: H_p(x) = p! \sum_{k=0}^{\lfloor p/2 \rfloor} \frac{(-1)^k (2x)^{p-2k}}{k! (p-2k)!}

    >>> hermite_series(3, 1.0)
    -4.0
    """
    p = checks.integer("order", order, minimum=0)
    factorial = math.factorial
    return math.fsum(
        (-1) ** k * (factorial(p) // (factorial(k) * factorial(p - 2 * k))) * (2 * x) ** (p - 2 * k)
        for k in range(p // 2 + 1)
    )


def gauss_hermite(orders: int, x: Tensor | npt.ArrayLike, sigma: float = 1.0, *, derivative: int = 0) -> Tensor:
    r"""Gaussian-Hermite functions h_0 .. h_{orders-1} at `x`, or their derivatives in x (Eq. 5).

    .. math:: h_p(x) = (2^p p! s \sqrt\pi)^{-1/2} \exp(-x^2 / 2s^2) H_p(x/s)

    * orthonormal on the real line (Eq. 6): the integral of h_p h_q is 1 where p = q and 0 elsewhere;
    * of the parity of p: h_p(-x) = (-1)^p h_p(x);
    * any order, any x: neither underflow on the way nor overflow, the absolute error for s = 1 stays below
      1e-12 for orders up to 5000 and \|x\| up to 110;
    * differentiable in `x`, any number of times.

    Computed on the CPU in float64 and returned in the dtype and on the device of `x` (float64 where `x` is
    not a floating tensor).

    Shape: (orders, \*x.shape).

    >>> gauss_hermite(3, [0.0, 0.5], sigma=0.75).shape
    torch.Size([3, 2])
    """
    orders = checks.integer("orders", orders)
    sigma = checks.positive("sigma", sigma)
    derivative = checks.integer("derivative", derivative, minimum=0)
    if isinstance(x, Tensor) and x.is_floating_point():
        return _Functions.apply(x, orders, sigma, derivative)  # type: ignore[no-untyped-call, no-any-return]
    return _values(orders, x, sigma, derivative)


def _values(orders: int, x: Tensor | npt.ArrayLike, sigma: float, derivative: int) -> Tensor:
    """`gauss_hermite`, computed."""
    t, dtype = _positions(x)
    h = np.concatenate(list(function_blocks(orders + derivative, t / sigma, sigma)))
    for _ in range(derivative):
        h = _ladder(h) / sigma
    return torch.from_numpy(h).to(dtype=dtype, device=x.device if isinstance(x, Tensor) else None)


def function_blocks(orders: int, t: Array, sigma: float, block: int = 256) -> Iterator[Array]:
    """h_0 .. h_{orders-1} at t = x/s in blocks of at most `block` orders, so that a long sum needs little memory.

    The normalised functions obey  h_p = sqrt(2/p) t h_{p-1} - sqrt((p-1)/p) h_{p-2}.
    Started at exp(-t^2/2) this dies of underflow near |t| = 38, so each position carries a mantissa and a
    power of two: h_p = mantissa * 2^exponent, and only the finished value is allowed to round to zero.
    """
    t = np.clip(t, -1e5, 1e5)  # every function of an order below 1e9 is zero out there
    exponent, previous = _gaussian(t)
    previous = previous / math.sqrt(sigma * math.sqrt(math.pi))
    before = np.zeros_like(previous)
    p = 0
    while p < orders:
        count = min(block, orders - p)
        out = np.empty((count, *t.shape))
        for i in range(count):
            np.ldexp(previous, exponent, out=out[i])
            p += 1
            # h_p = sqrt(2/p) t h_{p-1} - sqrt((p-1)/p) h_{p-2}
            before, previous = previous, math.sqrt(2 / p) * t * previous - math.sqrt((p - 1) / p) * before
            large = np.abs(previous) > 2.0**_RESCALE
            if large.any():
                scale = np.where(large, 2.0**-_RESCALE, 1.0)
                before, previous = before * scale, previous * scale
                exponent = exponent + np.where(large, _RESCALE, 0)
        yield out


def _gaussian(t: Array) -> tuple[npt.NDArray[np.int64], Array]:
    """exp(-t^2/2) = 2^exponent * mantissa, accurate to the last bits even where it is 1e-1400.

    t^2 is split exactly into head + tail (Dekker), and ln 2 into two parts (Cody and Waite): the plain
    exp(-t*t/2) loses t^2/2 units in the last place, which is more than 1e-12 at |t| = 80.
    """
    head = t * t
    big = t * (2.0**27 + 1)
    high = big - (big - t)
    low = t - high
    tail = ((high * high - head) + 2 * high * low) + low * low
    exponent = np.rint(-head / (2 * math.log(2)))
    rest = (-head / 2 - exponent * _LN2_HEAD) - exponent * _LN2_TAIL - tail / 2
    with np.errstate(invalid="ignore"):  # the exponent of a NaN is of no importance
        return exponent.astype(np.int64), np.exp(rest)


def _ladder(h: Array) -> Array:
    """d/dt h_p = sqrt(p/2) h_{p-1} - sqrt((p+1)/2) h_{p+1}; needs one order more than it returns."""
    root = np.sqrt(np.arange(1, len(h)) / 2).reshape(-1, *[1] * (h.ndim - 1))  # sqrt((p+1)/2)
    out = -root * h[1:]
    out[1:] += root[:-1] * h[:-2]
    return out


def _positions(x: Tensor | npt.ArrayLike) -> tuple[Array, torch.dtype]:
    """`x` as a float64 array, and the dtype in which the answer is due."""
    if isinstance(x, Tensor):
        dtype = x.dtype if x.is_floating_point() else torch.float64
        return x.detach().to("cpu", torch.float64).numpy(), dtype
    return np.asarray(x, dtype=np.float64), torch.float64


class _Functions(torch.autograd.Function):
    """Makes `gauss_hermite` differentiable: its slope is its own next derivative."""

    @staticmethod
    def forward(x: Tensor, orders: int, sigma: float, derivative: int) -> Tensor:
        return _values(orders, x, sigma, derivative)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, *ctx.arguments = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (grads[0] * _Functions._slope(ctx)).sum(0), None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        slope: Tensor = _Functions._slope(ctx) * tangents[0]
        return slope

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, *arguments: Any) -> tuple[Tensor, int]:
        return gauss_hermite(arguments[0], x.movedim(in_dims[0], 0), arguments[1], derivative=arguments[2]), 1

    @staticmethod
    def _slope(ctx: Any) -> Tensor:
        (x,) = ctx.saved_tensors
        orders, sigma, derivative = ctx.arguments
        return gauss_hermite(orders, x, sigma, derivative=derivative + 1)
