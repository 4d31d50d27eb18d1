"""The matrix of one axis: what its kernels make of constants and waves."""

from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from scipy import special

from shiftproof.evaluation.matrix import measure_matrix
from shiftproof.ghs import basis, grids
from shiftproof.ghs.kernel import GHS, GHS_PAPER, Hermite, Kernel, Local
from shiftproof.ghs.matrix import local_function, make_plan, sampling_matrix


def test_measured_properties_of_the_matrix() -> None:
    """What DESIGN records of R, 32 -> 16: gain of a constant, pass and stop band, commutation with the stride."""
    paper = measure_matrix(GHS_PAPER, grid="inclusive")
    ours = measure_matrix(Hermite(gain="paper", taper="none"), grid="periodic")
    assert paper["constant"][0] == pytest.approx(0.64, abs=0.01)
    assert 0.98 < ours["constant"][0] <= ours["constant"][1] < 1.03
    assert ours["response"][:8] == pytest.approx([1] * 8, abs=0.04)
    assert ours["kept"] == min(ours["response"][:8])
    assert ours["leaked"] == max(ours["response"][9:]) < 1e-3
    assert ours["commutation"] == pytest.approx(0.08, abs=0.005)
    assert paper["commutation"] == pytest.approx(0.24, abs=0.005)
    assert (
        measure_matrix(GHS, 8, 4)["commutation"]
        < 0.1
        < 0.5
        < measure_matrix(GHS_PAPER, 8, 4, "inclusive")["commutation"]
    )
    assert measure_matrix(GHS, 7, 4)["commutation"] is None
    assert measure_matrix(GHS, 4, 4)["leaked"] == 0


@pytest.mark.parametrize(("sigma", "gain"), [("band", 0.5), ("1.5*band", 0.5**2.25), ("2*band", 0.5**4)])
def test_all_orders_are_a_gaussian(sigma: str, gain: float) -> None:
    """Its gain at the output's Nyquist limit is as said, no weight is negative, and few of them matter."""
    kernel = Hermite(sigma=sigma, gain="paper")
    found, matrix = measure_matrix(kernel, 64, 32), sampling_matrix(64, 32, kernel)
    assert found["response"][16] == pytest.approx(gain, abs=0.01)
    assert found["response"] == sorted(found["response"], reverse=True)
    assert found["constant"] == pytest.approx([1, 1], abs=0.03)
    assert found["commutation"] < 0.002
    assert matrix.min() >= 0
    assert (matrix > 1e-7 * matrix.max()).sum(1).max() < 20


@pytest.mark.parametrize("extension", ["zero", "periodic"])
@pytest.mark.parametrize("size", [1, 2, 7, 16])
def test_least_squares_with_all_functions_is_the_identity(size: int, extension: str) -> None:
    """R = 1 where as many functions as pixels are fitted and sampled at the pixels."""
    kernel = Hermite("M", "rule", extension, "least-squares", "paper", "none")
    assert np.abs(sampling_matrix(size, size, kernel, "periodic") - np.eye(size)).max() < 1e-10


def test_unit_gain_needs_something_to_divide_by() -> None:
    with pytest.raises(ValueError, match=r"`gain='unit'` cannot keep a constant here"):
        sampling_matrix(8, 4, Hermite(orders=1, sigma=1e-3, extension="zero", taper="none"))


@pytest.mark.parametrize(
    "kernel", [GHS, Hermite("N", "band", projection="least-squares", taper="none"), Hermite(3, 0.4), Local(1)]
)
def test_matrix_is_the_same_read_backwards(kernel: Kernel) -> None:
    """The functions are even or odd and the grid is symmetric, unless an even axis has a sample in its middle."""
    for size, count in ((32, 16), (31, 16), (9, 3), (5, 5), (7, 1)):
        matrix = sampling_matrix(size, count, kernel, "periodic" if size == 32 else "anchored")
        assert np.allclose(matrix, matrix[::-1, ::-1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", [0, 1, 2, 8, 64])
def test_local_function_is_its_series(order: int) -> None:
    """k_m against its definition in 60 digits."""
    x = np.linspace(-30, 30, 41)
    with mpmath.workdps(120):
        expected = []
        for v in x:
            y = mpmath.mpf(float(v)) / (mpmath.sqrt(2) * mpmath.mpf(1.3))
            terms = [mpmath.mpf(-0.25) ** n / mpmath.factorial(n) * mpmath.hermite(2 * n, y) for n in range(order + 1)]
            expected.append(float(mpmath.exp(-y * y) / (mpmath.mpf(1.3) * mpmath.sqrt(2 * mpmath.pi)) * sum(terms)))
    assert np.abs(local_function(order, x, 1.3) - expected).max() < 1e-13


@pytest.mark.parametrize("order", [0, 1, 2, 4, 8, 64])
@pytest.mark.parametrize("width", [0.8, 1.0, 1.25])
def test_gain_of_a_local_kernel_is_an_incomplete_gamma_function(order: int, width: float) -> None:
    """Q(m + 1, w^2 s^2 / 2), and its copies at multiples of the pixels' frequency, relative to a constant."""
    kernel, size = Local(order, width), 512
    w = 2 * np.pi * np.arange(size // 2 + 1) / size
    copies = w + 2 * np.pi * np.arange(-9, 10)[:, None]
    gain = special.gammaincc(order + 1, (copies * kernel.scale(2)) ** 2 / 2).sum(0)
    found = measure_matrix(kernel, size, size // 2)["response"]
    assert np.abs(found - gain / gain[0]).max() < 1e-12
    if width == 1:
        assert found[size // 4] == pytest.approx(0.5, abs=3e-3)


def test_rows_of_a_local_kernel_are_shifts_of_one_another() -> None:
    matrix = sampling_matrix(24, 8, Local(2))
    assert all(np.allclose(np.roll(matrix[0], 3 * j), row, rtol=0, atol=1e-15) for j, row in enumerate(matrix))


@pytest.mark.parametrize("order", [0, 3])
def test_a_local_kernel_wider_than_the_map_is_wrapped_many_times(order: int) -> None:
    kernel = Local(order, 6.0)
    pixel = np.arange(5) - np.array([0.75, 3.25])[:, None]  # of the periodic grid
    wrapped = sum(local_function(order, pixel + 5 * copy, kernel.scale(2.5)) for copy in range(-400, 401))
    expected = wrapped / np.sum(wrapped, axis=1, keepdims=True)
    assert np.abs(sampling_matrix(5, 2, kernel, "periodic") - expected).max() < 1e-12


def test_order_zero_is_the_gaussian_of_the_default() -> None:
    """The default sums all orders with a fading weight, which is a Gaussian to a few parts in a thousand."""
    assert np.abs(sampling_matrix(64, 32, Local(0)) - sampling_matrix(64, 32, GHS)).max() < 5e-3


def test_a_series_of_many_orders_is_added_up_in_parts() -> None:
    kernel = Hermite(orders=1500, sigma=0.9, gain="paper", taper="none")
    x, y = grids.pixels(9), grids.samples(9, 5, "inclusive")
    expected = grids.step(9) * basis.functions(1500, y, 0.9).T @ basis.functions(1500, x, 0.9, grids.period(9))
    assert np.allclose(sampling_matrix(9, 5, kernel, "inclusive"), expected, rtol=0, atol=1e-9)


def test_widths_up_to_a_hundred_maps() -> None:
    for sigma, fits in ((150.0, True), (220.0, True), (240.0, False)):
        kernel = Hermite(orders=4, sigma=sigma, gain="paper")
        if fits:
            assert np.isfinite(sampling_matrix(8, 4, kernel)).all()
        else:
            with pytest.raises(ValueError, match="must be at most 100 times the size of the map"):
                sampling_matrix(8, 4, kernel)


@pytest.mark.parametrize("stay", [False, True])
@pytest.mark.parametrize("back", [False, True])
def test_the_plan_of_a_graph_is_that_of_a_call(stay: bool, back: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its matrices are made by the operator, at run time, and sizes are not compared."""
    made_of: Any = torch.zeros(1, 1, 7, 12), (7, 12), (4, 6), (3, 6), Local(1), "anchored", stay, back
    plan = make_plan(*made_of)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(torch.compiler, "is_dynamo_compiling", lambda: True)
    traced = make_plan(*made_of)
    assert traced._replace(axes=(), phases=None) == plan._replace(axes=(), phases=None)
    assert traced.phases is None
    for axis, other in zip(traced.axes, plan.axes, strict=True):
        assert torch.equal(axis.dense, other.dense)
    monkeypatch.undo()
    usual = make_plan(*made_of[:6])
    assert usual.first is None
    assert torch.equal(usual.axes[0].dense, torch.from_numpy(sampling_matrix(7, 4, Local(1))).float())
    assert make_plan(made_of[0].to("meta"), *made_of[1:]).axes[0].dense.is_meta
