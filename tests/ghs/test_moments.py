"""Moments and reconstruction: Eqs. 7 to 13."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.laws import DTYPES, TOLERANCE, functions_by_series
from shiftproof.ghs import grids
from shiftproof.ghs import moments as moments_module
from shiftproof.ghs.functions import gauss_hermite
from shiftproof.ghs.moments import centroid_moments, condition_number, moments, reconstruct
from shiftproof.maps.shifts import circular_shift


def moments_by_loops(f: Tensor, orders: tuple[int, ...], sigma: float | None) -> Tensor:
    """Eqs. 8 and 10 as written: one sum over pixels for each order."""
    n = len(orders)
    q = [functions_by_series(k, grids.pixels(m), sigma or 0.9 * k**-0.52) for m, k in zip(f.shape, orders, strict=True)]
    out = torch.zeros(orders, dtype=torch.float64)
    area = math.prod(2 / (m - 1) if m > 1 else 2 for m in f.shape)
    for p in itertools.product(*(range(k) for k in orders)):
        total = 0.0
        for i in itertools.product(*(range(m) for m in f.shape)):
            total += float(f[i]) * math.prod(q[a][p[a], i[a]] for a in range(n))
        out[p] = total * area
    return out


def reconstruct_by_loops(a: Tensor, sizes: tuple[int, ...], sigma: float | None) -> Tensor:
    """Eqs. 11 and 13 as written: one sum over orders for each pixel."""
    n = len(sizes)
    q = [functions_by_series(k, grids.pixels(m), sigma or 0.9 * k**-0.52) for m, k in zip(sizes, a.shape, strict=True)]
    out = torch.zeros(sizes, dtype=torch.float64)
    for i in itertools.product(*(range(m) for m in sizes)):
        for p in itertools.product(*(range(k) for k in a.shape)):
            out[i] += float(a[p]) * math.prod(q[x][p[x], i[x]] for x in range(n))
    return out


@pytest.mark.parametrize("sigma", [None, 0.4])
@pytest.mark.parametrize(
    ("sizes", "orders"),
    [
        ((7,), (4,)),
        ((5, 6), (5, 6)),
        ((6, 5), (3, 4)),
        ((1, 4), (1, 2)),
        ((4, 3, 5), (2, 3, 4)),
        ((3, 2, 4, 3), (2, 2, 3, 1)),
    ],
)
def test_moments_are_the_sums_of_the_paper(
    sizes: tuple[int, ...], orders: tuple[int, ...], sigma: float | None
) -> None:
    """Eqs. 7-10 and 12 in one to four dimensions, non-square sizes, and Eqs. 11 and 13 back."""
    f = torch.randn(sizes, dtype=torch.float64)
    a = moments(f, orders, sigma, ndim=len(sizes))
    assert torch.allclose(a, moments_by_loops(f, orders, sigma), atol=1e-10)
    back = reconstruct(a, [m + 1 for m in sizes], sigma, ndim=len(sizes))
    assert torch.allclose(back, reconstruct_by_loops(a, tuple(m + 1 for m in sizes), sigma), atol=1e-10)


def test_matrix_form() -> None:
    """Eq. 12: A = 4/(M-1)^2 Q F Q^T."""
    f = torch.randn(8, 8, dtype=torch.float64)
    q = gauss_hermite(8, grids.pixels(8), grids.scale_rule(8))
    assert torch.allclose(moments(f), 4 / 49 * q @ f @ q.T, atol=1e-13)


def test_leading_axes_are_a_batch() -> None:
    f = torch.randn(2, 3, 6, 5, dtype=torch.float64)
    batched = moments(f, orders=4)
    assert batched.shape == (2, 3, 4, 4)
    assert torch.allclose(batched[1, 2], moments(f[1, 2], orders=4), atol=1e-14)


@pytest.mark.parametrize("sizes", [(9,), (8, 7), (4, 5, 6)])
def test_least_squares_is_exact_on_the_span(sizes: tuple[int, ...]) -> None:
    """Whatever the functions span comes back unchanged; the quadrature of the paper does not do that."""
    ndim = len(sizes)
    orders = [m - 1 for m in sizes]
    spanned = reconstruct(torch.randn(orders, dtype=torch.float64), sizes, ndim=ndim)
    exact = reconstruct(moments(spanned, orders, ndim=ndim, projection="least-squares"), sizes, ndim=ndim)
    rough = reconstruct(moments(spanned, orders, ndim=ndim), sizes, ndim=ndim)
    assert torch.allclose(exact, spanned, atol=1e-10)
    assert not torch.allclose(rough, spanned, atol=1e-3)


def test_least_squares_error_is_orthogonal_to_the_functions() -> None:
    f = torch.randn(20, dtype=torch.float64)
    fitted = reconstruct(moments(f, 8, ndim=1, projection="least-squares"), 20, ndim=1)
    q = gauss_hermite(8, grids.pixels(20), grids.scale_rule(8))
    assert float((q @ (f - fitted)).abs().max()) < 1e-10


def test_condition_number_is_reported() -> None:
    q = functions_by_series(12, grids.pixels(16), grids.scale_rule(12))
    assert condition_number(16, 12) == pytest.approx(np.linalg.cond(q.T), rel=1e-6)
    assert condition_number(16, 12, sigma=2.0) > 1e6


def test_hopeless_least_squares_is_refused() -> None:
    with pytest.raises(ValueError, match=r"is hopeless here: 32 functions on 32 pixels have the condition number"):
        moments(torch.randn(32), ndim=1, sigma=3.0, projection="least-squares")
    with pytest.raises(ValueError, match=r"`orders` \(=40\) must be at most the grid size \(=32\)"):
        moments(torch.randn(32), 40, ndim=1, projection="least-squares")


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_float_dtype(dtype: torch.dtype) -> None:
    f = torch.rand(3, 12, 10).to(dtype)
    a = moments(f, orders=6)
    back = reconstruct(a, (12, 10))
    assert a.dtype == back.dtype == dtype
    wide = moments(f.double(), orders=6)
    assert torch.allclose(a.double(), wide, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_gradients() -> None:
    f = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: moments(t, orders=3), f)
    assert torch.autograd.gradcheck(lambda t: reconstruct(t, (6, 7)), f)
    positive = torch.rand(2, 5, 4, dtype=torch.float64).add(0.5).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: centroid_moments(t, orders=3), positive, check_forward_ad=True)


def test_autocast_changes_nothing() -> None:
    f = torch.rand(3, 12, 10)
    plain = [moments(f), reconstruct(moments(f), 8), centroid_moments(f)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = [moments(f), reconstruct(moments(f), 8), centroid_moments(f)]
    assert all(torch.equal(a, b) for a, b in zip(plain, inside))


def test_matrices_are_built_once() -> None:
    """The same size, order and scale give the same tensor from the cache."""
    f = torch.randn(10, 10)
    moments(f)
    before = len(moments_module._cache)
    first = moments_module._projector(10, 10, None, "quadrature", f)
    assert moments_module._projector(10, 10, None, "quadrature", f) is first
    assert len(moments_module._cache) == before


def centred_blob(offset: tuple[int, int], size: int = 33) -> Tensor:
    x = torch.from_numpy(grids.pixels(size))
    blob = torch.exp(-(x[:, None] ** 2 + x[None] ** 2) / 0.02)
    return circular_shift(blob, offset)


def test_centroid_moments_undo_a_translation() -> None:
    """Away from the border the related work's normalisation works, where plain moments change."""
    here, there = centred_blob((0, 0)), centred_blob((3, -4))
    assert torch.allclose(centroid_moments(here, 8), centroid_moments(there, 8), atol=1e-6)
    assert not torch.allclose(moments(here, 8), moments(there, 8), atol=1e-2)


def test_centroid_moments_fail_at_the_border() -> None:
    """Once the object wraps around the border, the centroid moves by something else than the shift."""
    here, there = centred_blob((0, 0)), centred_blob((16, 15))
    assert float((centroid_moments(here, 8) - centroid_moments(there, 8)).abs().max()) > 1e-2


@pytest.mark.parametrize("dtype", DTYPES)
def test_centroids_are_of_each_map_alone(dtype: torch.dtype) -> None:
    """In a batch as one by one, computed in at least float32 and given in the dtype of the map."""
    f = torch.rand(2, 3, 24, 20).to(dtype)
    found = centroid_moments(f, 8)
    assert found.dtype == dtype
    alone = torch.stack([torch.stack([centroid_moments(m, 8) for m in maps]) for maps in f])
    assert torch.allclose(found, alone, atol=TOLERANCE[dtype])
    exact = centroid_moments(f.double(), 8)
    assert float((found.double() - exact).abs().max()) <= (
        1e-6 + torch.finfo(dtype).eps / 2 * float(exact.abs().max()) if dtype != torch.float64 else 0.0
    )


def test_centroid_moments_are_moments_about_the_centroid() -> None:
    f = torch.rand(6, 7, dtype=torch.float64)
    x, y = (torch.from_numpy(grids.pixels(m)) for m in (6, 7))
    cx, cy = float((f.sum(1) * x).sum() / f.sum()), float((f.sum(0) * y).sum() / f.sum())
    q = functions_by_series(3, (x - cx).numpy(), 0.5), functions_by_series(4, (y - cy).numpy(), 0.5)
    expected = torch.from_numpy(q[0]) @ f @ torch.from_numpy(q[1]).T * (2 / 5) * (2 / 6)
    assert torch.allclose(centroid_moments(f, (3, 4), 0.5), expected, atol=1e-12)


def test_a_map_without_mass_keeps_its_origin() -> None:
    f = torch.zeros(2, 5, 5)
    assert centroid_moments(f, 3).eq(0).all()
    assert centroid_moments(torch.ones(5), 3, ndim=1).isfinite().all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: moments(torch.ones(4, 4, dtype=torch.int64)), "must be a real floating tensor"),
        (
            lambda: moments(np.ones((4, 4))),  # type: ignore[arg-type]
            "`f` must be a torch.Tensor, not ndarray",
        ),
        (lambda: moments(torch.ones(4)), r"must have at least `ndim` \(=2\) dimensions"),
        (lambda: moments(torch.ones(0, 4)), "must not have a zero-sized axis"),
        (lambda: moments(torch.ones(4, 4), orders=0), r"`orders` \(=0\) must be at least 1"),
        (lambda: moments(torch.ones(4, 4), orders=(2,)), r"must have one entry per axis \(2\), not 1"),
        (lambda: moments(torch.ones(4, 4), sigma=-1.0), r"`sigma` \(=-1.0\) must be positive"),
        (lambda: moments(torch.ones(4, 4), projection="galerkin"), "must be one of 'quadrature', 'least-squares'"),
        (lambda: reconstruct(torch.ones(4, 4), 0), r"`size` \(=0\) must be at least 1"),
    ],
)
def test_bad_arguments(call: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()  # type: ignore[operator]
