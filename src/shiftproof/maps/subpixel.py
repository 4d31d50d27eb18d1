"""Where a picture lies, to a fraction of a pixel: a pivot that moves with it continuously.

A circular shift by t multiplies the Fourier coefficient of frequency k by exp(-2 pi i k t / M), for any real t. So the
phases of a few coefficients say where the picture lies, and a shift that makes them zero brings all its shifted copies
to one place. Letters: B batch, C channels, n axes, M size of one axis; u positions in units of the size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.maps.shifts import fractional_shift
from shiftproof.tensors import is_eager

Frequency = npt.NDArray[np.int64]

_LEAST = 1e-6  # of the root mean square of a picture: coefficients below are taken for zero
_OFFSET = 0.382  # turns from which phases are counted: no picture with a symmetry has a phase there
_CLOSE = 1e-6  # turns in which two phases are the same


def subpixel_pivot(x: Tensor, ndim: int = 2) -> Tensor:
    r"""Where each sample lies, as (B, n) real positions in pixels, in float64.

    .. math:: p = -M \arg(\hat F_1) / 2 \pi

    on each axis, with F_1 the fundamental of the mean over the channels and the other axes: the crest of its cosine.

    * moves with the map: after a circular shift by any real amount, p is larger by that amount, modulo the period of
      the map, to the rounding of float64 over the relative size of the fundamental;
    * noise of standard deviation s on each of P values moves p by about M s / (2 pi \|F_1\| sqrt(2 P)) pixels;
    * differentiable where the fundamental does not vanish.

    Where a fundamental vanishes (flat and periodic maps, a checkerboard) other coefficients decide, of all channels,
    lowest frequencies first: see `_position`. A traced graph cannot, and leaves such an axis where it is. An axis of
    two pixels has no frequency with a direction, and p is 0 there.
    """
    checks.maps("x", x, ndim)
    f = x.double()
    spatial = range(2, f.dim())
    rms = f.detach().square().flatten(1).mean(1).sqrt()
    positions, vanishing = [], []
    for axis in spatial:
        size = f.shape[axis]
        profile = f.mean([1, *(a for a in spatial if a != axis)])  # (B, M)
        wave = torch.polar(*_turns(torch.arange(size, dtype=torch.float64, device=x.device) / size))
        fundamental = (profile * wave).mean(1)  # the conjugate of F_1 / M
        has_none = fundamental.detach().abs() <= _LEAST * rms if size > 2 else torch.ones_like(rms, dtype=torch.bool)
        safe = torch.where(has_none, 1.0, fundamental)  # whose angle has a gradient
        positions.append(safe.angle() * (size / (2 * math.pi)))
        vanishing.append(has_none & (size > 2))
    p = torch.stack(positions, 1)
    undecided = torch.stack(vanishing, 1).any(1)
    if is_eager(x) and bool(undecided.any()):
        rows = undecided.nonzero()[:, 0]
        found = [_position(f[row].detach().cpu().numpy()) for row in rows.tolist()]
        p = p.index_copy(0, rows, torch.from_numpy(np.stack(found)).to(p.device))
    return p


def shift_to_pixel_zero(x: Tensor, pivot: Tensor) -> Tensor:
    """Shift each sample of (B, C, d1..dn) so that its `subpixel_pivot` comes to position 0, all in float64.

    The Nyquist frequency of an axis of even size has no direction, so it cannot be shifted: it is left out.
    """
    dims = range(2, x.dim())
    return fractional_shift(x.double(), -pivot, dims, keep_nyquist=False).to(x.dtype)


def _turns(turns: Tensor) -> tuple[Tensor, Tensor]:
    """Modulus 1 and the angle, as `torch.polar` takes them."""
    return torch.ones_like(turns), 2 * math.pi * turns


def _position(f: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The position (n,) of one sample (C, d1..dn) from all its Fourier coefficients, lowest frequencies first.

    Coefficient k has the phase -k u (in turns) for a map that lies at u. The first n independent k with a coefficient
    that is not zero leave det(k1..kn) positions, unless the map is constant along some direction, where any will do.
    Of these that one is taken which gives the next coefficients the smallest phases. Positions that no coefficient
    tells apart are periods of the map: they all give one result.
    """
    sizes = f.shape[1:]
    coefficients = np.fft.fftn(f, axes=range(1, f.ndim)) / math.prod(sizes)
    least = _LEAST * math.sqrt(float(np.square(f).mean()))
    known: list[tuple[Frequency, float]] = []  # and its phase in turns
    for k in _frequencies(sizes):
        for value in np.moveaxis(coefficients, 0, -1)[k]:
            if abs(value) > least:
                known.append((np.array(k), -float(np.angle(value)) / (2 * math.pi)))
    # of a map with a period, frequencies are multiples
    periods = np.maximum(np.gcd.reduce([np.zeros(len(sizes), np.int64), *(frequency for frequency, _ in known)]), 1)
    known = [(frequency // periods, turns) for frequency, turns in known]
    basis: list[tuple[Frequency, float]] = []
    for frequency, turns in [*known, *((row, 0.0) for row in np.eye(len(sizes), dtype=np.int64))]:
        if np.linalg.matrix_rank(np.array([*(b for b, _ in basis), frequency])) > len(basis):
            basis.append((frequency, turns))
        if len(basis) == len(sizes):
            break
    matrix = np.array([frequency for frequency, _ in basis])
    count = round(abs(np.linalg.det(matrix)))
    whole = np.array(list(itertools.product(range(count), repeat=len(sizes))))
    u = np.linalg.solve(matrix, (np.array([turns for _, turns in basis]) + whole).T).T  # (count^n, n)
    for frequency, turns in known:
        if len(u) == 1:
            break
        rest = (turns - u @ frequency - _OFFSET) % 1
        u = u[rest <= rest.min() + _CLOSE]
    return np.asarray(u[0] % 1 / periods * np.array(sizes))


def _frequencies(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """One of each pair k and -k of frequencies with a direction, the lowest first."""
    axes = [range(-((size - 1) // 2), (size - 1) // 2 + 1) for size in sizes]
    half = [k for k in itertools.product(*axes) if k > (0,) * len(sizes)]
    return sorted(half, key=lambda k: (sum(i * i for i in k), k))
