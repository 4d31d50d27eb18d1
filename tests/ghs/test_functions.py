"""Hermite polynomials and Gaussian-Hermite functions: Eqs. 1 to 6."""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.laws import functions_by_series
from shiftproof.ghs.functions import gauss_hermite, hermite, hermite_series


def exact_functions(orders: int, x: float) -> list[mpmath.mpf]:
    """h_0 .. h_{orders-1} at x for s = 1, with 60 digits."""
    with mpmath.workdps(60):
        t = mpmath.mpf(x)
        before, here = mpmath.mpf(0), mpmath.exp(-t * t / 2) / mpmath.pi ** mpmath.mpf("0.25")
        out = []
        for p in range(1, orders + 1):
            out.append(here)
            before, here = here, mpmath.sqrt(mpmath.mpf(2) / p) * t * here - mpmath.sqrt(mpmath.mpf(p - 1) / p) * before
        return out


@pytest.mark.parametrize("order", range(9))
def test_series_is_the_derivative_definition(order: int) -> None:
    """Eq. 2 = Eq. 1: H_p(x) = (-1)^p exp(x^2) d^p/dx^p exp(-x^2)."""
    for x in (-1.3, 0.0, 0.4, 2.1):
        with mpmath.workdps(40):
            slope = mpmath.diff(lambda v: mpmath.exp(-v * v), x, order)
            expected = float((-1) ** order * mpmath.exp(mpmath.mpf(x) ** 2) * slope)
        assert hermite_series(order, x) == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_recurrence_gives_the_series() -> None:
    """Eq. 3 (with 2(p-1), not the printed 2p) = Eq. 2."""
    x = np.linspace(-3, 3, 13)
    computed = hermite(20, x)
    for p in range(20):
        for i, v in enumerate(x):
            assert float(computed[p, i]) == pytest.approx(hermite_series(p, v), rel=1e-9, abs=1e-6 * 2.0**p)


def test_printed_recurrence_is_a_misprint() -> None:
    """With 2p instead of 2(p-1), H_2 would be 4x^2 - 4 instead of 4x^2 - 2."""
    assert float(hermite(3, [1.0])[2, 0]) == 2.0 == hermite_series(2, 1.0)


def test_orthogonality() -> None:
    """Eq. 4: the integral of H_p H_q exp(-x^2) is 2^p p! sqrt(pi) where p = q, else 0."""
    nodes, weights = np.polynomial.hermite.hermgauss(24)
    h = hermite(12, nodes).numpy()
    gram = (h * weights) @ h.T
    expected = [2.0**p * float(mpmath.factorial(p)) * np.sqrt(np.pi) for p in range(12)]
    scale = np.sqrt(np.outer(expected, expected))
    assert np.abs(gram / scale - np.eye(12)).max() < 1e-12


def test_functions_are_weighted_polynomials() -> None:
    """Eq. 5, against the series of Eq. 2."""
    x = np.linspace(-2, 2, 9)
    for sigma in (0.3, 0.75, 1.7):
        computed = gauss_hermite(12, x, sigma).numpy()
        assert np.abs(computed - functions_by_series(12, x, sigma)).max() < 1e-9


@pytest.mark.parametrize("x", [0.0, 0.37, 5.5, 15.2, 31.0, 38.7, 44.7, 55.5, 63.2, 70.1, 80.0])
def test_absolute_error_to_order_2000(x: float) -> None:
    """At most 1e-12 for orders 0..2000 and |x| up to 80, where exp(-x^2/2) alone underflows; in fact 2e-14."""
    computed = gauss_hermite(2001, [x, -x]).numpy()
    exact = np.array([float(v) for v in exact_functions(2001, x)])
    assert np.abs(computed[:, 0] - exact).max() <= 2e-14
    parity = np.where(np.arange(2001) % 2, -1, 1)
    assert np.array_equal(computed[:, 1], parity * computed[:, 0])


@given(x=st.floats(-80, 80), order=st.integers(0, 300))
def test_absolute_error_anywhere(x: float, order: int) -> None:
    """At most 1e-12 at random places too."""
    assert abs(float(gauss_hermite(order + 1, [x])[-1, 0]) - float(exact_functions(order + 1, x)[-1])) <= 1e-12


def test_relative_error_of_the_gaussian_far_out() -> None:
    """A rounded t^2 alone would cost 700 units in the last place here."""
    for x in (11.1, 23.45, 31.7, 36.6, 37.3):
        ours = mpmath.mpf(gauss_hermite(1, [x]).item())
        assert abs(ours / exact_functions(1, x)[0] - 1) < 5 * 2.0**-53


def test_no_underflow_where_the_plain_recurrence_dies() -> None:
    """At x = 60 the start value is 1e-782, yet order 1800 is of the order of one."""
    values = gauss_hermite(2001, [60.0])
    assert float(values[0, 0]) == 0.0
    assert float(values[1800:].abs().max()) > 0.1


def test_orthonormality_to_order_500() -> None:
    """Eq. 6, by quadrature: the integral of h_p h_q is 1 where p = q, else 0, to 1e-10."""
    x = torch.linspace(-45, 45, 9001, dtype=torch.float64)  # the trapezoid rule is spectrally accurate here
    h = gauss_hermite(501, x)
    gram = (h @ h.T) * (x[1] - x[0])
    assert float((gram - torch.eye(501, dtype=torch.float64)).abs().max()) < 1e-10


def test_scale_stretches() -> None:
    """h_p(x; s) = h_p(x/s; 1) / sqrt(s)."""
    x = torch.linspace(-2, 2, 11, dtype=torch.float64)
    assert torch.allclose(gauss_hermite(6, x, 0.4), gauss_hermite(6, x / 0.4) / 0.4**0.5, atol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_derivatives(n: int) -> None:
    """derivative=n is the n-th derivative in x, also at high order."""
    for order, x in ((0, 0.3), (1, -1.2), (7, 0.9), (60, 4.0)):
        step = mpmath.mpf("1e-8")
        with mpmath.workdps(60):
            signs = {1: (-1, 1), 2: (1, -2, 1), 3: (-1, 3, -3, 1)}[n]
            offsets = [k - mpmath.mpf(n) / 2 for k in range(n + 1)]
            values = [exact_functions(order + 1, mpmath.mpf(x) + o * step)[-1] for o in offsets]
            expected = float(sum(s * v for s, v in zip(signs, values)) / step**n)
        computed = float(gauss_hermite(order + 1, [x], derivative=n)[-1, 0])
        assert computed == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_autograd_gives_the_derivative() -> None:
    """The gradient in x is derivative=1, and can be differentiated again."""
    x = torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: gauss_hermite(5, t, 0.7), x)
    assert torch.autograd.gradgradcheck(lambda t: gauss_hermite(4, t, 0.7), x)
    (slope,) = torch.autograd.grad(gauss_hermite(5, x, 0.7)[3].sum(), x)
    assert torch.allclose(slope, gauss_hermite(5, x.detach(), 0.7, derivative=1)[3], atol=1e-14)


def test_forward_mode_and_transforms() -> None:
    x = torch.linspace(-1, 1, 5, dtype=torch.float64)
    slope = gauss_hermite(4, x, 0.7, derivative=1)
    tangent = torch.func.jvp(lambda t: gauss_hermite(4, t, 0.7), (x,), (torch.ones_like(x),))[1]
    assert torch.allclose(tangent, slope, atol=1e-14)
    assert torch.allclose(torch.func.grad(lambda t: gauss_hermite(4, t, 0.7)[2].sum())(x), slope[2], atol=1e-14)
    assert torch.equal(torch.vmap(lambda t: gauss_hermite(4, t, 0.7), out_dims=1)(x), gauss_hermite(4, x, 0.7))
    leaf = x.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda t: gauss_hermite(3, t, 0.7), leaf, check_forward_ad=True)


def test_dtype_and_shape_follow_x() -> None:
    assert gauss_hermite(3, torch.zeros(2, 5, dtype=torch.float32)).dtype == torch.float32
    assert gauss_hermite(3, torch.zeros(2, 5, dtype=torch.int64)).dtype == torch.float64
    assert gauss_hermite(3, [[0.0, 1.0]]).shape == (3, 1, 2)


def test_arrays_are_computed_in_double_precision() -> None:
    x = np.linspace(-3, 3, 9, dtype=np.float32)
    assert torch.equal(gauss_hermite(30, x), gauss_hermite(30, x.astype(np.float64)))
    assert torch.equal(gauss_hermite(30, [0, 1, 2]), gauss_hermite(30, [0.0, 1.0, 2.0]))


def test_extreme_positions_are_harmless() -> None:
    """Infinity gives zero, NaN gives NaN, without a warning."""
    values = gauss_hermite(4, [float("inf"), -1e300, float("nan")])
    assert values[:, :2].eq(0).all()
    assert values[:, 2].isnan().all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, [0.0]), r"`orders` \(=0\) must be at least 1"),
        ((2.5, [0.0]), r"`orders` \(=2.5\) must be an integer, not float"),
        ((2, [0.0], 0.0), r"`sigma` \(=0.0\) must be positive and finite"),
        ((2, [0.0], float("nan")), r"`sigma` \(=nan\) must be positive and finite"),
        ((2, [0.0], "1"), r"`sigma` \(='1'\) must be a number, not str"),
    ],
)
def test_bad_arguments(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        gauss_hermite(*arguments)  # type: ignore[arg-type]


def test_polynomials_keep_the_dtype() -> None:
    for dtype in (torch.float32, torch.float64):
        assert hermite(3, torch.zeros(2, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize("derivative", [0, 1, 2])
def test_derivatives_under_vmap(derivative: int) -> None:
    x = torch.randn(3, 4, dtype=torch.float64)
    one = torch.func.vmap(lambda t: gauss_hermite(5, t, 0.8, derivative=derivative))(x)
    assert torch.equal(one, torch.stack([gauss_hermite(5, row, 0.8, derivative=derivative) for row in x]))
