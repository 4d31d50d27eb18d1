"""GHS as a function: what it computes, and what it does with bad input. The shift law has a file of its own."""

import dataclasses
import itertools
import math
import weakref
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from helpers.laws import DTYPES, TOLERANCE, functions_by_series
from shiftproof.ghs import basis, grids, sampler
from shiftproof.ghs.backend.torch_backend import mark_absent
from shiftproof.ghs.kernel import GHS, GHS_PAPER, Hermite, Kernel, Local
from shiftproof.ghs.matrix import local_function
from shiftproof.ghs.moments import moments, reconstruct
from shiftproof.ghs.pivots import select_pivot
from shiftproof.ghs.sampler import find_pivot
from shiftproof.ghs.sampling import ghs2d, max_centered_moments, pivot_moments
from shiftproof.invariance import assert_shift_invariant, same_bits
from shiftproof.layers import GHS1d, GHS2d, GHS3d
from shiftproof.maps.shifts import circular_shift

KERNELS: dict[str, tuple[Kernel, str]] = {
    "ghs": (GHS, "anchored"),
    "ghs-paper": (GHS_PAPER, "inclusive"),
    "M orders": (Hermite("M", "rule", "zero", "quadrature", "paper", "none"), "inclusive"),
    "least squares": (Hermite("N", "rule", "zero", "least-squares", "paper", "none"), "inclusive"),
    "periodic least squares": (Hermite("N", "rule", "periodic", "least-squares", "unit", "none"), "periodic"),
    "few orders": (Hermite("N/2", 0.6, "zero", "quadrature", "paper", "none"), "periodic"),
    "half band": (Hermite("2N", "0.5*band", "periodic", "quadrature", "paper", "none"), "periodic"),
    "gaussian": (Hermite("N", 0.6, "zero", "quadrature", "paper", "gaussian"), "inclusive"),
    "local": (Local(3, 0.8), "anchored"),
    "local, periodic": (Local(0), "periodic"),
}


def axis_matrix(m: int, n: int, kernel: Kernel, grid: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """R of one axis, written down: wrapped functions, taper, projection, gain."""
    if m == n == 1:
        return np.ones((1, 1))
    inside, outside = grids.pixels(m), grids.samples(m, n, grid)
    if isinstance(kernel, Local):
        apart = (inside - outside[:, None]) / grids.step(m)  # in pixels
        r = np.sum([local_function(kernel.order, apart + c * m, kernel.scale(m / n)) for c in range(-40, 41)], axis=0)
        return np.asarray(r / r.sum(1, keepdims=True))
    k = grids.resolve_orders(kernel.orders, m, n)
    s = grids.resolve_sigma(kernel.sigma, k, m, n)
    copies = range(-40, 41) if kernel.extension == "periodic" else range(1)
    functions, weights = functions_by_series, [1.0] * k
    if kernel.taper == "gaussian":  # the series has no end: as far as double precision goes
        weights = [2 ** (-p / k) for p in range(40 * k)]
        k, functions = 40 * k, basis.functions
    q = np.sum([functions(k, inside + c * grids.period(m), s) for c in copies], axis=0)
    fitted = kernel.projection == "least-squares"  # then the wrapped functions are what was fitted
    project = np.linalg.pinv(q.T) if fitted else grids.step(m) * q
    q_out = np.sum([functions(k, outside + c * grids.period(m), s) for c in (copies if fitted else range(1))], axis=0)
    r = q_out.T @ np.diag(weights) @ project
    return np.asarray(r / r.sum(1, keepdims=True) if kernel.gain == "unit" else r)


def definition(x: Tensor, kernel: Kernel, grid: str, counts: tuple[int, ...], anchor: str, pivots: Tensor) -> Tensor:
    """GHS written down with loops: align, moments of the extended map, reconstruction on the output grid."""
    out = torch.zeros(*x.shape[:2], *counts, dtype=torch.float64)
    sizes = x.shape[2:]
    matrices = [axis_matrix(m, n, kernel, grid) for m, n in zip(sizes, counts)]
    for b, pivot in enumerate(pivots.tolist()):
        origin = [m // 2 if anchor == "center" else 0 for m in sizes]
        aligned = x[b].double().roll([o - p for o, p in zip(origin, pivot)], list(range(1, x.dim() - 1)))
        for c in range(x.shape[1]):
            for j in itertools.product(*(range(n) for n in counts)):
                for i in itertools.product(*(range(m) for m in sizes)):
                    weight = math.prod(matrices[a][j[a], i[a]] for a in range(len(sizes)))
                    out[(b, c, *j)] += weight * float(aligned[(c, *i)])
    return out


@pytest.mark.parametrize("anchor", ["corner", "center"])
@pytest.mark.parametrize("name", KERNELS)
def test_fused_layer_is_the_definition(name: str, anchor: str) -> None:
    """Moments, then reconstruction, written with loops (Eqs. 10, 11, 19, 20, 22 and the options beside them)."""
    x = torch.randn(2, 2, 6, 5, dtype=torch.float64)
    kernel, grid = KERNELS[name]
    if grid == "anchored" and anchor == "corner":
        grid = "periodic"
    computed, pivots = ghs2d(x, 2, kernel=kernel, grid=grid, anchor=anchor, return_selection=True)
    assert torch.allclose(computed, definition(x, kernel, grid, (3, 3), anchor, pivots), atol=1e-9)


@pytest.mark.parametrize(("layer", "sizes"), [(GHS1d, (9,)), (GHS2d, (4, 3)), (GHS3d, (4, 3, 2))])
def test_one_to_three_dimensions(layer: type[GHS2d], sizes: tuple[int, ...]) -> None:
    x = torch.randn(2, 1, *sizes, dtype=torch.float64)
    counts = tuple((m + 1) // 2 for m in sizes)
    ours, paper = layer(), layer.paper()
    assert torch.allclose(ours(x), definition(x, GHS, "anchored", counts, "center", ours.select(x)), atol=1e-9)
    assert torch.allclose(paper(x), definition(x, GHS_PAPER, "inclusive", counts, "corner", select_pivot(x)), atol=1e-9)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [1, 3, 6])
def test_module_is_function(channels: int, layout: torch.memory_format) -> None:
    x = torch.randn(3, channels, 9, 7).contiguous(memory_format=layout)
    options: dict[str, Any] = {"kernel": "hermite(orders=7, sigma=rule)", "grid": "periodic", "anchor": "corner"}
    layer = GHS2d((2, 3), **options, pivot_rule="energy", return_selection=True)
    y, selection = layer(x)
    z, same = ghs2d(x, (2, 3), **options, pivot_rule="energy", return_selection=True)
    assert same_bits(y, z)
    assert torch.equal(selection, same)
    assert torch.equal(layer.select(x), selection)
    assert torch.equal(find_pivot(x), select_pivot(x))
    assert same_bits(layer(x, selection)[0], y)


def test_select_follows_the_options_of_the_layer() -> None:
    """Rule and ties: of two equal maxima the first in memory, or the one whose aligned map is larger."""
    x = torch.zeros(1, 1, 1, 8)
    x[..., 1] = x[..., 4] = 1.0
    x[..., 5] = 0.5
    for ties, column in (("first", 1), ("exact", 4)):
        assert GHS2d(pivot_rule="max", ties=ties).select(x).tolist() == [[0, column]]


def test_paper_functions_are_the_paper_layer() -> None:
    """Eqs. 20 and 22: the max-centred moments, reconstructed at the output size, are `ghs-paper`."""
    x = torch.randn(2, 3, 10, 10, dtype=torch.float64)
    by_moments = reconstruct(max_centered_moments(x, orders=5), size=5)
    assert torch.allclose(by_moments, GHS2d.paper()(x), atol=1e-13)


@pytest.mark.parametrize("sizes", [(7,), (5, 4), (3, 4, 5)])
def test_moments_for_a_pivot_are_those_of_the_rolled_map(sizes: tuple[int, ...]) -> None:
    """In any dimension, for any sigma and number of orders; with the maximum of a sample rolled to the corner."""
    ndim, x = len(sizes), torch.rand(2, 3, *sizes, dtype=torch.float64)
    axes = tuple(range(1, ndim + 1))
    peak = [torch.unravel_index(sample.amax(0).argmax(), sizes) for sample in x]
    rolled = torch.stack([s.roll([-int(i) for i in where], axes) for s, where in zip(x, peak)])
    expected = moments(rolled, orders=3, sigma=0.7, ndim=ndim)
    pivot = torch.tensor([[int(i) for i in where] for where in peak])
    assert torch.equal(pivot_moments(x, pivot, 3, 0.7, ndim), expected)
    assert torch.equal(max_centered_moments(x, 3, 0.7, ndim), expected)
    assert not torch.allclose(expected, moments(rolled, orders=3, ndim=ndim))


def test_pivot_moments_shift_the_functions() -> None:
    """Eq. 19 as written: A*_{c,r} = 4/(M-1)^2 Q^[r,0] F Q^T[0,c], the position axis of Q rolled by the pivot."""
    f = torch.randn(7, 7, dtype=torch.float64)
    q = torch.from_numpy(functions_by_series(7, grids.pixels(7), grids.scale_rule(7)))  # orders x positions
    for r, c in ((0, 0), (2, 5), (6, 1)):
        literal = 4 / 36 * q.roll(r, 1) @ f @ q.T.roll(c, 0)
        assert torch.allclose(pivot_moments(f, torch.tensor([r, c])), literal, atol=1e-10)
    assert torch.allclose(pivot_moments(f, torch.tensor([0, 0])), moments(f), atol=1e-15)


def test_reconstruction_returns_the_rolled_image() -> None:
    """With all orders and an exact projection the map comes back, rolled so that the maximum is at (0, 0)."""
    x = torch.randn(1, 1, 9, 9, dtype=torch.float64)
    layer = GHS2d.paper(1, kernel=dataclasses.replace(GHS_PAPER, orders="M", projection="least-squares"))
    assert torch.allclose(layer(x), circular_shift(x, -select_pivot(x)), atol=1e-9)
    assert same_bits(layer(x, selection=find_pivot(x)), ghs2d(x, output_size=x.shape[2:], **layer.options()))


@pytest.mark.parametrize(
    ("stride", "expected"), [(1, (9, 7)), (2, (5, 4)), (3, (3, 3)), ((4, 2), (3, 4)), (20, (1, 1))]
)
def test_output_size_is_the_ceiling(stride: int | tuple[int, int], expected: tuple[int, int]) -> None:
    assert ghs2d(torch.randn(2, 3, 9, 7), stride).shape == (2, 3, *expected)


def test_output_size_can_be_given() -> None:
    assert GHS2d(output_size=(4, 6))(torch.randn(1, 2, 9, 7)).shape == (1, 2, 4, 6)
    assert GHS2d(output_size=3)(torch.randn(1, 2, 9, 7)).shape == (1, 2, 3, 3)


def test_a_single_pixel_is_left_alone() -> None:
    """1 -> 1 is the identity, whatever the kernel."""
    x = torch.randn(2, 3, 1, 1)
    for kernel, grid in KERNELS.values():
        assert torch.equal(ghs2d(x, kernel=kernel, grid=grid), x)


@pytest.mark.parametrize("sizes", [(2, 2), (5, 3), (8, 8), (33, 30)])
def test_a_constant_stays_what_it_is(sizes: tuple[int, int]) -> None:
    """Unit gain: rows of R sum to one. The paper's layer loses a third of a constant at the border."""
    x = torch.full((1, 2, *sizes), 0.7, dtype=torch.float64)
    y = ghs2d(x)
    assert torch.allclose(y, torch.full_like(y, 0.7), atol=1e-12)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("rule", ["max", "phase", "energy"])
def test_gradients(rule: str, layout: torch.memory_format) -> None:
    """gradcheck, gradgradcheck, forward mode, in both memory layouts."""
    x = torch.randn(2, 6, 4, 5, dtype=torch.float64).contiguous(memory_format=layout).requires_grad_()

    def f(t: Tensor) -> Tensor:
        return ghs2d(t, pivot_rule=rule)

    assert torch.autograd.gradcheck(f, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, x)
    once, again = (torch.autograd.grad(f(x).sin().sum(), x, create_graph=graph)[0] for graph in (False, True))
    assert torch.equal(once, again)  # which gradgradcheck takes for granted


@pytest.mark.parametrize("layer", [GHS1d(), GHS3d((2, 1, 3)), GHS1d.paper()])
def test_gradients_in_other_dimensions(layer: GHS1d) -> None:
    x = torch.randn(2, 2, *[5, 4, 3][: layer.ndim], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(layer, x)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_forward_mode_without_gradients(dtype: torch.dtype, grad: bool) -> None:
    """A tangent is carried along, asked for gradients or not: the map is linear where the pivot stays."""
    x, tangent = torch.randn(2, 2, 3, 8, 8, dtype=dtype)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.clone().requires_grad_(grad), tangent)  # type: ignore[no-untyped-call]
        value, moved = forward_ad.unpack_dual(ghs2d(dual))  # type: ignore[no-untyped-call]
    assert torch.equal(value, ghs2d(x))
    assert torch.equal(moved, ghs2d(tangent, selection=GHS2d().select(x)))


def test_gradients_of_gradients_in_forward_mode() -> None:
    x = torch.randn(1, 2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(ghs2d, x, check_fwd_over_rev=True, check_rev_over_rev=True)


def test_gradient_of_channels_last_output() -> None:
    """A gradient that arrives in channels-last memory goes another way, to the same place."""
    x = torch.randn(2, 6, 5, 4, dtype=torch.float64, requires_grad=True)
    g = torch.randn(2, 6, 3, 2, dtype=torch.float64)
    (plain,) = torch.autograd.grad(ghs2d(x), x, g)
    (other,) = torch.autograd.grad(ghs2d(x), x, g.contiguous(memory_format=torch.channels_last))
    assert torch.allclose(plain, other, atol=1e-13)


def test_gradient_with_a_given_selection() -> None:
    x = torch.randn(2, 2, 4, 5, dtype=torch.float64, requires_grad=True)
    selection = torch.tensor([[1, 2], [3, 0]])
    assert torch.autograd.gradcheck(lambda t: ghs2d(t, selection=selection), x)


def test_backward_keeps_nothing_but_the_pivot() -> None:
    """What autograd saves is smaller than one channel of the input."""
    x = torch.randn(4, 8, 16, 16, requires_grad=True)
    kept: list[int] = []

    def pack(t: Tensor) -> Tensor:
        kept.append(t.numel())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        ghs2d(x)
    assert kept == [4 * 2]


def test_transforms_of_torch_func() -> None:
    """vmap over samples, grad, jvp, and jacrev through vmap agree with the plain layer; ties included."""
    x = (torch.rand(3, 2, 2, 5, 6, dtype=torch.float64) * 3).round()
    x[0] = torch.randn(2, 2, 5, 6)
    plain = torch.stack([ghs2d(v) for v in x])
    assert torch.allclose(torch.vmap(ghs2d)(x), plain, atol=1e-13)
    assert torch.allclose(torch.vmap(ghs2d, in_dims=1)(x.transpose(0, 1)), plain, atol=1e-13)

    def loss(t: Tensor) -> Tensor:
        return ghs2d(t).sin().sum()

    leaf = x[0].clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf), leaf)
    assert torch.allclose(torch.func.grad(loss)(x[0]), expected, atol=1e-13)
    assert torch.allclose(torch.vmap(torch.func.grad(loss))(x)[0], expected, atol=1e-13)
    slope = torch.func.jvp(ghs2d, (x[0],), (torch.ones_like(x[0]),))[1]
    assert torch.allclose(slope, ghs2d(torch.ones_like(x[0]), selection=GHS2d().select(x[0])), atol=1e-13)


def test_deterministic() -> None:
    x = torch.randn(8, 3, 17, 12)
    torch.use_deterministic_algorithms(True)
    try:
        assert all(same_bits(ghs2d(x), ghs2d(x)) for _ in range(5))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_half_precision_is_rounded_once(dtype: torch.dtype) -> None:
    """The products run in float32; what comes out is their result, rounded to the dtype of the input."""
    x = torch.rand(2, 3, 12, 10).to(dtype)
    y = ghs2d(x)
    assert y.dtype == dtype
    wide = ghs2d(x.to(torch.promote_types(dtype, torch.float32)))
    assert same_bits(y, wide.to(dtype))
    exact = ghs2d(x.double())
    assert torch.allclose(y.double(), exact, atol=TOLERANCE[dtype])


def test_autocast_changes_nothing() -> None:
    x = torch.rand(2, 3, 12, 10)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same_bits(ghs2d(x), ghs2d(x))
        inside = ghs2d(x)
    assert same_bits(inside, ghs2d(x))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_autocast_stays_out_of_the_backward_pass(layout: torch.memory_format) -> None:
    x = torch.rand(2, 6, 12, 10).contiguous(memory_format=layout).requires_grad_()
    g = torch.rand(2, 6, 6, 5).contiguous(memory_format=layout)
    (plain,) = torch.autograd.grad(ghs2d(x), x, g)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (inside,) = torch.autograd.grad(ghs2d(x), x, g)
        a = max_centered_moments(x)
    assert same_bits(inside, plain)
    assert same_bits(a, max_centered_moments(x))


@pytest.mark.parametrize("rule", ["max", "phase", "energy"])
def test_nan_fills_its_own_sample_only(rule: str) -> None:
    """A sample with NaN has no pivot: all its outputs are NaN, and other samples are not affected."""
    x = torch.randn(3, 2, 6, 7)
    clean = ghs2d(x, pivot_rule=rule)
    x[1, 0, 3, 3] = torch.nan
    y = ghs2d(x, pivot_rule=rule)
    assert y[1].isnan().all()
    assert same_bits(y[[0, 2]], clean[[0, 2]])
    assert max_centered_moments(x)[1].isnan().all()
    assert max_centered_moments(x)[0].isfinite().all()


def test_negative_zero_leaves_no_trace() -> None:
    """Maps that differ in the sign of zeros only give the same bits."""
    x = torch.zeros(1, 2, 4, 4)
    assert same_bits(ghs2d(-x), ghs2d(x))
    assert same_bits(ghs2d(-x, ties="first"), ghs2d(x))
    found, absent = torch.tensor([[0, 0]]), torch.tensor([[-1, -1]])
    assert same_bits(mark_absent(-x, found), x)
    assert same_bits(torch.vmap(mark_absent)(-x[None], found[None])[0], x)
    assert mark_absent(-x, absent).isnan().all()


@pytest.mark.filterwarnings("ignore")
def test_jit_trace_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"use `torch\.export`"):
        torch.jit.trace(GHS2d(), torch.rand(1, 1, 4, 4))  # type: ignore[no-untyped-call]


def test_empty_batch() -> None:
    x = torch.zeros(0, 3, 8, 6, requires_grad=True)
    y = ghs2d(x)
    assert y.shape == (0, 3, 4, 3)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert gradient.shape == x.shape
    assert ghs2d(x, selection=select_pivot(x)).shape == y.shape


def test_meta_device_gives_shapes() -> None:
    y = GHS2d()(torch.zeros(2, 3, 9, 8, device="meta"))
    assert y.shape == (2, 3, 5, 4)
    assert y.is_meta
    y = GHS2d(3, kernel=Local(1), anchor="stay", padding="zeros")(torch.zeros(2, 3, 9, 8, device="meta"))
    assert y.shape == (2, 3, 3, 3)
    assert y.is_meta


def test_fake_tensors_do_not_poison_the_cache() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert GHS2d()(torch.zeros(1, 1, 46, 38)).shape == (1, 1, 23, 19)
    assert GHS2d()(torch.zeros(1, 1, 46, 38)).eq(0).all()


def test_shared_selection_aligns_branches() -> None:
    """Two maps sampled with one selection are rolled alike: sampling is then linear across the branches."""
    main, shortcut = torch.randn(2, 3, 8, 8, dtype=torch.float64), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    layer = GHS2d()
    selection = layer.select(main, shortcut)
    together = layer(main + shortcut, selection)
    assert torch.allclose(layer(main, selection) + layer(shortcut, selection), together, atol=1e-13)
    assert not torch.allclose(layer(main) + layer(shortcut), together, atol=1e-3)


def test_a_dead_branch_lets_its_companion_decide() -> None:
    """A residual block is invariant also where its main branch is all ties."""
    other = torch.randn(1, 2, 5, 4)
    for rule in ("max", "phase", "energy"):
        layer = GHS2d(pivot_rule=rule)

        def block(x: Tensor, layer: GHS2d = layer) -> Tensor:
            main = x * 0
            selection = layer.select(main, x)
            y: Tensor = layer(main, selection) + layer(x, selection)
            return y

        assert_shift_invariant(block, other)


def test_transforms_leave_nothing_in_the_cache() -> None:
    """A tensor made while torch.func looks on belongs to the transform; later calls must not meet it."""
    x = torch.rand(1, 1, 14, 22)
    torch.func.grad(lambda t: ghs2d(t).sum())(x)
    torch.vmap(ghs2d)(x[None])
    assert ghs2d(x).data_ptr()
    kept = [axis.dense for plan in sampler._plans._items.values() for axis in plan.axes]
    assert all(type(t) is Tensor and t.data_ptr() for t in kept)


def test_plans_are_made_once() -> None:
    """For a size, a dtype and equal options, however they were written."""
    x = torch.randn(1, 1, 20, 20)
    first = GHS2d().sampling.plan(x)
    assert GHS2d(kernel="hermite()").sampling.plan(torch.randn(3, 2, 20, 20)) is first
    assert GHS2d().sampling.plan(x.double()) is not first
    assert GHS2d(kernel=Local()).sampling.plan(x) is not first
    assert first.axes[0] is first.axes[1]


def test_a_rule_may_be_any_callable_and_is_not_kept() -> None:
    """Also one that cannot be hashed; the cache of plans does not hold it."""

    @dataclasses.dataclass
    class Strongest:
        power: float = 2.0

        def __call__(self, x: Tensor) -> Tensor:
            return x.abs().pow(self.power).amax(1)

    rule = Strongest()
    assert_shift_invariant(GHS2d(pivot_rule=rule), torch.randn(2, 3, 6, 5))
    kept = weakref.ref(rule)
    del rule
    assert kept() is None


def test_threads_share_the_cache() -> None:
    """Sixteen threads calling one layer get the same bits."""
    from concurrent.futures import ThreadPoolExecutor

    layer, x = GHS2d(), torch.randn(2, 3, 26, 18)
    sampler._plans.clear()
    with ThreadPoolExecutor(16) as pool:
        outputs = list(pool.map(layer, [x] * 64))
    assert all(same_bits(y, outputs[0]) for y in outputs)


GOOD = torch.zeros(2, 3, 8, 8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ghs2d(GOOD.to(torch.uint8)), r"`x` \(dtype torch.uint8\) must be a real floating tensor: convert it"),
        (lambda: ghs2d(GOOD.to(torch.complex64)), "must be a real floating tensor"),
        (
            lambda: ghs2d(GOOD.numpy()),  # type: ignore[call-overload]
            "`x` must be a torch.Tensor, not ndarray",
        ),
        (lambda: ghs2d(GOOD[0]), r"must have 4 dimensions \(B, C, H, W\), not 3. Add the batch axis with `x\[None\]`"),
        (lambda: GHS1d()(GOOD), r"must have 3 dimensions \(B, C, W\), not 4"),
        (lambda: GHS3d()(GOOD[0, 0]), r"must have 5 dimensions \(B, C, D, H, W\), not 2"),
        (lambda: ghs2d(GOOD[:, :, :0]), "must not have a zero-sized axis; only the batch may be empty"),
        (lambda: ghs2d(GOOD[:, :0]), "must not have a zero-sized axis"),
        (lambda: ghs2d(GOOD, 0), r"`stride` \(=0\) must be at least 1"),
        (
            lambda: ghs2d(GOOD, 1.5),  # type: ignore[call-overload]
            r"`stride` \(=1.5\) must be an integer, not float",
        ),
        (lambda: ghs2d(GOOD, (2, 2, 2)), r"`stride` \(=\(2, 2, 2\)\) must have one entry per axis \(2\), not 3"),
        (lambda: ghs2d(GOOD, output_size=9), r"`output_size` \(=\(9, 9\)\) must be at most the input size \(8, 8\)"),
        (lambda: Hermite(orders=0), r"`orders` \(=0\) must be at least 1"),
        (lambda: Hermite(orders="4K"), "`orders` .='4K'. must be an integer of at least 1, or a multiple"),
        (lambda: Hermite(sigma=0.0), r"`sigma` \(=0.0\) must be positive and finite"),
        (lambda: Hermite(sigma=math.inf), r"`sigma` \(=inf\) must be positive and finite"),
        (lambda: Hermite(sigma="wide"), "`sigma` .='wide'. must be a positive number, 'rule'"),
        (lambda: Hermite(extension="mirror"), "`extension` .='mirror'. must be one of 'zero', 'periodic'"),
        (lambda: ghs2d(GOOD, grid="polar"), "`grid` .='polar'. must be one of 'inclusive', 'periodic', 'anchored'"),
        (lambda: Hermite(projection="fit"), "`projection` .='fit'. must be one of 'quadrature', 'least-squares'"),
        (lambda: Hermite(gain=cast(Any, 2)), r"`gain` \(=2\) must be one of 'paper', 'unit'"),
        (lambda: ghs2d(GOOD, anchor="middle"), "`anchor` .='middle'. must be one of 'corner', 'center'"),
        (lambda: ghs2d(GOOD, pivot_rule="median"), "`pivot_rule` .='median'. must be one of 'max', 'phase', 'energy'"),
        (lambda: GHS2d(pivot_rule=cast(Any, 3)), "`pivot_rule` must be a name or a function, not int"),
        (lambda: GHS2d(ties="coin"), "must be one of 'exact', 'window', 'first'"),
        (
            lambda: ghs2d(GOOD, kernel=Hermite(projection="least-squares", taper="none")),
            r"`orders` \(=16\) must be at most the grid size \(=8\)",
        ),
        (lambda: Hermite(projection="least-squares"), "`taper='gaussian'` uses every order: set `taper='none'`"),
        (lambda: Hermite(taper="fade"), "`taper` .='fade'. must be one of 'none', 'gaussian'"),
        (
            lambda: ghs2d(GOOD, anchor="corner"),
            "`grid='anchored'` puts a sample on the middle pixel.* set `grid='periodic'`",
        ),
        (lambda: ghs2d(GOOD, selection=torch.zeros(3, 2, dtype=torch.int64)), r"must have the shape \(2, 2\) for maps"),
        (lambda: ghs2d(GOOD, selection=torch.zeros(2, 2)), "`selection` must be an int64 tensor from `select`"),
        (lambda: ghs2d(GOOD[0], selection=torch.zeros(2, 2, dtype=torch.int64)), r"^`x` \(shape \(\d, \d, \d\)\) must"),
        (
            lambda: ghs2d(GOOD, selection=torch.zeros(2, 2, dtype=torch.int64, device="meta")),
            r"`selection` \(on meta\) must be on the device of the maps \(cpu\)",
        ),
        (
            lambda: ghs2d(GOOD, kernel=Hermite(sigma=1e9)),
            r"`sigma` \(=1.0e.09\) must be at most 100 times the size of the map \(2.3\)",
        ),
        (lambda: ghs2d(GOOD, kernel=Local(0, 1e-9), grid="periodic"), r"`width` \(=1e-09\) is too small here: a row"),
        (lambda: ghs2d(GOOD, kernel="local(width=1e9)"), r"`width` \(=1e.09\) makes a window of .* at most 100 times"),
        (lambda: ghs2d(GOOD, kernel=Hermite(sigma=1e-320)), "`gain='unit'` cannot keep a constant here"),
        (lambda: GHS2d()(GOOD, selection=0), "`selection` must be an int64 tensor from `select`"),
        (lambda: ghs2d(GOOD, selection=torch.tensor([[1, 2], [8, 0]])), r"up to 8 on axis 0\) must lie inside the map"),
        (lambda: GHS1d()(torch.zeros(1, 1, 40_000)), "needs a matrix of 8.0e.08 numbers, beyond the limit of 2.7e.08"),
        (lambda: Hermite(orders=cast(Any, [4, 4])), r"`orders` \(=\[4, 4\]\) must be an integer, not list"),
        (lambda: Hermite(orders=cast(Any, 4.0)), r"`orders` \(=4.0\) must be an integer, not float"),
        (lambda: GHS2d().select(GOOD, GOOD[..., :4]), r"`companions\[0\]` .* must have the batch and the sizes of `x`"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    """Every error names the argument, the rule, the value received, and where it helps the remedy."""
    with pytest.raises((ValueError, TypeError), match=message):
        call()
