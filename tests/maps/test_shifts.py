"""Shifts: Eqs. 16 to 18, cropping, parts of a pixel, polyphase components."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import forward_ad, gradcheck, gradgradcheck

from helpers.laws import all_shifts
from shiftproof.invariance import same_bits
from shiftproof.maps.gather import take_from
from shiftproof.maps.padding import pad
from shiftproof.maps.polyphase import polyphase
from shiftproof.maps.shifts import circular_shift, cropped_shift, fractional_shift

small = st.integers(-9, 9)


@given(rows=small, columns=small, height=st.integers(1, 6), width=st.integers(1, 6))
def test_wrap_shift_is_equation_16(rows: int, columns: int, height: int, width: int) -> None:
    """F^[r,c](i, j) = F(i - r mod H, j - c mod W), as an integer pair and per sample."""
    f = torch.randn(2, 3, height, width)
    for moved in (circular_shift(f, (rows, columns)), circular_shift(f, torch.tensor([[rows, columns]] * 2))):
        for i in range(height):
            for j in range(width):
                assert torch.equal(moved[..., i, j], f[..., (i - rows) % height, (j - columns) % width])


@given(a=small, b=small, c=small)
def test_property_1(a: int, b: int, c: int) -> None:
    """Eq. 17 in (row, column) order: A^[r,a] B^[a,c] = (AB)^[r,c]."""
    first, second = torch.randn(5, 5, dtype=torch.float64), torch.randn(5, 5, dtype=torch.float64)
    product = circular_shift(first, (b, a)) @ circular_shift(second, (a, c))
    assert torch.allclose(product, circular_shift(first @ second, (b, c)), atol=1e-13)


@given(a=small, b=small, c=small, d=small)
def test_property_2(a: int, b: int, c: int, d: int) -> None:
    """Eq. 18: shifts add up, bit for bit."""
    f = torch.randn(4, 7)
    assert same_bits(circular_shift(circular_shift(f, (a, b)), (c, d)), circular_shift(f, (a + c, b + d)))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [1, 3, 8])
def test_one_shift_per_sample(channels: int, layout: torch.memory_format) -> None:
    """Each sample moves its own way, in either memory layout, and keeps its layout."""
    x = torch.randn(5, channels, 4, 6).contiguous(memory_format=layout)
    shift = torch.randint(-20, 20, (5, 2))
    moved = circular_shift(x, shift)
    expected = torch.stack([torch.roll(s, d.tolist(), (1, 2)) for s, d in zip(x, shift)])
    assert same_bits(moved, expected)
    assert moved.is_contiguous(memory_format=layout) or channels <= 4


def test_one_shift_per_channel() -> None:
    x = torch.randn(2, 3, 4, 6)
    shift = torch.randint(-9, 9, (2, 3, 2))
    moved = circular_shift(x, shift)
    for b in range(2):
        for c in range(3):
            assert torch.equal(moved[b, c], torch.roll(x[b, c], shift[b, c].tolist(), (0, 1)))


@pytest.mark.parametrize("dims", [(1,), (-1,), (1, 2), (2, 1), (1, 2, 3)])
def test_any_axes(dims: tuple[int, ...]) -> None:
    x = torch.randn(2, 3, 4, 5)
    shift = torch.randint(-9, 9, (2, len(dims)))
    expected = torch.stack([torch.roll(s, d.tolist(), [a - 1 if a > 0 else a for a in dims]) for s, d in zip(x, shift)])
    assert torch.equal(circular_shift(x, shift, dims), expected)


def test_non_contiguous_and_expanded_input() -> None:
    x = torch.randn(6, 4, 3, 2).permute(3, 2, 1, 0)[:, :, ::2]
    shift = torch.tensor([[1, 2], [0, 3]])
    assert torch.equal(circular_shift(x, shift), circular_shift(x.contiguous(), shift))
    wide = torch.randn(1, 3, 4, 5).expand(2, 3, 4, 5)
    assert torch.equal(circular_shift(wide, shift), circular_shift(wide.contiguous(), shift))


def test_empty_batches_pass_through() -> None:
    assert circular_shift(torch.ones(0, 3, 4, 5), torch.zeros(0, 2, dtype=torch.int64)).shape == (0, 3, 4, 5)


def test_every_bit_is_kept() -> None:
    """Only moves values: NaN payloads, signed zeros and infinities arrive as they left."""
    bits = torch.tensor([0x7FC01234, -2147483648, 0x7F800000, 1], dtype=torch.int32)
    x = bits.view(torch.float32).reshape(1, 1, 2, 2)
    assert same_bits(circular_shift(x, torch.tensor([[1, 1]])), torch.roll(x, (1, 1), (2, 3)))


def test_gradient_is_the_shift_back() -> None:
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64, requires_grad=True)
    shift = torch.tensor([[1, 2], [3, -1]])
    assert torch.autograd.gradcheck(lambda t: circular_shift(t, shift), x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda t: circular_shift(t, shift), x)
    g = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    (back,) = torch.autograd.grad(circular_shift(x, shift), x, g)
    assert torch.equal(back, circular_shift(g, -shift))


def test_vmap_over_samples() -> None:
    x, shift = torch.randn(4, 2, 3, 5, 6), torch.randint(0, 9, (4, 2, 2))
    mapped = torch.vmap(circular_shift)(x, shift)
    assert torch.equal(mapped, torch.stack([circular_shift(a, b) for a, b in zip(x, shift)]))


def test_take_from_moves_start_to_origin() -> None:
    x = torch.arange(12.0).view(1, 1, 3, 4)
    moved = take_from(x, torch.tensor([[1, 3]]), (2, 0))
    assert moved[0, 0, 2, 0] == x[0, 0, 1, 3]
    leaf = torch.rand(2, 1, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: take_from(t, torch.tensor([[1, 3], [2, 0]]), (2, 1)), leaf)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_shifts_of_any_integer_type(dtype: torch.dtype) -> None:
    x = torch.rand(2, 1, 1, 300)
    shift = torch.tensor([[0, 3], [0, 100]])
    assert torch.equal(circular_shift(x, shift.to(dtype)), circular_shift(x, shift))


def test_the_first_axis_can_be_shifted() -> None:
    x = torch.rand(4, 3)
    assert torch.equal(circular_shift(x, [1], dims=[0]), x.roll(1, 0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(3, 3), (1.5, 0)), "must hold integers; use `fractional_shift`"),
        ((torch.ones(3, 3), (1,)), r"must have one entry per shifted axis \(2\)"),
        ((torch.ones(2, 1, 3, 3), torch.ones(2, 2)), "must hold integers"),
        ((torch.ones(2, 1, 3, 3), torch.ones(2, 2, dtype=torch.bool)), "must hold integers"),
        ((torch.ones(2, 1, 3, 3), torch.ones(2, 3, dtype=torch.int64)), "must end in one entry per shifted axis"),
        ((torch.ones(2, 1, 3, 3), torch.ones(3, 2, dtype=torch.int64)), "must lead with the leading axes of `x`"),
        ((torch.ones(3, 3), torch.tensor(1)), "must end in one entry per shifted axis"),
        ((torch.ones(3, 3), (1, 1), (0, 0)), "must be distinct axes"),
        ((torch.ones(3, 3), (1,), (2,)), "must be distinct axes"),
        ((torch.ones(3, 3), (1, 1), (0, 5)), "must be distinct axes"),
    ],
)
def test_bad_circular_shifts(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        circular_shift(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("border", ["zeros", "replicate", "reflect", "circular"])
def test_cropped_shift_is_a_window_on_a_padded_map(border: str) -> None:
    """What leaves is lost, what enters is the border: numpy's padding, cut out again."""
    x = torch.randn(2, 5, 4)
    mode = {"zeros": "constant", "replicate": "edge", "reflect": "reflect", "circular": "wrap"}[border]
    padded = np.pad(x.numpy(), [(0, 0), (9, 9), (9, 9)], mode=mode)  # type: ignore[call-overload]
    for rows, columns in ((0, 0), (1, 0), (-2, 3), (7, -8)):
        window = padded[:, 9 - rows : 14 - rows, 9 - columns : 13 - columns]
        assert np.array_equal(cropped_shift(x, (rows, columns), border=border).numpy(), window)


def test_cropped_shift_fills_with_a_value() -> None:
    assert cropped_shift(torch.ones(3), 2, dims=[-1], value=7.0).tolist() == [7.0, 7.0, 1.0]
    assert cropped_shift(torch.ones(1), 1, dims=[-1], border="reflect").tolist() == [1.0]


@pytest.mark.parametrize("mode", ["zeros", "replicate", "reflect", "circular"])
@pytest.mark.parametrize("sizes", [(1, 2), (5, 4)])
def test_padding_by_any_amount(mode: str, sizes: tuple[int, int]) -> None:
    """As numpy pads, also by more than the map has."""
    x = torch.randn(1, 2, *sizes)
    name = {"zeros": "constant", "replicate": "edge", "reflect": "reflect", "circular": "wrap"}[mode]
    by_one_more = [(n + 1, 0) for n in sizes]
    for amounts in ([(1, 1), (0, 2)], [(0, 0), (0, 0)], [(7, 3), (2, 9)], by_one_more):
        expected = np.pad(x.numpy(), [(0, 0), (0, 0), *amounts], mode=name)  # type: ignore[call-overload]
        assert np.array_equal(pad(x, amounts, mode).numpy(), expected)


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("amounts", [[(1, 2), (0, 0)], [(1, 0), (0, 2)], [(5, 0), (2, 4)]])
def test_a_wrap_has_derivatives_and_keeps_the_layout(form: torch.memory_format, amounts: list[tuple[int, int]]) -> None:
    x = torch.randn(2, 6, 5, 4, dtype=torch.float64).contiguous(memory_format=form).requires_grad_()
    expected = np.pad(x.detach().numpy(), [(0, 0), (0, 0), *amounts], mode="wrap")
    y = pad(x, amounts, "circular")
    assert np.array_equal(y.detach().numpy(), expected)
    (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y), retain_graph=True)
    (again,) = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)
    assert torch.equal(gradient, again)
    for t in (y, gradient, again):
        assert t.is_contiguous(memory_format=form)
    part = x[:1, :2, :, :2].detach().contiguous(memory_format=form).requires_grad_()
    few = [(min(a, 2), min(b, 2)) for a, b in amounts]
    assert gradcheck(lambda t: pad(t, few, "circular"), part, check_forward_ad=True)
    assert gradgradcheck(lambda t: pad(t, few, "circular").sin(), part)


@given(rows=small, columns=small, height=st.integers(1, 7), width=st.integers(1, 7))
def test_fractional_shift_by_whole_pixels(rows: int, columns: int, height: int, width: int) -> None:
    """Whole pixels give the circular shift, to rounding."""
    x = torch.randn(2, height, width, dtype=torch.float64)
    assert torch.allclose(fractional_shift(x, (rows, columns)), circular_shift(x, (rows, columns)), atol=1e-12)


def test_fractional_shift_moves_a_wave_by_its_phase() -> None:
    """Shifting cos(2 pi k x / M) by d gives cos(2 pi k (x - d) / M) below the Nyquist frequency."""
    x = torch.arange(12, dtype=torch.float64)
    for k in range(6):
        wave = torch.cos(2 * torch.pi * k * x / 12)
        moved = torch.cos(2 * torch.pi * k * (x - 0.3) / 12)
        assert torch.allclose(fractional_shift(wave, 0.3, dims=[-1]), moved, rtol=0, atol=1e-12)
    assert fractional_shift(x.to("meta"), 0.3, dims=[-1]).is_meta


def test_fractional_shift_by_very_many_pixels() -> None:
    """In float32 too: the phase is taken in float64, after whole turns are gone."""
    x = torch.rand(64)
    assert torch.allclose(fractional_shift(x, 64 * 200 + 5, dims=[-1]), circular_shift(x, [5], dims=[-1]), atol=1e-5)
    alternating = torch.tensor([1.0, -1.0] * 3)
    assert torch.allclose(fractional_shift(alternating, 7.0, dims=[-1]), -alternating, atol=1e-6)


def test_fractional_shifts_add_up_below_nyquist() -> None:
    x = torch.randn(9, 11, dtype=torch.float64)  # odd sizes have no Nyquist frequency
    twice = fractional_shift(fractional_shift(x, (0.25, -0.5)), (0.25, 1.5))
    assert torch.allclose(twice, fractional_shift(x, (0.5, 1.0)), atol=1e-12)


def test_fractional_shift_damps_the_nyquist_frequency() -> None:
    alternating = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    assert torch.allclose(
        fractional_shift(alternating, 0.5, dims=[-1]), torch.zeros(4, dtype=torch.float64), atol=1e-15
    )


def test_fractional_shift_of_half_precision() -> None:
    x = torch.rand(4, 4).to(torch.bfloat16)
    moved = fractional_shift(x, (1, 1))
    assert moved.dtype == torch.bfloat16
    assert torch.allclose(moved.float(), circular_shift(x, (1, 1)).float(), atol=1e-2)
    with pytest.raises(ValueError, match="must have one entry per shifted axis"):
        fractional_shift(x, (0.5,))


@pytest.mark.parametrize(("sizes", "stride"), [((6,), (2,)), ((4, 6), (2, 3)), ((2, 4, 6), (1, 2, 3))])
def test_polyphase_components(sizes: tuple[int, ...], stride: tuple[int, ...]) -> None:
    """out[k, i] = x[i * stride + k], with k counted in row-major order."""
    x = torch.randn(2, *sizes)
    parts = polyphase(x, stride, ndim=len(sizes))
    for n, k in enumerate(all_shifts(stride)):
        expected: Tensor = x[(slice(None), *(slice(o, None, s) for o, s in zip(k, stride)))]
        assert torch.equal(parts[:, n], expected)


def test_polyphase_needs_divisible_sizes() -> None:
    with pytest.raises(ValueError, match="must be divisible by the `stride`"):
        polyphase(torch.ones(5, 4), 2)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("amounts", [[(1, 1), (1, 1)], [(0, 3), (2, 0)], [(5, 5), (4, 4)], [(0, 0), (1, 2)]])
def test_gradient_of_the_wrap(amounts: list[tuple[int, int]], layout: torch.memory_format) -> None:
    """The same values and gradients as torch's padding, in the memory layout of the map, to any order."""
    x = torch.randn(2, 6, 5, 4, dtype=torch.float64).contiguous(memory_format=layout).requires_grad_()
    flat = [n for pair in reversed(amounts) for n in pair]
    padded, expected = pad(x, amounts, "circular"), torch.nn.functional.pad(x, flat, mode="circular")
    assert torch.equal(padded, expected)
    assert padded.is_contiguous(memory_format=layout)
    g = torch.randn_like(padded)
    ours, theirs = (torch.autograd.grad(y, x, g)[0] for y in (padded, expected))
    assert torch.allclose(ours, theirs, atol=1e-12)
    assert ours.is_contiguous(memory_format=layout)
    f = lambda t: pad(t, amounts, "circular")  # noqa: E731
    assert torch.autograd.gradcheck(f, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, x)


@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 4, 3, 5), (0, 3, 4)])
def test_gradient_of_the_wrap_in_other_dimensions(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    amounts = [(1, 2), (0, 3), (2, 2)][: len(shape) - 2]
    y = pad(x, amounts, "circular")
    expected = torch.nn.functional.pad(x, [n for p in reversed(amounts) for n in p], mode="circular")
    g = torch.randn_like(y)
    ours, theirs = (torch.autograd.grad(t, x, g)[0] for t in (y, expected))
    assert torch.allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [1, 6])
@pytest.mark.parametrize("grad", [False, True])
def test_forward_mode_derivatives_move_along(grad: bool, channels: int, form: torch.memory_format) -> None:
    """Of a shift by sample and of a wrap: what is done to the values is done to tangents."""
    x, tangent = (torch.randn(2, channels, 5, 4).contiguous(memory_format=form) for _ in range(2))
    shift = torch.tensor([[1, 2], [-1, 0]])
    functions: list[Callable[[Tensor], Tensor]] = [
        lambda t: circular_shift(t, shift),
        lambda t: take_from(t, shift % 4, (1, 2)),
        lambda t: pad(t, [(1, 2), (0, 3)], "circular"),
    ]
    for f in functions:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x.requires_grad_(grad), tangent)  # type: ignore[no-untyped-call]
            value, moved = forward_ad.unpack_dual(f(dual))  # type: ignore[no-untyped-call]
        assert torch.equal(value, f(x.detach()))
        assert torch.equal(moved, f(tangent))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_large_samples_are_rolled_like_small_ones(layout: torch.memory_format) -> None:
    """From a certain size on they are rolled one after the other: the same pixels, and the same gradient."""
    x = torch.randn(3, 3, 80, 90).contiguous(memory_format=layout).requires_grad_()
    shifts = torch.tensor([[5, -7], [0, 0], [79, 200]])
    expected = torch.stack([sample.roll(shift, (1, 2)) for sample, shift in zip(x, shifts.tolist())])
    moved = circular_shift(x, shifts)
    assert torch.equal(moved, expected)
    weight = torch.randn_like(expected)
    grads = [torch.autograd.grad((y * weight).sum(), x)[0] for y in (moved, expected)]
    assert torch.equal(*grads)
