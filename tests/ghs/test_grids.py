"""Pixel grids, orders, scales."""

import math

import numpy as np
import pytest

from shiftproof.ghs import grids


def test_pixels_are_the_papers_grid() -> None:
    """Eq. 9: x_i = (2i - M + 1)/(M - 1), step 2/(M - 1); one pixel lies at 0 with step 2."""
    for size in (2, 3, 8, 31):
        x = grids.pixels(size)
        assert x[0] == -1
        assert x[-1] == 1
        assert np.allclose(np.diff(x), grids.step(size))
    assert grids.pixels(1).tolist() == [0.0]
    assert grids.step(1) == 2.0


@pytest.mark.parametrize(("size", "count"), [(8, 4), (7, 4), (9, 3), (2, 1), (5, 5)])
def test_periodic_samples_leave_no_seam(size: int, count: int) -> None:
    """The step from the last sample to the wrapped first is that between neighbours, and the middle is 0."""
    y = grids.samples(size, count, "periodic")
    period = grids.period(size)
    assert np.allclose(np.diff([*y, y[0] + period]), period / count)
    assert y.mean() == pytest.approx(0, abs=1e-15)
    if size == count:
        assert np.allclose(y, grids.pixels(size))


@pytest.mark.parametrize(("size", "count"), [(32, 16), (30, 15), (9, 3), (31, 11), (2, 1), (6, 6), (1, 1), (12, 5)])
def test_a_sample_lies_on_the_pivot(size: int, count: int) -> None:
    """The grid `pivot` is the periodic one, moved by less than a step, and has a sample on the middle pixel."""
    y = grids.samples(size, count, "anchored")
    assert y[count // 2] == grids.pixels(size)[size // 2]
    moved = y - grids.samples(size, count, "periodic")
    assert np.allclose(moved, moved[0], atol=1e-15)
    assert abs(moved[0]) < grids.period(size) / count


@pytest.mark.parametrize(("size", "count"), [(15, 8), (11, 6), (29, 15), (21, 11), (3, 2)])
def test_on_odd_axes_the_grid_is_symmetric_around_the_pivot(size: int, count: int) -> None:
    y = grids.samples(size, count, "anchored")
    assert np.allclose(y, -y[::-1], atol=1e-15)


@pytest.mark.parametrize(("size", "count"), [(32, 16), (12, 8), (15, 8), (9, 3), (7, 7), (5, 1)])
def test_phases_are_the_shifts_that_change_the_grid(size: int, count: int) -> None:
    """The grid lies on itself after that many pixels, around the edge, and not before."""
    period, found = grids.period(size), grids.phases(size, count)
    y = grids.samples(size, count, "periodic")
    for shift in range(1, size + 1):
        apart = np.abs((y[:, None] + shift * grids.step(size) - y + period / 2) % period - period / 2)
        assert bool((apart.min(1) < 1e-12).all()) == (shift % found == 0)


def test_inclusive_samples_reach_both_ends() -> None:
    assert grids.samples(32, 16, "inclusive").tolist() == grids.pixels(16).tolist()


@pytest.mark.parametrize(
    ("orders", "expected"), [(7, 7), ("N", 16), ("4N", 64), ("4*N", 64), ("N/2", 8), ("M", 33), ("2M/3", 22)]
)
def test_orders(orders: int | str, expected: int) -> None:
    assert grids.resolve_orders(orders, 33, 16) == expected


def test_orders_are_at_least_one() -> None:
    assert grids.resolve_orders("N/8", 4, 2) == 1


@pytest.mark.parametrize("orders", ["", "K", "N+1", "0N", "-N", "N/0", "1.5N", "4 4N"])
def test_unreadable_orders(orders: str) -> None:
    with pytest.raises(ValueError, match="must be an integer of at least 1, or a multiple or fraction"):
        grids.resolve_orders(orders, 8, 4)


def test_scales() -> None:
    """Eq. 24 with both its cases; the band's cut-off is the output's Nyquist limit; numbers and multiples."""
    assert grids.scale_rule(1) == 0.9
    assert grids.scale_rule(0) == 1.0
    assert grids.scale_rule(16) == pytest.approx(0.9 * 16**-0.52)
    band = grids.resolve_sigma("band", 64, 32, 16)
    assert math.sqrt(2 * 64 + 1) / band == pytest.approx(math.pi * 16 / grids.period(32))
    assert grids.resolve_sigma("0.5*band", 64, 32, 16) == pytest.approx(band / 2)
    assert grids.resolve_sigma(" 2 * rule", 16, 32, 16) == pytest.approx(2 * grids.scale_rule(16))
    assert grids.resolve_sigma("order", 16, 32, 16) == pytest.approx(0.9 * 15**-0.52)  # 0.220, not 0.213
    assert grids.resolve_sigma("order", 1, 32, 16) == 1.0  # the highest order is 0
    assert grids.resolve_sigma(0.3, 64, 32, 16) == 0.3


@pytest.mark.parametrize("sigma", ["rules", "band*2", "", "-1*band", "nan*rule"])
def test_unreadable_sigma(sigma: str) -> None:
    with pytest.raises(ValueError, match="must be a positive number, 'rule'"):
        grids.resolve_sigma(sigma, 4, 8, 4)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.inf, math.nan, "0*band"])
def test_sigma_must_be_positive(sigma: float | str) -> None:
    with pytest.raises(ValueError, match="must be positive and finite"):
        grids.resolve_sigma(sigma, 4, 8, 4)


@pytest.mark.parametrize("grid", grids.GRIDS)
@pytest.mark.parametrize("size", [2, 3, 8, 9, 12])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_places_are_the_samples_in_parts_of_a_pixel(size: int, count: int, grid: str) -> None:
    """Whole numbers for what `samples` says in [-1, 1], around the edge."""
    first, unit, step = grids.place(size, min(count, size), grid)
    pixels = (grids.samples(size, min(count, size), grid) + 1) * (size - 1) / 2
    expected = (first + np.arange(min(count, size)) * step) / unit
    assert np.allclose((pixels - expected + size / 2) % size, size / 2)
