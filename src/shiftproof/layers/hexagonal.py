r"""Gaussian-Hermite Sampling of hexagonal maps, which are kept in axial coordinates (Hoogeboom et al. 2018).

Pixel (q, r) lies at the distance sqrt(q^2 + qr + r^2) from pixel (0, 0): an ordinary tensor (B, C, Q, R) whose axes
make an angle of 60 degrees. The two axes are no longer independent, so the kernel is that of `Local` in two dimensions:

.. math:: k_m(x) = \frac{e^{-z}}{2 \pi s^2} \sum_{n=0}^m L_n(z), \quad z = \frac{|x|^2}{2 s^2}

with the Laguerre polynomials L_n, the sum of the products of Gaussian-Hermite functions of even orders up to 2m in all.
Its gain is the same in every direction, Q(m + 1, w^2 s^2 / 2).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof import checks
from shiftproof.ghs.kernel import Local
from shiftproof.ghs.sampler import find_pivot
from shiftproof.layers.front import roll_to_pivot
from shiftproof.maps.padding import pad

_ROOT = math.sqrt(3) / 2  # the distance of two rows; hexagonal maps reach the limit pi / _ROOT before they alias
_LEAST = 2.0**-24  # of the largest weight: what shows in float32


def hexagonal_kernel(stride: int = 2, kernel: Local | None = None) -> Tensor:
    """The weights around a sample in axial coordinates, (2K + 1, 2K + 1) in float64; their sum is 1.

    Half gain at the limit of the output, pi / (_ROOT stride), fixes the scale, times the `width` of the kernel.
    """
    local = kernel or Local()
    scale = local.scale(stride) * _ROOT
    far = math.ceil(scale * (8 + 2 * local.order)) + 1
    q = torch.arange(-far, far + 1, dtype=torch.float64)
    z = (q[:, None] ** 2 + q[:, None] * q + q**2) / (2 * scale**2)
    before, laguerre = torch.zeros_like(z), torch.ones_like(z)
    total = laguerre.clone()
    for n in range(local.order):
        # (n + 1) L_{n+1} = (2n + 1 - z) L_n - n L_{n-1}
        before, laguerre = laguerre, ((2 * n + 1 - z) * laguerre - n * before) / (n + 1)
        total += laguerre
    weights = torch.exp(-z) * total
    weights = torch.where(weights.abs() > _LEAST * weights.abs().max(), weights, 0.0)
    rows = weights.abs().sum(1).nonzero()[:, 0]
    reach = slice(int(rows[0]), int(rows[-1]) + 1)
    kept = weights[reach, reach]
    return kept / kept.sum()


class HexagonalGHS(nn.Module):
    """Gaussian-Hermite Sampling of hexagonal maps (B, C, Q, R) in axial coordinates.

    * the same bits for every circular shift along both axes, ties included;
    * on rhombic maps (Q = R) with one pivot, a rotation of the map by 60 degrees rotates the output, to rounding.

    `kernel`: `Local(...)`; order and width as there.

    Shape: (B, C, Q, R) -> (B, C, Q / stride, R / stride); the stride must divide both sizes.
    """

    weights: Tensor

    def __init__(self, stride: int = 2, kernel: Local | None = None) -> None:
        super().__init__()
        self.stride, self.kernel = checks.integer("stride", stride), kernel or Local()
        self.register_buffer("weights", hexagonal_kernel(self.stride, self.kernel), persistent=False)

    def select(self, x: Tensor) -> Tensor:
        """The pivots of `x`: the largest value in the phase with the largest sum. (B, 2)"""
        checks.maps("x", x, 2)
        if any(size % self.stride for size in x.shape[2:]):
            raise ValueError(
                f"`x` (shape {tuple(x.shape)}) must have sizes that `stride` (={self.stride}) divides: otherwise the "
                f"samples of a hexagonal map do not lie on its pixels."
            )
        return find_pivot(x, rule="phase", counts=[size // self.stride for size in x.shape[2:]])

    def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
        """The samples, the first of which is the pivot."""
        x = roll_to_pivot(x, self.select(x) if selection is None else selection, "corner")
        around = self.weights.shape[0] // 2
        weights = self.weights.to(x.dtype).expand(x.shape[1], 1, -1, -1)
        return F.conv2d(pad(x, [(around, around)] * 2, "circular"), weights, stride=self.stride, groups=x.shape[1])

    def extra_repr(self) -> str:
        """Stride and kernel."""
        return f"stride={self.stride}, kernel={self.kernel}"


def rotate_hexagonal(x: Tensor, turns: int = 1) -> Tensor:
    """A rhombic map in axial coordinates, rotated by `turns` times 60 degrees about pixel (0, 0), around the edges.

    (q, r) -> (-r, q + r) keeps distances, and is a permutation of the pixels of a wrapped map.
    """
    checks.maps("x", x, 2)
    if x.shape[2] != x.shape[3]:
        raise ValueError(f"`x` (shape {tuple(x.shape)}) must have two equal axes: other maps have no such rotation.")
    i = torch.arange(x.shape[2], device=x.device)
    for _ in range(turns % 6):
        x = x[..., (i[:, None] + i) % len(i), -i[:, None] % len(i)]  # what comes to (q, r) lay at (q + r, -q)
    return x
