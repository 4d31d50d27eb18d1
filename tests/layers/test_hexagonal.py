"""GHS on hexagonal maps: invariant to shifts, and with the symmetry of the lattice."""

import math

import pytest
import torch
from torch import Tensor

from shiftproof.ghs.kernel import Local
from shiftproof.invariance import assert_shift_invariant
from shiftproof.layers import GHS2d
from shiftproof.layers.hexagonal import HexagonalGHS, hexagonal_kernel, rotate_hexagonal

ORDERS = (0, 2, 4)


def maps(size: int = 12, seed: int = 0) -> Tensor:
    return torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("stride", [2, 3])
def test_every_circular_shift_gives_the_same_bits(stride: int) -> None:
    """Ties included: a map of two values has many."""
    layer = HexagonalGHS(stride)
    assert_shift_invariant(layer, maps())
    assert_shift_invariant(layer, (maps() > 0.5).double())
    assert_shift_invariant(layer, maps().float()[..., :6])


@pytest.mark.parametrize("order", ORDERS)
def test_a_rotation_by_sixty_degrees_rotates_the_output(order: int) -> None:
    """All six of them, about any pixel, and a mirror image; the layer for square maps does not."""
    layer, x = HexagonalGHS(kernel=Local(order)), maps()
    y = layer(x)
    for turns in range(6):
        turned = layer(rotate_hexagonal(x.roll((3, 5), (2, 3)), turns))
        assert torch.allclose(turned, rotate_hexagonal(y, turns), rtol=0, atol=1e-12)
    assert torch.allclose(layer(x.mT), y.mT, rtol=0, atol=1e-12)
    square = GHS2d(anchor="corner", grid="periodic", kernel=Local(order))
    assert (square(rotate_hexagonal(x)) - rotate_hexagonal(square(x))).abs().max() > 0.01


def test_rotations_are_those_of_the_lattice() -> None:
    """Six make a whole turn; a pixel next to the centre visits its six neighbours."""
    x = maps()
    assert torch.equal(rotate_hexagonal(x, 6), x)
    assert torch.equal(rotate_hexagonal(rotate_hexagonal(x, 4), 2), x)
    dot = torch.zeros(1, 1, 8, 8)
    dot[..., 1, 0] = 1
    places = [tuple(rotate_hexagonal(dot, k)[0, 0].nonzero()[0].tolist()) for k in range(6)]
    assert places == [(1, 0), (0, 1), (7, 1), (7, 0), (0, 7), (1, 7)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("degrees", [0, 20, 30])
def test_the_gain_is_one_half_at_the_limit_in_every_direction(order: int, degrees: int) -> None:
    """And that of the formula elsewhere: the sum of the first terms of a Poisson distribution."""
    kernel, stride = Local(order), 4  # far from the limit of the input, where copies of the gain meet
    weights = hexagonal_kernel(stride, kernel)
    q = torch.arange(len(weights), dtype=torch.float64) - len(weights) // 2
    x, y = q[:, None] + q / 2, (q * math.sqrt(3) / 2).expand(len(q), -1)
    limit, angle = 2 * math.pi / math.sqrt(3) / stride, math.radians(degrees)
    for part in (0.0, 0.5, 1.0, 1.3):
        phase = part * limit * (x * math.cos(angle) + y * math.sin(angle))
        z = (part * limit * kernel.scale(stride) * math.sqrt(3) / 2) ** 2 / 2
        expected = math.exp(-z) * sum(z**n / math.factorial(n) for n in range(order + 1))
        assert float((weights * phase.cos()).sum()) == pytest.approx(expected, abs=1e-5)
    assert expected < 0.5


def test_a_constant_map_keeps_its_value() -> None:
    assert torch.allclose(HexagonalGHS(3)(torch.full((1, 1, 6, 9), 0.7)), torch.full((1, 1, 2, 3), 0.7))


def test_wrong_maps_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sizes that `stride` \(=2\) divides"):
        HexagonalGHS()(torch.rand(1, 1, 6, 7))
    with pytest.raises(ValueError, match="two equal axes"):
        rotate_hexagonal(torch.rand(1, 1, 6, 8))
    assert repr(HexagonalGHS()) == "HexagonalGHS(stride=2, kernel=local(order=2, width=1.0))"
