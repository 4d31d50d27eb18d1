"""The matrix of functions on a grid, summed over its copies where the axis is wrapped, and its pseudo-inverse."""

import numpy as np
import numpy.typing as npt
import pytest

from helpers.laws import functions_by_series
from shiftproof.ghs import basis, grids

Array = npt.NDArray[np.float64]


@pytest.mark.parametrize("sigma", [0.3, 1.0])
def test_functions_are_those_of_the_paper(sigma: float) -> None:
    """A row for each order, a column for each position (Eq. 12)."""
    x = np.linspace(-1, 1.5, 6)
    found = basis.functions(9, x, sigma)
    assert found.shape == (9, 6)
    assert np.abs(found - functions_by_series(9, x, sigma)).max() < 1e-12


@pytest.mark.parametrize(
    ("orders", "sigma", "period"),
    [(1, 0.05, 2.0), (1, 1.0, 0.5), (3, 2.5, 2.0), (40, 0.05, 0.5), (200, 0.5, 2.0), (1000, 1.0, 2.0)],
)
def test_functions_with_a_period_are_the_sums_of_all_copies(orders: int, sigma: float, period: float) -> None:
    x = np.linspace(-1, 1, 7)
    copies = x + period * np.arange(-60, 61)[:, None]
    expected = basis.functions(orders, copies.ravel(), sigma).reshape(orders, 121, 7).sum(1)
    for turns in (-3, 0, 3):  # far outside too
        found = basis.functions(orders, x + turns * period, sigma, period)
        assert np.abs(found - expected).max() < 1e-12


def test_copies_are_summed_once_each() -> None:
    """Where neighbouring copies overlap: order 0, a Gaussian, against its Fourier series."""
    x, sigma, period = np.linspace(-0.4, 0.4, 5), 0.3, 0.8
    k = np.arange(1, 20)
    gain = np.exp(-((2 * np.pi * k * sigma / period) ** 2) / 2)
    waves = 1 + 2 * (gain * np.cos(2 * np.pi * np.outer(x, k) / period)).sum(1)
    expected = np.sqrt(2 * np.sqrt(np.pi) * sigma) / period * waves
    assert np.abs(basis.functions(1, x, sigma, period)[0] - expected).max() < 1e-13


@pytest.mark.parametrize("period", [None, 2.5, 0.5])
@pytest.mark.parametrize("orders", [1, 255, 256, 257, 600])
def test_blocks_are_the_functions_in_parts(orders: int, period: float | None) -> None:
    """At most 256 orders at a time, in their order; the first ones do not depend on how many follow."""
    x = grids.pixels(11)
    parts = list(basis.blocks(orders, x, 0.2, period))
    assert [len(part) for part in parts] == [256] * (orders // 256) + [orders % 256] * (orders % 256 > 0)
    assert np.array_equal(np.concatenate(parts), basis.functions(orders, x, 0.2, period))
    assert np.abs(parts[0] - basis.functions(len(parts[0]), x, 0.2, period)).max() < 1e-12


@pytest.mark.parametrize("period", [None, 2.0])
def test_functions_at_many_places_are_functions_at_each(period: float | None) -> None:
    """The farthest position decides how many copies are summed, and changes nothing for the others."""
    x = np.array([-40.0, -1.0, 0.0, 0.3, 1.0, 25.0])
    one_by_one = np.concatenate([basis.functions(12, x[i : i + 1], 0.4, period) for i in range(6)], 1)
    assert np.abs(basis.functions(12, x, 0.4, period) - one_by_one).max() < 1e-13


def fit(q: Array, f: Array) -> Array:
    return basis.least_squares(q) @ f


@pytest.mark.parametrize(("orders", "size"), [(1, 1), (1, 7), (4, 9), (12, 16), (8, 8)])
def test_a_fit_recovers_coefficients_and_leaves_an_orthogonal_rest(orders: int, size: int) -> None:
    """pinv(Q^T) Q^T = 1, and what the functions cannot express is orthogonal to all of them."""
    generator = np.random.default_rng(0)
    q = basis.functions(orders, grids.pixels(size), grids.scale_rule(orders))
    inverse = basis.least_squares(q)
    assert inverse.shape == (orders, size)
    assert inverse.dtype == np.float64
    assert np.abs(inverse @ q.T - np.eye(orders)).max() < 1e-10
    a, f = generator.normal(size=orders), generator.normal(size=size)
    assert np.abs(fit(q, q.T @ a) - a).max() < 1e-9
    assert np.abs(q @ (f - q.T @ fit(q, f))).max() < 1e-9


def test_more_functions_than_pixels_have_no_fit() -> None:
    with pytest.raises(ValueError, match=r"`orders` \(=9\) must be at most the grid size \(=8\) for `projection="):
        basis.least_squares(basis.functions(9, grids.pixels(8), 0.3))
    assert basis.least_squares(np.eye(8)).shape == (8, 8)


def test_a_fit_is_refused_beyond_its_limit() -> None:
    """By the condition number: half of the digits of float64 are lost there. A singular matrix too."""
    assert basis.CONDITION_LIMIT == 1e8
    for condition in (1.0, 1e4, 0.99e8):
        q = np.diag([1.0, 1 / condition])
        assert np.allclose(fit(q, np.array([3.0, 2.0])), [3.0, 2.0 * condition], rtol=1e-6)
    message = r"hopeless here: 2 functions on 3 pixels have the condition number 1.0e\+08 \(limit 1e\+08\). Take fewer"
    with pytest.raises(ValueError, match=message):
        basis.least_squares(np.array([[1.0, 0.0, 0.0], [0.0, 1 / 1.01e8, 0.0]]))
    with pytest.raises(ValueError, match="have the condition number inf "):
        basis.least_squares(np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))


def test_projections_are_the_two_of_the_documents() -> None:
    assert basis.PROJECTIONS == ("quadrature", "least-squares")
