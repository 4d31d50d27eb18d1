"""Where a picture lies, to a fraction of a pixel: it moves with the picture, and brings all its shifts to one place."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from shiftproof.maps.shifts import fractional_shift
from shiftproof.maps.subpixel import _frequencies, shift_to_pixel_zero, subpixel_pivot


def front(x: Tensor) -> Tensor:
    """The one place of all shifted copies."""
    return shift_to_pixel_zero(x, subpixel_pivot(x, x.dim() - 2))


def moved(x: Tensor, shift: list[float]) -> Tensor:
    """A circular shift by real amounts, without the frequency that has no direction."""
    return fractional_shift(x, shift, range(2, x.dim()), keep_nyquist=False)


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    seed=st.integers(0, 2**16),
    amounts=st.lists(st.floats(-30, 30, allow_subnormal=False), min_size=3, max_size=3),
)
def test_every_real_shift_gives_the_same_maps(sizes: list[int], seed: int, amounts: list[float]) -> None:
    """To the rounding of float64 over the size of the fundamental: odd and even sizes, not square, any dimension."""
    x = torch.randn(2, 2, *sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    assert (front(moved(x, amounts[: len(sizes)])) - front(x)).abs().max() < 1e-5


def waves(*terms: tuple[float, int, int]) -> Tensor:
    """A sum of cosines of whole frequencies (amplitude, rows, columns) on 24 x 21 pixels."""
    i, j = torch.arange(24.0, dtype=torch.float64)[:, None], torch.arange(21.0, dtype=torch.float64)
    total = sum(a * torch.cos(2 * math.pi * (k * i / 24 + m * j / 21)) for a, k, m in terms)
    return torch.as_tensor(total)[None, None]


@pytest.mark.parametrize(
    "x",
    [
        torch.ones(1, 2, 24, 21, dtype=torch.float64),
        waves((1, 3, 0)),  # stripes
        waves((1, 1, 1), (1, 1, -1)),  # a checkerboard: the mean of each row and column is zero
        waves((1, 2, 3)),
        waves((1, 3, 0), (1, 4, 0), (1, 0, 2)),  # no fundamental, and yet no period
        waves((1, 3, 0), (-1, 4, 0)),  # symmetric, with phases of half a turn
        waves((1, 3, 3), (0.5, 4, -2), (0.2, 5, 1)),
        waves((1, 1, 1), (1, 1, -1), (0.5, 1, 2)),  # two places for the first two frequencies, one for the third
        waves((1, 2, 1), (1, 2, -1), (0.4, 3, 2), (0.3, 3, -4)),  # four places
        torch.cat([waves((1, 1, 0), (1, 0, 1)), -waves((1, 1, 0), (1, 0, 1)) + waves((0.1, 2, 0))], 1),  # opposed
        torch.rand(1, 2, 6, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).repeat(1, 1, 4, 3),
    ],
)
def test_a_fundamental_that_vanishes_leaves_the_choice_to_other_frequencies(x: Tensor) -> None:
    """The guarantee holds for every picture: flat, periodic, symmetric, and with channels that cancel out."""
    g = torch.Generator().manual_seed(0)
    for _ in range(20):
        amounts = (torch.rand(2, generator=g) * 60 - 30).tolist()
        assert (front(moved(x, amounts)) - front(x)).abs().max() < 1e-6


def test_a_periodic_picture_lies_within_its_first_period() -> None:
    tile = torch.rand(1, 2, 6, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = tile.repeat(1, 1, 4, 3)
    for amounts in ([0.0, 0.0], [2.2, -3.3], [-17.0, 15.9]):
        p = subpixel_pivot(moved(x, amounts))
        assert (p >= 0).all()
        assert (p < torch.tensor([6, 7])).all()


def test_the_position_moves_with_the_picture_and_noise_moves_it_little() -> None:
    """By the formula in its docstring, over 400 drawings of noise."""
    x = waves((1, 1, 0), (1, 0, 1), (0.3, 2, 1)) + 1
    p = subpixel_pivot(x)
    assert torch.allclose(p.remainder(1), torch.zeros_like(p), atol=1e-9) | torch.allclose(p, torch.zeros_like(p))
    assert torch.allclose(subpixel_pivot(moved(x, [0.3, -2.7])) - p, torch.tensor([[0.3, -2.7]]).double(), atol=1e-9)
    s = 0.05
    noisy = x + s * torch.randn(400, 1, 24, 21, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = subpixel_pivot(noisy).std(0)
    expected = torch.tensor([24, 21]) * s / (2 * math.pi * 0.5 * math.sqrt(24 * 21 * 2))  # each fundamental is 1/2
    assert ((found / expected - 1).abs() < 0.15).all()


def fundamental(x: Tensor) -> Tensor:
    """The phase of the lowest frequency along the rows of the mean over the channels."""
    spectrum: Tensor = torch.fft.fft2(x.double().mean(1))
    return spectrum[:, 0, 1].angle()


def test_the_formula() -> None:
    """On each axis the phase of the fundamental of the mean over channels and the other axis."""
    x = torch.randn(2, 3, 6, 5)
    spectrum = torch.fft.fft2(x.double().mean(1))
    rows = -6 * spectrum[:, 1, 0].angle() / (2 * math.pi)
    columns = -5 * fundamental(x) / (2 * math.pi)
    assert torch.allclose(subpixel_pivot(x), torch.stack([rows, columns], 1), atol=1e-10)
    assert subpixel_pivot(x).dtype == torch.float64
    assert front(x).dtype == x.dtype
    assert torch.allclose(subpixel_pivot(x[..., :3])[:, 1], -3 * fundamental(x[..., :3]) / (2 * math.pi), atol=1e-10)
    assert torch.allclose(subpixel_pivot(x[:, :, :2])[:, 1], -5 * fundamental(x[:, :, :2]) / (2 * math.pi), atol=1e-10)
    assert not subpixel_pivot(x[:, :, :2])[:, 0].any()
    assert not subpixel_pivot(x[:, :, :2, :1]).any()  # no frequency with a direction


def test_only_undecided_samples_are_looked_at_again() -> None:
    """A flat sample in the batch changes nothing for the others; NaN has no position."""
    x = torch.randn(3, 1, 6, 5)
    alone = subpixel_pivot(x)
    x[1] = 2
    assert torch.equal(subpixel_pivot(x)[[0, 2]], alone[[0, 2]])
    assert torch.equal(front(x)[1], x[1])
    x[1, 0, 0, 0] = torch.nan
    assert subpixel_pivot(x)[1].isnan().all()


@pytest.mark.parametrize("x", [waves((1, 2, 3)), waves((1, 3, 0), (1, 4, 0), (1, 0, 2)), waves((1, 1, 0), (1, 0, 1))])
def test_brightness_and_faint_remains_of_a_frequency_do_not_count(x: Tensor) -> None:
    """A coefficient a thousand million times below the others decides nothing, whatever the unit of the values."""
    for scale in (1e-8, 1.0, 1e8):
        faint = scale * (x + 1e-9 * torch.sin(torch.arange(24.0))[:, None] * torch.cos(torch.arange(21.0)))
        assert (front(faint) / scale - front(x)).abs().max() < 1e-6


def test_other_devices_and_shapes() -> None:
    x = torch.zeros(2, 3, 6, 5, device="meta")
    assert subpixel_pivot(x).is_meta
    assert front(x).is_meta
    with pytest.raises(ValueError, match=r"^`x` .shape .6, 5.. must "):
        subpixel_pivot(torch.zeros(6, 5))


def test_frequencies_with_a_direction() -> None:
    """One of k and -k, without zero and without Nyquist's, the lowest first."""
    assert _frequencies((4, 3)) == [(0, 1), (1, 0), (1, -1), (1, 1)]
    assert _frequencies((5,)) == [(1,), (2,)]
    assert _frequencies((2, 1)) == []


def test_each_sample_its_own_fraction() -> None:
    """A tensor of shifts is one shift after the other; its gradient is right."""
    x, shifts = torch.randn(3, 2, 5, 6, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64) * 9
    each = torch.cat([fractional_shift(x[i : i + 1], shifts[i].tolist()) for i in range(3)])
    assert torch.allclose(fractional_shift(x, shifts), each, atol=1e-12)
    shifts.requires_grad_()
    assert torch.autograd.gradcheck(lambda s: fractional_shift(x, s), shifts)
    for wrong in (shifts[:2], shifts[0], shifts[:, :1]):
        with pytest.raises(ValueError, match=r"must have one entry per shifted axis \(2\), or be a tensor \(B, 2\)"):
            fractional_shift(x, wrong)


def test_without_nyquist() -> None:
    """The row that alternates is gone, and all others are as before."""
    x = torch.randn(1, 1, 6, 8, dtype=torch.float64)
    spectrum = torch.fft.rfft2(fractional_shift(x, (0.0, 0.0), keep_nyquist=False))
    expected = torch.fft.rfft2(x)
    expected[..., 3, :] = 0
    expected[..., 4] = 0
    assert torch.allclose(spectrum, expected, atol=1e-12)
