"""The pivot: where it is, that it moves with the map, and what breaks ties."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.laws import all_shifts, hard_maps, phase_scores, tied_maps
from shiftproof.ghs.pivots import Rule, score_energy, score_phase, select_pivot
from shiftproof.ghs.sampler import find_pivot
from shiftproof.layers import RollToPivot
from shiftproof.maps.shifts import circular_shift


@pytest.mark.parametrize(
    "rule", ["max", "phase", "energy", lambda x: x.abs().amax(1)], ids=["max", "phase", "energy", "callable"]
)
@pytest.mark.parametrize("name", hard_maps())
def test_pivot_moves_with_the_map(name: str, rule: str) -> None:
    """Maps aligned at their pivots are equal, whatever the shift."""
    x = hard_maps((4, 6))[name]
    reference = circular_shift(x, -select_pivot(x, rule, counts=(2, 4)))
    for shift in all_shifts((4, 6)):
        moved = circular_shift(x, shift)
        assert torch.equal(circular_shift(moved, -select_pivot(moved, rule, counts=(2, 4))), reference)


@given(x=tied_maps(max_size=8, levels=40), strides=st.tuples(st.integers(1, 4), st.integers(1, 4)))
def test_the_best_phase_is_decided_by_all_its_pixels(x: Tensor, strides: tuple[int, int]) -> None:
    """The maximum among the positions whose phase adds up to the most, found with loops."""
    counts = [-(-m // s) for m, s in zip(x.shape[2:], strides)]
    expected = phase_scores(x[0].amax(0), counts)
    assert torch.equal(score_phase(x, counts)[0], expected)
    row, column = select_pivot(x, "phase", counts=counts)[0].tolist()
    assert expected[row, column] == expected.max()


def test_where_every_position_is_a_phase_the_maximum_decides() -> None:
    """That is so where the sizes of map and output have no common divisor."""
    x = torch.randn(20, 3, 7, 9)
    assert torch.equal(select_pivot(x, "phase", counts=(4, 5)), select_pivot(x))
    assert not torch.equal(select_pivot(x, "phase", counts=(7, 3)), select_pivot(x))


def test_phases_of_one_output_are_alike() -> None:
    """Stride 1: a single phase, so the maximum decides again."""
    x = torch.randn(20, 3, 6, 8)
    assert torch.equal(select_pivot(x, "phase", counts=(6, 8)), select_pivot(x))


def test_a_phase_is_hard_to_change() -> None:
    """A single bright pixel moves the maximum, and the phase only if it outweighs the rest of its phase."""
    x = torch.rand(1, 1, 32, 32)
    x[..., ::2, ::2] += 0.5
    x[..., 10, 20] = 2.0
    spoilt = x.clone()
    spoilt[..., 11, 21] = 3.0
    assert select_pivot(x).tolist() == select_pivot(x, "phase", counts=(16, 16)).tolist() == [[10, 20]]
    assert select_pivot(spoilt).tolist() == [[11, 21]]
    assert select_pivot(spoilt, "phase", counts=(16, 16)).tolist() == [[10, 20]]


def test_equal_phases_are_equal_in_any_order() -> None:
    """Two phases of the same values, differently arranged, are tied: a sum that rounds would prefer one of them."""
    for _ in range(20):
        x = torch.zeros(1, 1, 32, 32, dtype=torch.float64)
        values = torch.randn(256, dtype=torch.float64).exp()
        x[0, 0, ::2, ::2] = values.view(16, 16)
        x[0, 0, 1::2, ::2] = values[torch.randperm(256)].view(16, 16)
        best = score_phase(x, (16, 16))[0] > -torch.inf
        assert best[:, ::2].all()
        assert not best[:, 1::2].any()


def test_phases_need_the_sizes_of_the_output() -> None:
    with pytest.raises(ValueError, match=r"`pivot_rule='phase'` needs `counts`"):
        select_pivot(torch.rand(1, 1, 4, 4), "phase")


def test_pivot_is_the_maximum_over_all_channels() -> None:
    x = torch.randn(4, 3, 5, 7)
    for sample, pivot in zip(x, select_pivot(x).tolist()):
        assert sample[:, pivot[0], pivot[1]].max() == sample.max()


@pytest.mark.parametrize("rule", [lambda x: (x > 0.5).all(1), lambda x: x.long().sum(1)], ids=["bool", "integer"])
def test_scores_need_not_be_floating(rule: Rule) -> None:
    x = (torch.rand(4, 3, 5, 6) * 2).round()
    reference = circular_shift(x, -select_pivot(x, rule))
    for shift in all_shifts((5, 6)):
        moved = circular_shift(x, shift)
        assert torch.equal(circular_shift(moved, -select_pivot(moved, rule)), reference)
    with pytest.raises(TypeError, match="must return real scores"):
        select_pivot(x, lambda t: t[:, 0] * 1j)


def test_energy_is_the_sum_of_squares() -> None:
    for channels in (1, 2, 3, 5, 8):
        x = torch.randn(2, channels, 3, 4, dtype=torch.float64)
        assert torch.allclose(score_energy(x), x.square().sum(1), atol=1e-13)


def test_energy_moves_bit_for_bit() -> None:
    """Added up in the same order everywhere; a library sum over channels is not."""
    x = torch.randn(1, 37, 9, 11)
    scores = score_energy(x)
    for shift in all_shifts((9, 11)):
        assert torch.equal(score_energy(circular_shift(x, shift)), circular_shift(scores, shift))


def test_energy_of_half_precision_does_not_overflow_early() -> None:
    x = torch.full((1, 2, 2, 2), 300.0, dtype=torch.float16)
    assert score_energy(x).isfinite().all()


def test_nan_has_no_pivot_and_disturbs_nobody() -> None:
    x = torch.randn(3, 2, 4, 5)
    clean = select_pivot(x)
    x[1, 1, 2, 3] = torch.nan
    for rule in ("max", "energy", lambda t: t.nan_to_num().amax(1)):
        pivot = select_pivot(x, rule)
        assert pivot[1].tolist() == [-1, -1]
        if rule == "max":
            assert torch.equal(pivot[[0, 2]], clean[[0, 2]])


def test_nan_is_not_made_up_for_by_a_tie_elsewhere() -> None:
    """One sample without a maximum and one with two: as many maxima as samples, and still one has no pivot."""
    x = torch.zeros(2, 1, 3, 3)
    x[0, 0, 1, 1] = torch.nan
    x[1, 0, 0, 0] = x[1, 0, 2, 1] = 1.0
    pivot = select_pivot(x)
    assert pivot[0].tolist() == [-1, -1]
    assert x[1, 0, pivot[1, 0], pivot[1, 1]] == 1


def test_companions_break_the_ties_that_are_left() -> None:
    """A dead map has no preferred position: the branch that shares the pivot decides."""
    dead, other = torch.zeros(2, 3, 4, 4), torch.randn(2, 1, 4, 4)
    for shift in all_shifts((4, 4)):
        pivot = select_pivot(dead, companions=[circular_shift(other, shift)])
        assert torch.equal(pivot, select_pivot(circular_shift(other, shift)))
    alone = select_pivot(dead)
    assert torch.equal(alone, torch.zeros_like(alone))


def test_companions_with_nan_still_obey_the_law() -> None:
    dead, other = torch.zeros(1, 1, 4, 4), torch.randn(1, 2, 4, 4)
    other[0, 0, 1, 1] = torch.nan
    other[0, 0, 2, 3] = torch.inf
    reference = circular_shift(other, -select_pivot(dead, companions=[other]))
    for shift in all_shifts((4, 4)):
        moved = circular_shift(other, shift)
        aligned = circular_shift(moved, -select_pivot(dead, companions=[moved]))
        assert torch.equal(aligned.nan_to_num(nan=123.0), reference.nan_to_num(nan=123.0))


def test_companions_do_not_overrule_the_map() -> None:
    x, other = torch.randn(4, 2, 5, 5), torch.randn(4, 2, 5, 5)
    assert torch.equal(select_pivot(x, companions=[other]), select_pivot(x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": "maximum"}, "`pivot_rule` .='maximum'. must be one of 'max', 'phase', 'energy'"),
        ({"rule": 3}, "`pivot_rule` must be a name or a function, not int"),
        ({"ties": "coin"}, "`ties` .='coin'. must be one of 'exact', 'window', 'first'"),
        ({"rule": lambda x: x}, "must return scores of shape"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        select_pivot(torch.zeros(1, 2, 3, 3), **arguments)  # type: ignore[arg-type]


def test_empty_batch() -> None:
    assert select_pivot(torch.zeros(0, 2, 3, 3)).shape == (0, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("counts", [None, (4,), (4, 5, 6)])
def test_the_phase_needs_the_size_of_the_output(counts: tuple[int, ...] | None, dtype: torch.dtype) -> None:
    """One number an axis, whether C searches or torch; the front, which has no output, refuses the rule."""
    with pytest.raises(ValueError, match=r"`pivot_rule='phase'` needs `counts`.*, the size of the output on each of 2"):
        find_pivot(torch.rand(2, 3, 9, 8, dtype=dtype), rule="phase", counts=counts)
    with pytest.raises(ValueError, match="chooses where the samples of an output lie"):
        RollToPivot("phase")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_arguments_are_checked_where_nothing_is_tied(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match="`ties`"):
        find_pivot(torch.rand(1, 1, 5, 5, dtype=dtype), ties="coin")


def test_exported_phases_of_sizes_known_only_at_run_time() -> None:
    """A traced graph sums phases in another way, with memory that grows like the map."""

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return find_pivot(x, rule="phase", counts=[(x.shape[2] + 1) // 2])

    size = torch.export.Dim("size", min=3, max=2**20)
    program = torch.export.export(Model(), (torch.rand(2, 1, 12),), dynamic_shapes=({2: size},)).module()
    for n in (7, 12, 30, 100_000):
        x = torch.rand(2, 1, n)
        assert torch.equal(program(x), Model()(x))
