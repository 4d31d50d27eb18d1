"""How far rounding goes: against many digits, against float64, at large orders and sizes; how well fits are posed."""

import math
import os
import subprocess
import sys

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import tally
from helpers.laws import effort
from shiftproof.ghs.backend import native
from shiftproof.ghs.basis import CONDITION_LIMIT
from shiftproof.ghs.functions import gauss_hermite
from shiftproof.ghs.kernel import GHS, GHS_PAPER, Hermite, Kernel, Local
from shiftproof.ghs.matrix import sampling_matrix
from shiftproof.ghs.moments import condition_number, moments, reconstruct
from shiftproof.layers import GHS1d, GHS2d

SECTION = "Numerics"
pytestmark = pytest.mark.counted
FUNCTIONS = 1e-12  # absolute error of the functions for s = 1, as the docstring of `gauss_hermite` has it
# unit roundoff of each dtype, and what summing in float32 adds, as the docstring of `ghs2d` has it
ROUNDOFF = {torch.float32: 0.0, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
SUMMATION = 16 * 2.0**-24


def exact_function(order: int, t: float) -> float:
    """h_order(t) for s = 1, with 60 digits."""
    with mpmath.workdps(60):
        x = mpmath.mpf(t)
        before, here = mpmath.mpf(0), mpmath.exp(-x * x / 2) / mpmath.pi ** mpmath.mpf("0.25")
        for p in range(1, order + 1):
            before, here = here, mpmath.sqrt(mpmath.mpf(2) / p) * x * here - mpmath.sqrt(mpmath.mpf(p - 1) / p) * before
        return float(here)


@effort(20, 500)
@given(order=st.integers(0, 5000), t=st.floats(-110, 110), power=st.integers(-8, 8))
def test_functions_at_random_orders_and_positions(order: int, t: float, power: int) -> None:
    """Up to order 5,000 and beyond its last turning point (|t| = 100); a scale that is a power of 4 changes no bit."""
    sigma = 4.0**power
    found = float(gauss_hermite(order + 1, [t * sigma], sigma)[-1, 0]) * 2.0**power
    error = abs(found - exact_function(order, t))
    assert error <= FUNCTIONS
    tally.count(SECTION, "functions at random orders and positions, against 60 digits")
    tally.measured(SECTION, "absolute error of a function of order 0..5,000", error, FUNCTIONS)


kernels = st.sampled_from([GHS, GHS_PAPER, Hermite(orders="2N"), Hermite(gain="paper"), Local(4)])


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_layer_against_float64(dtype: torch.dtype, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Off by at most (roundoff + 16 / 2^24) times max |x| times the largest sums of |R| over a row, axis by axis."""
    if compiled and native.library is None:
        pytest.skip("the kernels were not built")
    if not compiled:
        monkeypatch.setattr(native, "library", None)
    bound = ROUNDOFF[dtype] + SUMMATION

    @effort(25, 1500)
    @given(
        sizes=st.tuples(st.integers(1, 48), st.integers(1, 48)),
        stride=st.integers(1, 4),
        kernel=kernels,
        power=st.integers(-6, 6),
        seed=st.integers(0, 2**16),
    )
    def law(sizes: tuple[int, int], stride: int, kernel: Kernel, power: int, seed: int) -> None:
        x = (torch.randn(2, 3, *sizes, generator=torch.Generator().manual_seed(seed)) * 2.0**power).to(dtype)
        layer = GHS2d(stride, kernel=kernel)
        selection = layer.select(x)
        matrices = [torch.from_numpy(sampling_matrix(n, -(-n // stride), kernel)) for n in sizes]
        rolled = [f.roll([n // 2 - int(p) for n, p in zip(sizes, s)], (1, 2)) for f, s in zip(x.double(), selection)]
        exact = matrices[0] @ torch.stack(rolled) @ matrices[1].mT
        gain = math.prod(float(matrix.abs().sum(1).max()) for matrix in matrices)
        error = float((layer(x, selection).double() - exact).abs().max()) / (float(x.double().abs().max()) * gain)
        assert error <= bound
        name = str(dtype).removeprefix("torch.")
        tally.count(SECTION, f"layers in {name} against float64")
        tally.measured(SECTION, f"error of the layer in {name}, of max \\|x\\| times gain", error, bound)

    law()


def test_order_5000_and_4096_pixels() -> None:
    """The largest orders and maps that are promised, along one axis."""
    x = np.linspace(-100, 100, 9)
    found = gauss_hermite(5001, x)[-1].numpy()
    assert max(abs(f - exact_function(5000, t)) for f, t in zip(found, x)) <= FUNCTIONS
    line = torch.rand(1, 1, 4096)
    layer = GHS1d(64)
    pivot = layer.select(line)
    assert torch.equal(layer(line), layer(line.roll(1234, 2)))
    assert (layer(line, pivot).double() - layer(line.double(), pivot)).abs().max() < 4 * SUMMATION
    few = torch.rand(1, 1, 100)
    assert moments(few[0, 0], orders=5000, ndim=1).isfinite().all()


# not `ru_maxrss`, which begins with the memory of the process that started this one
LARGE = """
import torch
from shiftproof.layers import GHS2d
from shiftproof.ghs.functions import gauss_hermite

def most():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 2**10

torch.set_num_threads(1)
before = most()
x = torch.rand(1, 1, 4096, 4096)
y = GHS2d(2)(x)
assert y.shape == (1, 1, 2048, 2048) and y.isfinite().all()
assert torch.equal(y, GHS2d(2)(x.roll((1000, 3000), (2, 3))))
assert gauss_hermite(5000, torch.linspace(-1, 1, 4096), 0.01).isfinite().all()
print(most() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux")
def test_large_maps_take_bounded_memory() -> None:
    """A map of 4,096 x 4,096 pixels, whose functions go up to order 8,191: 64 MiB of pixels, 2 GiB at most in all."""
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    taken = float(done.stdout)
    assert 64 < taken < 2048  # less than the pixels would be no measurement
    tally.measured(SECTION, "memory for a map of 4,096 x 4,096 pixels, in MiB", taken, 2048)


@effort(40, 2000)
@given(size=st.integers(1, 200), share=st.one_of(st.just(1.0), st.floats(0.05, 1)), seed=st.integers(0, 99))
def test_fits_are_as_good_as_their_condition(size: int, share: float, seed: int) -> None:
    """What is in the span comes back, to the condition number times roundoff; what is hopeless is refused."""
    orders = max(1, round(share * size))
    condition = condition_number(size, orders)
    tally.count(SECTION, "least-squares fits")
    if condition > CONDITION_LIMIT:
        with pytest.raises(ValueError, match="is hopeless here"):
            moments(torch.rand(size, dtype=torch.float64), orders, ndim=1, projection="least-squares")
        return
    a = torch.randn(orders, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    f = reconstruct(a, size, ndim=1)
    found = moments(f, orders, ndim=1, projection="least-squares")
    error = float((found - a).norm() / a.norm())
    assert error <= 32 * condition * 2.0**-52
    tally.measured(SECTION, "error of a fit, of condition times 2^-52", error / (condition * 2.0**-52), 32)


@pytest.mark.parametrize("size", [8, 16, 32, 64, 128, 256])
def test_condition_of_as_many_functions_as_pixels(size: int) -> None:
    """The paper's scale keeps a full set of functions apart on maps of up to 128 pixels; beyond, a fit is refused."""
    condition = condition_number(size, size)
    assert (condition <= CONDITION_LIMIT) == (size <= 128)
    if size > 128:
        with pytest.raises(ValueError, match="is hopeless here"):
            moments(torch.rand(size, dtype=torch.float64), size, ndim=1, projection="least-squares")
    tally.measured(SECTION, f"condition of {size:3} functions on {size} pixels", condition)
