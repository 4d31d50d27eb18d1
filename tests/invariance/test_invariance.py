"""The measure itself: what it reports, and that it cannot be fooled."""

import contextlib
import functools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from helpers.laws import all_shifts
from shiftproof.invariance import (
    assert_shift_equivariant,
    assert_shift_invariant,
    consistency,
    same_bits,
    shift_error,
    survey,
)
from shiftproof.invariance.assertions import _equivariance_error
from shiftproof.maps.shifts import circular_shift, cropped_shift, fractional_shift


class Named(Tensor):
    """A tensor with another name, such as an image of torchvision."""


def corner(x: Tensor) -> Tensor:
    """As far from invariant as can be: one pixel."""
    return x[:, :, 0, 0]


def test_same_bits() -> None:
    """Bytes, dtype and shape; the sign of zero and the payload of NaN count."""
    nan = torch.tensor([torch.nan])
    other_nan = torch.tensor([0x7FC00001], dtype=torch.int32).view(torch.float32)
    assert same_bits(nan, nan.clone())
    assert not same_bits(nan, other_nan)
    assert not same_bits(torch.zeros(1), -torch.zeros(1))
    assert not same_bits(torch.zeros(1), torch.zeros(1, dtype=torch.float64))
    assert not same_bits(torch.zeros(1), torch.zeros(1, dtype=torch.int32))
    assert not same_bits(torch.zeros(2), torch.zeros(1))
    assert same_bits(torch.arange(3), torch.arange(3))
    assert not same_bits(torch.arange(3), torch.arange(3) + 1)
    assert same_bits(torch.tensor([1j]), torch.tensor([1j]))
    assert not same_bits(torch.tensor([0j]), torch.complex(torch.tensor([-0.0]), torch.tensor([0.0])))
    assert same_bits(torch.rand(2, 3).t(), torch.rand(2, 3).t()) is False
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        one = torch.ones(3, dtype=dtype)
        assert same_bits(one, one.clone())
        assert not same_bits(one, torch.nextafter(one, 2 * one) if dtype == torch.float64 else one * 1.01)


def test_error_is_the_change_over_all_shifts() -> None:
    """Maximum, mean, worst shift and map, against a loop over shifts."""
    x = torch.rand(3, 2, 4, 5, dtype=torch.float64)
    error = shift_error(corner, x)
    expected = torch.zeros(4, 5, dtype=torch.float64)
    total = 0.0
    for s in all_shifts((4, 5)):
        change = (corner(circular_shift(x, s)) - corner(x)).abs()
        expected[s] = change.max()
        total += float(change.mean()) / 20
    assert torch.equal(error.map, expected)
    assert error.max == float(expected.max())
    assert error.mean == pytest.approx(total)
    assert expected[tuple(int(v) for v in error.worst)] == error.max
    assert not error.exact
    assert len(error.shifts) == 20
    assert "largest at shift" in str(error)


@pytest.mark.parametrize("batch_size", [1, 2, 7, 1000])
def test_batches_do_not_matter(batch_size: int) -> None:
    x = torch.rand(3, 2, 4, 5, dtype=torch.float64)
    assert torch.equal(shift_error(corner, x, batch_size=batch_size).map, shift_error(corner, x).map)

    def scores(t: Tensor) -> Tensor:
        return t[:, 0, 0]

    some, other = consistency(scores, x, batch_size=batch_size), consistency(scores, x)
    assert some.pairs == other.pairs
    assert torch.equal(some.map, other.map)
    assert torch.equal(some.classes, other.classes)
    assert some.classes.shape == (20, 3)


def test_every_call_has_the_same_shape() -> None:
    """Rounding may depend on the batch shape, so the reference sees the shape of the shifted copies.

    As many shifts of the images as fit into a batch, the last call filled up; one shift where none fit.
    """
    for images, batch_size, expected in ((1, 4, 4), (3, 4, 3), (3, 3, 3), (2, 256, 2 * 15)):
        seen: list[int] = []

        def f(t: Tensor, seen: list[int] = seen) -> Tensor:
            seen.append(t.shape[0])
            return t.amax((2, 3))

        shift_error(f, torch.rand(images, 1, 3, 5), batch_size=batch_size)
        assert set(seen) == {expected}


def test_reference_sits_at_the_same_place_of_the_batch() -> None:
    """A function that treats places of the batch differently, but ignores shifts, has no shift error."""

    def f(t: Tensor) -> Tensor:
        return t.amax((1, 2, 3)) + torch.arange(t.shape[0])

    assert shift_error(f, torch.rand(3, 1, 4, 5), batch_size=7).exact


def test_memory_layout_is_kept() -> None:
    seen = []

    def f(t: Tensor) -> Tensor:
        seen.append(t.is_contiguous(memory_format=torch.channels_last))
        return t.sum((1, 2, 3))

    shift_error(f, torch.rand(2, 3, 4, 4).contiguous(memory_format=torch.channels_last))
    assert all(seen)


def test_a_function_is_measured_as_it_is_called() -> None:
    """Every call has the batch, the strides and the class of the maps; of overlapping maps it has a plain copy."""
    base = torch.rand(4, 6, 10, 3)
    views = [base[:1], base.movedim(-1, 1), base[:, ::2, ::5], torch.rand(1, 3, 5, 5).expand(2, 3, 5, 5)]
    for x in [*views, torch.rand(2, 3, 4, 5).as_subclass(Named)]:
        seen: list[tuple[object, ...]] = []

        def f(t: Tensor, seen: list[tuple[object, ...]] = seen) -> Tensor:
            seen.append((type(t), t.shape, t.stride()))
            return t.as_subclass(Tensor).amax((2, 3))

        assert shift_error(f, x, shifts=3).exact
        strides = torch.empty_like(x).stride() if 0 in x.stride() else x.stride()
        assert seen == [(type(x), x.shape, strides)] * 4


def test_one_bit_is_noticed() -> None:
    """A change in the last bit, or in the sign of a zero, is not exact."""
    x = torch.ones(1, 1, 3, 3)
    x[0, 0, 0, 0] = 1 + 2**-23
    assert shift_error(corner, x).max == 2**-23
    with pytest.raises(AssertionError, match="8 of 9 shifts change the output by more than 0; the largest"):
        assert_shift_invariant(corner, x)
    assert_shift_invariant(corner, x, tolerance=1e-6)
    zeros = torch.zeros(1, 1, 3, 3)
    zeros[0, 0, 1, 1] = -0.0
    assert shift_error(corner, zeros).max == 0
    with pytest.raises(AssertionError, match="Values are equal, bits are not"):
        assert_shift_invariant(corner, zeros)


def test_nan_and_infinity() -> None:
    """The same on both sides is no change; NaN on one side is an infinite one."""
    assert shift_error(lambda t: t.sum((1, 2, 3)) * torch.nan, torch.rand(1, 1, 3, 3)).max == 0
    x = torch.zeros(1, 1, 2, 2)
    x[0, 0, 1, 1] = torch.nan
    assert shift_error(corner, x).max == math.inf
    x[0, 0, 0, 0] = x[0, 0, 1, 1] = torch.inf
    assert shift_error(corner, x).map.tolist() == [[0, math.inf], [math.inf, 0]]


def test_samples_and_lists_of_shifts() -> None:
    x = torch.rand(2, 1, 6, 6)
    some = shift_error(corner, x, shifts=10, seed=3)
    assert len(set(some.shifts)) == 10
    assert int((~some.map.isnan()).sum()) == 10
    assert some.shifts == shift_error(corner, x, shifts=10, seed=3).shifts
    assert some.shifts != shift_error(corner, x, shifts=10, seed=4).shifts
    listed = shift_error(corner, x, shifts=[(1, -1), (0, 0)])
    assert listed.shifts == [(1, 5), (0, 0)]
    assert listed.map[0, 0] == 0
    assert int((~listed.map.isnan()).sum()) == 2


def test_cropped_shifts() -> None:
    x = torch.rand(1, 1, 16, 16)
    error = shift_error(corner, x, kind="cropped", border="replicate")
    assert error.map.shape == (5, 5)
    assert error.map[2, 2] == 0
    change = (corner(cropped_shift(x, (-2, 1), border="replicate")) - corner(x)).abs().max()
    assert error.map[0, 3] == float(change)
    outside = shift_error(corner, x, shifts=[(7, 7)], kind="cropped")
    assert outside.map.isnan().all()
    assert outside.max > 0


def test_shifts_off_the_grid_are_counted() -> None:
    x = torch.rand(1, 1, 16, 16)
    with pytest.raises(AssertionError, match=r"1 of 1 shifts change the output by more than 0; .* is 0\."):
        assert_shift_invariant(corner, x, shifts=[(7, 7)], kind="cropped")
    error = shift_error(corner, x, shifts=torch.tensor([[1, 2]]))  # type: ignore[arg-type]
    assert error.shifts == [(1, 2)]
    assert error.map[1, 2] == error.changes[0] == error.max


def test_parts_of_a_pixel_need_their_own_kind() -> None:
    for kind in ("circular", "cropped"):
        with pytest.raises(ValueError, match="must be whole pixels unless `kind` is 'fractional'"):
            shift_error(corner, torch.rand(1, 1, 4, 4), shifts=[(0.5, 0.5)], kind=kind)
    assert shift_error(corner, torch.rand(1, 1, 4, 4), shifts=[(0.5, 0.3)], kind="fractional").shifts == [(0.5, 0.3)]


def test_fractional_shifts() -> None:
    x = torch.rand(1, 1, 8, 8, dtype=torch.float64)
    error = shift_error(corner, x, kind="fractional")
    assert error.map.shape == (8, 8)
    change = (corner(fractional_shift(x, (0.25, 0.5))) - corner(x)).abs().max()
    assert float(error.map[2, 4]) == pytest.approx(float(change))
    assert error.map[0, 0] < 1e-14


def test_other_dimensions() -> None:
    assert shift_error(lambda t: t[:, 0, :1], torch.rand(1, 1, 7)).map.shape == (7,)
    assert shift_error(lambda t: t.amax((1, 2, 3, 4)), torch.rand(2, 1, 2, 3, 4)).exact


def test_consistency_counts_agreeing_pairs() -> None:
    """Three of four shifts answer 0, one answers 1: pairs agree with probability (3/4)^2 + (1/4)^2."""
    x = torch.tensor([[[[0.0, 0.0], [0.0, 1.0]]]])
    result = consistency(lambda t: torch.stack([1 - t[:, 0, 0, 0], t[:, 0, 0, 0]], 1), x)
    assert result.pairs == pytest.approx(10 / 16)
    assert result.reference == 0.75
    assert result.map.tolist() == [[1, 1], [1, 0]]
    assert result.per_image.tolist() == [pytest.approx(10 / 16)]
    assert str(result) == "consistency: 62.50% of pairs of shifts agree, 75.00% with the unshifted image"


@pytest.mark.parametrize(
    ("shifts", "kind", "border"),
    [("all", "circular", "zeros"), (7, "cropped", "reflect"), ("all", "fractional", "zeros")],
)
def test_a_survey_is_both_measures_at_once(shifts: str | int, kind: str, border: str) -> None:
    """The same numbers as `shift_error` and `consistency`, from as many calls as one of them."""
    x, calls, heard = torch.rand(3, 2, 16, 16), [], []

    def f(t: Tensor) -> Tensor:
        calls.append(t.shape)
        return corner(t)

    error = shift_error(f, x, shifts, kind, border=border, batch_size=20, seed=5)
    once = len(calls)
    agreement = consistency(f, x, shifts, kind, border=border, batch_size=20, seed=5)
    calls.clear()
    both = survey(
        f,
        x,
        shifts,
        kind,
        border=border,
        batch_size=20,
        seed=5,
        progress=lambda done, total: heard.append((done, total)),
    )
    assert len(calls) == once
    assert str(both[0]) == str(error)
    assert torch.equal(both[0].changes, error.changes)
    assert str(both[1]) == str(agreement)
    assert torch.equal(both[1].per_image, agreement.per_image)
    assert torch.equal(both[1].map, agreement.map) or both[1].map.isnan().any()
    count = 3 * len(error.shifts)
    assert heard[-1] == (count, count)
    assert [done for done, _ in heard] == sorted({done for done, _ in heard})


def batches(measure: Callable[..., object], x: Tensor, *arguments: object, **options: object) -> list[Tensor]:
    """What a measure shows to the function it judges."""
    seen: list[Tensor] = []

    def f(t: Tensor) -> Tensor:
        seen.append(t.clone())
        return t if measure is assert_shift_equivariant else t.flatten(1)

    with contextlib.suppress(AssertionError):
        measure(f, x, *arguments, **options)
    return seen


@pytest.mark.parametrize("measure", [consistency, survey, assert_shift_invariant])
def test_options_mean_the_same_everywhere(measure: Callable[..., object]) -> None:
    """Kind, border, batch size and seed, given or left out."""
    x = torch.rand(1, 1, 16, 17)
    given = (5, "cropped"), {"border": "reflect", "batch_size": 3, "seed": 9}
    left_out: tuple[tuple[()], dict[str, object]] = (), {}
    some: tuple[tuple[int], dict[str, object]] = (7,), {}
    for arguments, options in (given, left_out, some):
        expected, found = (batches(m, x, *arguments, **options) for m in (shift_error, measure))
        assert len(expected) > 1
        assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_defaults() -> None:
    """All circular shifts, one in each call; samples are drawn with seed 0."""
    x = torch.rand(1, 1, 16, 17)
    written = {"border": "zeros", "batch_size": 1, "seed": 0}
    for arguments in ((), (7,), (7, "cropped")):
        found = batches(shift_error, x, *arguments)
        assert same_bits(torch.cat(found), torch.cat(batches(shift_error, x, *arguments, **written)))
    del written["border"]
    for arguments in ((), (7,)):
        found = batches(assert_shift_equivariant, x, *arguments)
        assert same_bits(torch.cat(found), torch.cat(batches(assert_shift_equivariant, x, *arguments, **written)))
        assert same_bits(torch.cat(found), torch.cat(batches(shift_error, x, *arguments, **written)))
    assert {len(t) for t in batches(assert_shift_equivariant, x, 6, batch_size=3)} == {3}


def test_a_tolerance_is_the_largest_change_allowed() -> None:
    """The change itself is still good, anything below it is not; the message ends where bits need no word."""
    x = torch.zeros(1, 1, 2, 2)
    x[0, 0, 1, 1] = 0.5
    assert_shift_invariant(corner, x, tolerance=0.5)
    with pytest.raises(AssertionError, match=r"^not invariant to circular shifts: 1 of 4 .* at shift \(1, 1\)\.$"):
        assert_shift_invariant(corner, x, tolerance=0.49)
    zeros = torch.zeros(1, 1, 2, 2)
    zeros[0, 0, 1, 1] = -0.0
    with pytest.raises(AssertionError, match=r"0 of 4 .*\. Values are equal, bits are not: the sign .* differs\.$"):
        assert_shift_invariant(corner, zeros)

    def bend(t: Tensor) -> Tensor:  # equivariant but for one place
        return torch.cat([t[:, :, :1, :1] / 2, t[:, :, :1, 1:]], 3).expand(-1, -1, 2, -1)

    x = torch.zeros(1, 1, 1, 3)
    x[0, 0, 0, 2] = 1.0
    assert_shift_equivariant(bend, x, tolerance=0.5)
    with pytest.raises(
        AssertionError, match=r"1 of 3 shifts .* beyond 0; the largest change is 0.5, at shift \(0, 1\)"
    ):
        assert_shift_equivariant(bend, x)
    with pytest.raises(AssertionError, match=r"1 of 3 shifts .* beyond 0.49; the largest"):
        assert_shift_equivariant(bend, x, tolerance=0.49)


@pytest.mark.parametrize("factor", [2, 3])
def test_smaller_maps_move_by_whole_steps_of_their_own(factor: int) -> None:
    """By d / s rounded down or up, and by nothing else; each image by one of them, all its channels alike."""
    size = 4 * factor
    x = torch.randn(2, 2, size, 1)

    def moved(steps: dict[int, int], t: Tensor) -> Tensor:
        """The unshifted images' small maps, moved as the table says for the shift that `t` shows."""
        small = x[:, :, ::factor]
        out = []
        for image, mine in zip(t, [0, 1] * (len(t) // 2)):
            d = next(d for d in range(size) if torch.equal(image, x[mine].roll(d, 1)))
            out.append(small[mine].roll(steps[d], 1))
        return torch.stack(out)

    down = {d: d // factor for d in range(size)}
    up = {d: -(-d // factor) for d in range(size)}
    for steps in (down, up):
        assert_shift_equivariant(functools.partial(moved, steps), x)
    for wrong in ({**down, 1: 2}, {**down, 1: -1}, {**up, size - 1: 2}):
        with pytest.raises(AssertionError, match=f"not equivariant: 1 of {size}"):
            assert_shift_equivariant(functools.partial(moved, wrong), x)

    def apart(t: Tensor) -> Tensor:  # two images may round differently, two channels may not
        one, two = moved(down, t), moved(up, t)
        return torch.cat([one[:, :1], two[:, 1:]], 1)

    def alternating(t: Tensor) -> Tensor:
        one, two = moved(down, t), moved(up, t)
        return torch.stack([(one, two)[i % 2][i] for i in range(len(t))])

    assert_shift_equivariant(alternating, x)
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_shift_equivariant(apart, x)


def test_the_worst_of_several_images_counts() -> None:
    """One image that fails is not hidden by others that do not."""
    x = torch.randint(9, (3, 1, 4, 1)).float()
    bad = torch.tensor([0.0, 0.0, 1.0]).view(3, 1, 1, 1)

    def f(t: Tensor) -> Tensor:
        return t + bad.repeat(len(t) // 3, 1, 1, 1) * torch.arange(4.0).view(4, 1)

    with pytest.raises(AssertionError, match=r"3 of 4 shifts .* the largest change is 3, at shift \(1, 0\)"):
        assert_shift_equivariant(f, x)


def test_equivariance() -> None:
    """Identity and stride-1 blur pass; an invariant map, a flip and a wrong shift do not."""
    x = torch.randn(2, 1, 6, 4)
    assert_shift_equivariant(lambda t: t * 2, x)
    assert_shift_equivariant(lambda t: t[:, :, ::2, ::2], x, shifts=[(0, 0), (2, 2), (4, 0)])
    for wrong in (lambda t: t.amax((2, 3), keepdim=True).expand(t.shape) * torch.rand(6, 4), lambda t: t.flip(2)):
        with pytest.raises(AssertionError, match=r"not equivariant: \d+ of 24 shifts"):
            assert_shift_equivariant(wrong, x, tolerance=1e-6)
    with pytest.raises(AssertionError, match="at shift"):
        assert_shift_equivariant(lambda t: t[:, :, ::2, ::2], x, tolerance=1e-6)
    with pytest.raises(ValueError, match="must return maps with 4 dimensions"):
        assert_shift_equivariant(corner, x)


def test_no_graph_is_kept() -> None:
    weight = torch.ones(1, requires_grad=True)
    shift_error(lambda t: t.amax((1, 2, 3)) * weight, torch.rand(1, 1, 3, 3))
    assert weight.grad is None


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((corner, torch.zeros(1, 1, 3, 3)), {"kind": "spiral"}, "must be one of 'circular', 'cropped', 'fractional'"),
        ((corner, torch.zeros(1, 1, 3, 3)), {"shifts": "some"}, "must be one of 'all'"),
        ((corner, torch.zeros(1, 1, 3, 3)), {"shifts": 0}, "must be at least 1"),
        ((corner, torch.zeros(1, 1, 3, 3)), {"shifts": []}, "must list shifts with one entry per axis"),
        ((corner, torch.zeros(1, 1, 3, 3)), {"shifts": [(1,)]}, "must list shifts with one entry per axis"),
        ((corner, torch.zeros(1, 1, 3, 3)), {"batch_size": 0}, "must be at least 1"),
        ((corner, torch.zeros(1, 3)), {}, "must be a batch of images"),
        ((corner, torch.zeros(0, 1, 3, 3)), {}, "must be a batch of images"),
        ((corner, torch.zeros(1, 1, 3, 3, dtype=torch.uint8)), {}, "must be a real floating tensor"),
        ((torch.sum, torch.zeros(1, 1, 3, 3)), {}, "must return a tensor with one entry per image"),
        ((lambda t: [t], torch.zeros(1, 1, 3, 3)), {}, "must return a tensor with one entry per image .1., not list"),
    ],
)
def test_bad_arguments(arguments: tuple[object, ...], options: dict[str, object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        shift_error(*arguments, **options)  # type: ignore[arg-type]


def test_cropped_shifts_bring_in_zeros_unless_told_otherwise() -> None:
    def f(t: Tensor) -> Tensor:
        return t.flatten(1)

    x = torch.rand(2, 1, 8, 8) + 1
    found = consistency(f, x, kind="cropped")
    zeros, edge = (consistency(f, x, kind="cropped", border=border) for border in ("zeros", "replicate"))
    assert torch.equal(found.map, zeros.map)
    assert not torch.equal(found.map, edge.map)
    assert torch.equal(survey(f, x, kind="cropped")[1].map, zeros.map)


def test_batches_make_no_difference() -> None:
    x = torch.rand(3, 2, 4, 5)
    whole, parts = (survey(lambda t: t.amax(3).flatten(1), x, batch_size=n) for n in (256, 7))
    assert parts[0].mean == pytest.approx(whole[0].mean)
    assert parts[0].max == whole[0].max
    assert torch.equal(parts[1].map, whole[1].map)


def test_one_shift_of_the_output_must_explain_all_of_it() -> None:
    """Half a pixel, rounded down here and up there, is no shift."""
    before = torch.arange(4.0).view(1, 1, 1, 4)
    torn = torch.cat([before, before.roll(1, 3)], 3)[..., [0, 1, 6, 7]]
    assert _equivariance_error(before, before.roll(1, 3), (0, 1), (1, 8)) == 0
    assert _equivariance_error(before, torn, (0, 1), (1, 8)) > 0


def test_shifts_of_small_maps_and_of_signals() -> None:
    assert len(shift_error(corner, torch.rand(1, 1, 7, 8), kind="cropped").shifts) == 9  # one pixel each way
    assert len(shift_error(lambda t: t.amax(2), torch.rand(1, 1, 7), kind="fractional").shifts) == 8


def test_outputs_that_are_not_one_per_image_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one entry per image \(4\), not shape \(1, 6\)"):
        shift_error(lambda t: t[:1].flatten(1), torch.rand(1, 1, 2, 3), batch_size=4)


def test_equal_bits_are_said_to_be_equal() -> None:
    x = torch.rand(1, 1, 2, 3)
    text = "shift error over 6 shifts: max 0, mean 0, bit for bit equal"
    assert str(shift_error(lambda t: t.amax((2, 3)), x)) == text


def test_consistency_wants_scores() -> None:
    with pytest.raises(ValueError, match="must return scores"):
        consistency(lambda t: t, torch.rand(1, 1, 3, 3))
