"""Theorems 1 and 2: for every input and every circular shift, GHS gives the same bits."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers.laws import DTYPES, hard_maps
from shiftproof.ghs.kernel import Hermite, Local
from shiftproof.ghs.sampling import ghs2d, max_centered_moments
from shiftproof.invariance import assert_shift_invariant, same_bits, shift_error
from shiftproof.layers import GHS1d, GHS2d, GHS3d
from shiftproof.maps.shifts import circular_shift

OPTIONS: dict[str, list[Any]] = {
    "kernel": [
        *(Hermite(orders=k) for k in ("4N", "N", "M", "N/2", 5)),
        *(Hermite(sigma=s) for s in ("rule", 0.4)),
        Hermite(extension="zero"),
        Hermite(gain="paper"),
        Hermite(taper="none"),
        Local(0),
        Local(4, 0.8),
    ],
    "grid": ["periodic", "anchored", "inclusive"],
    "anchor": ["center", "corner"],
    "pivot_rule": ["max", "phase", "energy", lambda x: x.abs().amax(1)],
}


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", hard_maps())
def test_theorem_2(name: str, dtype: torch.dtype, layout: torch.memory_format) -> None:
    """The output is equal bit for bit: random, 8-bit, plateaus, periods, infinities; four dtypes, two layouts."""
    x = hard_maps((6, 7), channels=6)[name].to(dtype).contiguous(memory_format=layout)
    assert_shift_invariant(GHS2d(), x)
    assert_shift_invariant(GHS2d.paper(), x)


@pytest.mark.parametrize("name", hard_maps())
def test_theorem_1(name: str) -> None:
    """The max-centred moments themselves are invariant, bit for bit."""
    assert_shift_invariant(max_centered_moments, hard_maps((6, 5))[name])


@pytest.mark.parametrize(("key", "value"), [(k, v) for k, values in OPTIONS.items() for v in values])
@pytest.mark.parametrize("name", ["random", "binary", "stripes", "two infinities"])
def test_theorem_2_with_every_option(name: str, key: str, value: Any) -> None:
    options = {key: value, **({"grid": "periodic"} if value == "corner" else {})}
    assert_shift_invariant(GHS2d(**options), hard_maps((5, 6))[name])


def test_theorem_2_with_least_squares() -> None:
    layer = GHS2d(kernel=Hermite("N", "rule", projection="least-squares", taper="none"))
    for x in hard_maps((6, 5)).values():
        assert_shift_invariant(layer, x)


@given(bits=st.lists(st.integers(0, 1), min_size=36, max_size=36), channels=st.sampled_from([1, 2]))
@settings(max_examples=400)
def test_binary_maps_all_36_shifts(bits: list[int], channels: int) -> None:
    """Binary maps of 6 x 6 pixels, which are nearly all tied."""
    x = torch.tensor(bits, dtype=torch.float32).view(1, 1, 6, 6)
    assert_shift_invariant(GHS2d(), torch.cat([x, 1 - x][:channels], 1))


def test_thousands_of_binary_maps() -> None:
    """Twenty thousand of them at once, each with a random shift, and every periodic one there is."""
    x = torch.randint(0, 2, (20_000, 1, 6, 6)).float()
    x[:4096] = torch.tensor(list(itertools.product([0.0, 1.0], repeat=12))).view(-1, 1, 2, 6).repeat(1, 1, 3, 1)
    shift = torch.randint(0, 6, (20_000, 2))
    assert same_bits(ghs2d(circular_shift(x, shift)), ghs2d(x))


@pytest.mark.parametrize("layer", [GHS1d(), GHS1d.paper(3), GHS3d(), GHS3d.paper((1, 2, 3))])
def test_other_dimensions(layer: GHS1d) -> None:
    sizes = (5, 4, 3) if layer.ndim == 3 else (11,)
    for x in hard_maps(sizes).values():
        assert_shift_invariant(layer, x)


def test_more_threads_than_one() -> None:
    """The law does not hang on how the work is cut up."""
    threads = torch.get_num_threads()
    x = torch.rand(2, 64, 32, 32)
    try:
        for count in (1, 2, 4):
            torch.set_num_threads(count)
            assert_shift_invariant(GHS2d(), x, shifts=20)
            assert_shift_invariant(GHS2d(), x.contiguous(memory_format=torch.channels_last), shifts=20)
    finally:
        torch.set_num_threads(threads)


def test_views_are_as_good_as_copies() -> None:
    """Non-contiguous and expanded maps obey the law and give the bits of their contiguous copies."""
    base = torch.rand(7, 6, 3, 2)
    strange: list[Tensor] = [
        base.permute(3, 2, 1, 0),
        base[::2, :, :1].permute(3, 2, 0, 1),
        torch.rand(1, 3, 1, 8).expand(2, 3, 6, 8),
    ]
    for x in strange:
        assert same_bits(ghs2d(x), ghs2d(x.contiguous()))
        reference = ghs2d(x)
        for shift in itertools.product(range(x.shape[2]), range(x.shape[3])):
            assert same_bits(ghs2d(torch.roll(x, shift, (2, 3))), reference)


@pytest.mark.parametrize(
    ("layer", "shape"), [(GHS1d(), (3, 5, 1000)), (GHS2d(), (2, 8, 9, 14)), (GHS3d(), (2, 8, 6, 5, 4))]
)
def test_a_roll_by_the_user(layer: GHS1d, shape: tuple[int, ...]) -> None:
    """`torch.roll` may change the memory layout of a transposed map; the bits stay."""
    x = torch.randn(shape[0], *shape[2:], shape[1]).movedim(-1, 1)
    for amount in range(1, 4):
        moved = torch.roll(x, [amount] * (len(shape) - 2), list(range(2, len(shape))))
        assert same_bits(layer(moved), layer(x))


def test_a_broken_tie_rule_is_noticed() -> None:
    """Negative control: without a tie rule the law breaks on 8-bit maps, and the tester says so."""
    x = (torch.rand(4, 3, 8, 8) * 2).round()
    with pytest.raises(AssertionError, match=r"not invariant to circular shifts: \d+ of 64 shifts"):
        assert_shift_invariant(GHS2d(ties="first"), x)
    assert shift_error(GHS2d(ties="first"), torch.rand(4, 3, 8, 8)).exact


def test_gradients_move_with_the_map() -> None:
    """The gradient of an invariant function is equivariant: it arrives shifted along, to rounding."""
    x = torch.randn(1, 3, 8, 6, dtype=torch.float64)

    def gradient(t: Tensor) -> Tensor:
        leaf = t.clone().requires_grad_()
        (g,) = torch.autograd.grad(ghs2d(leaf).sin().sum(), leaf)
        return g

    for shift in ((1, 0), (3, 5), (7, 2)):
        assert torch.allclose(gradient(circular_shift(x, shift)), circular_shift(gradient(x), shift), atol=1e-13)
