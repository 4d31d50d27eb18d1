"""The order of aligned maps, which decides ties: against one that is plain to see, traced and not, with open sizes."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from helpers.laws import all_shifts, best_position, tied_maps
from shiftproof.ghs import ties
from shiftproof.ghs.pivots import select_pivot
from shiftproof.ghs.sampler import find_pivot
from shiftproof.ghs.ties import aligned_rank, argmax, dense_rank, merging_schedule
from shiftproof.maps.shifts import circular_shift


def ranks(scores: Tensor, maps: Sequence[Tensor] = ()) -> list[int]:
    """The rank of every position of one sample, by comparing the aligned maps in row-major order. (d1..dn), (C, d1..dn)

    At each entry the score comes first, then the channels of the maps. NaN is larger than every number.
    """
    sizes = tuple(scores.shape)
    planes = [scores, *(channel for m in maps for channel in m)]
    keys = []
    for start in all_shifts(sizes):
        places = [tuple((a + b) % n for a, b, n in zip(start, step, sizes)) for step in all_shifts(sizes)]
        values = [float(plane[place]) for place in places for plane in planes]
        keys.append([(math.isnan(v), 0.0 if math.isnan(v) else v) for v in values])
    ordered = [key for key, _ in itertools.groupby(sorted(keys))]
    return [ordered.index(key) for key in keys]


def few_levels(*shape: int, levels: int = 2) -> Tensor:
    return torch.randint(0, levels, shape).float()


def choices(scores: Tensor, maps: Sequence[Tensor]) -> list[int]:
    """The first position of the highest rank, for every sample of a batch."""
    found = [ranks(s, [m[i] for m in maps]) for i, s in enumerate(scores)]
    return [rank.index(max(rank)) for rank in found]


CASES = [(3, 2, 5), (2, 1, 1), (2, 3, 1, 4), (3, 1, 4, 3), (2, 2, 3, 4), (2, 1, 5, 1), (2, 1, 3, 2, 4), (2, 2, 2, 1, 3)]


@pytest.mark.parametrize("shape", CASES, ids=str)
def test_ranks_are_those_of_the_aligned_maps(shape: tuple[int, ...]) -> None:
    """In one, two and three dimensions: the maps themselves, as enough merges find it, and as spare ones do."""
    ndim = len(shape) - 2
    for seed in range(3):
        torch.manual_seed(seed)
        x, other = few_levels(*shape), few_levels(shape[0], 2, *shape[2:])
        periodic = x[..., : (shape[-1] + 1) // 2].repeat(*[1] * (len(shape) - 1), 2)[..., : shape[-1]]
        for maps in ([], [x], [periodic], [x, other]):
            scores = periodic.amax(1)
            expected = [ranks(s, [m[i] for m in maps]) for i, s in enumerate(scores)]
            assert aligned_rank(scores, maps).tolist() == expected
            for schedule in ((2, [9] * ndim), (3, [3] * ndim), (5, [2] * ndim)):
                assert aligned_rank(scores, maps, schedule).tolist() == expected


def test_ranks_are_whole_numbers_without_gaps() -> None:
    rank = aligned_rank(few_levels(1, 4, 6), [few_levels(1, 1, 4, 6)])
    assert rank.dtype == torch.int64
    found = set(rank.flatten().tolist())
    assert found == set(range(len(found)))


def test_order_of_what_is_no_ordinary_number() -> None:
    """Minus infinity, numbers, infinity, NaN; both zeros are equal; a map that ends in NaN is compared to its end."""
    nan, inf = torch.nan, torch.inf
    x = torch.tensor([[0.0, inf, 0.0, nan, 0.0, -inf, -0.0, nan], [nan] * 8, [inf, nan, -inf, 0.0] * 2])[:, None]
    for schedule in (None, (2, [32])):
        rank = aligned_rank(torch.zeros(3, 8), [x], schedule)
        assert rank.tolist() == [ranks(torch.zeros(8), [sample]) for sample in x]


def test_scores_come_before_the_maps_and_maps_in_their_order() -> None:
    scores = torch.tensor([[0.0, 1.0, 0.0]])
    first, second = torch.tensor([[[1.0, 0.0, 2.0]]]), torch.tensor([[[5.0, 4.0, 3.0]]])
    assert aligned_rank(scores, [first, second]).tolist() == [[0, 2, 1]]
    flat = torch.zeros(1, 3)
    assert aligned_rank(flat, [first, second]).tolist() == [[1, 0, 2]]
    assert aligned_rank(flat, [second, first]).tolist() == [[2, 1, 0]]
    assert aligned_rank(flat, [torch.cat([first, second], 1)]).tolist() == [[1, 0, 2]]


@pytest.mark.parametrize(("sizes", "far"), [((9,), 8), ((17,), 16), ((3, 4), 11), ((5, 2), 9), ((2, 3, 4), 23)])
def test_the_last_entry_can_decide(sizes: tuple[int, ...], far: int) -> None:
    """Two positions that differ only in the last entry compared, which needs every merge but no more."""
    x = torch.zeros(1, 1, *sizes)
    x.view(-1)[far] = 1.0
    rank = aligned_rank(torch.zeros(1, *sizes), [x])[0]
    assert int(rank[far]) == rank.max() == math.prod(sizes) - 1
    assert int(rank[0]) == 0
    assert rank.tolist() == ranks(torch.zeros(sizes), [x[0]])


@given(x=tied_maps(max_size=4, levels=2))
def test_equal_ranks_mean_equal_aligned_maps(x: Tensor) -> None:
    rank = aligned_rank(x.amax(1), [x])[0].view(x.shape[2:])
    for a in all_shifts(tuple(x.shape[2:])):
        same = torch.equal(x.roll([-p for p in a], (2, 3)), x)
        assert bool(rank[a] == rank[0, 0]) == same


@given(x=tied_maps(levels=2))
def test_spare_doublings_change_nothing(x: Tensor) -> None:
    enough = aligned_rank(x.amax(1), [x])
    assert torch.equal(aligned_rank(x.amax(1), [x], schedule=(2, [9, 9])), enough)


@given(x=tied_maps())
def test_tie_rule_is_the_brute_force_oracle(x: Tensor) -> None:
    """The map aligned at the pivot is the largest of all aligned maps, in the stated order."""
    pivot = tuple(select_pivot(x)[0].tolist())
    best = best_position(x[0].amax(0), [x[0]])
    assert torch.equal(x.roll([-p for p in pivot], (2, 3)), x.roll([-p for p in best], (2, 3)))


@given(x=tied_maps())
def test_shortcuts_agree_with_full_ranking(x: Tensor) -> None:
    """The cheap comparisons of eager code choose what the full ranking of traced code chooses."""
    scores = x.amax(1)
    index = int(aligned_rank(scores, [x])[0].argmax())
    chosen = divmod(index, x.shape[3])
    pivot = tuple(select_pivot(x)[0].tolist())
    assert torch.equal(x.roll([-p for p in pivot], (2, 3)), x.roll([-p for p in chosen], (2, 3)))


def test_budget_of_shortcuts_changes_nothing() -> None:
    """However early the elimination stops, the ranking finishes the job alike."""
    x = (torch.rand(50, 2, 6, 5) * 2).round()
    full = select_pivot(x)
    aligned = circular_shift(x, -full)
    for budget in (1, 3, 1000):
        left = ties._eliminate(x.amax(1), [x], budget)
        rank = aligned_rank(x.amax(1), [x])
        index = torch.where(left, rank, -1).argmax(1)
        other = torch.stack([index // 5, index % 5], 1)
        assert torch.equal(circular_shift(x, -other), aligned)


def test_ties_that_only_the_full_ranking_decides() -> None:
    """Two equal maxima whose surroundings differ only far away, beyond the reach of the first comparisons."""
    x = torch.zeros(1, 1, 16, 16)
    x[0, 0, 0, 0] = x[0, 0, 8, 0] = 1.0
    x[0, 0, 12, 3] = 0.5
    assert int(ties._eliminate(x.amax(1), [x]).sum()) > 1
    reference = circular_shift(x, -select_pivot(x))
    moved = circular_shift(x.expand(256, -1, -1, -1), torch.tensor(list(all_shifts((16, 16)))))
    assert torch.equal(circular_shift(moved, -select_pivot(moved)), reference.expand_as(moved))


@pytest.mark.parametrize("shape", CASES, ids=str)
def test_elimination_keeps_the_best(shape: tuple[int, ...]) -> None:
    """No position of the highest rank goes; where everything was compared, no other stays."""
    x, other = few_levels(*shape), few_levels(*shape)
    scores = few_levels(shape[0], *shape[2:])
    for budget in (1, 4, 10_000):
        left = ties._eliminate(scores, [x, other], budget)
        assert left.shape == (shape[0], math.prod(shape[2:]))
        for i, kept in enumerate(left):
            rank = torch.tensor(ranks(scores[i], [x[i], other[i]]))
            best = rank == rank.max()
            assert bool(kept[best].all())
            if budget == 10_000 or int(kept.sum()) == 1:
                assert torch.equal(kept, best)


@pytest.mark.parametrize(("channels", "compared"), [(1, 64), (2, 42), (3, 32), (200, 1)])
def test_elimination_stops_when_its_budget_is_spent(channels: int, compared: int) -> None:
    """128 comparisons: an entry of the score and of every channel each; a budget of less than one entry is one."""
    for distance, decided in ((compared - 1, True), (compared, False)):
        x = torch.zeros(1, channels, 200)
        scores = torch.zeros(1, 200)
        scores[0, 0] = scores[0, 100] = 1.0
        x[0, -1, distance] = 0.5
        assert (int(ties._eliminate(scores, [x]).sum()) == 1) == decided


def test_elimination_in_two_dimensions_walks_in_rows() -> None:
    """Around the edges, the last axis first: of two maxima the one with a bright pixel two columns on."""
    scores = torch.zeros(1, 4, 5)
    scores[0, 0, 4] = scores[0, 2, 1] = 1.0
    x = torch.zeros(1, 1, 4, 5)
    x[0, 0, 1, 4], x[0, 0, 2, 3] = 9.0, 0.5
    assert ties._eliminate(scores, [x], 6).nonzero().tolist() == [[0, 11]]
    x[0, 0, 0, 1] = 1.0
    assert ties._eliminate(scores, [x], 6).nonzero().tolist() == [[0, 4]]


def test_elimination_takes_every_infinity_and_nan() -> None:
    """NaN counts as infinity, infinities are beyond the largest numbers, and each sample stands for itself."""
    nan, inf, most = torch.nan, torch.inf, torch.finfo(torch.float32).max
    x = torch.tensor(
        [
            [0.0, inf, 1.0, 5.0],
            [-inf, -inf, -inf, -inf],
            [2.0, nan, 2.0, 7.0],
            [most, 0.0, inf, most],
            [-inf, -inf, -most, -inf],
            [-inf, -inf, -inf, -inf],
        ]
    )
    scores = torch.zeros(6, 4)
    scores[5, :2] = 1.0
    kept = [[1], [0, 1, 2, 3], [1], [2], [2], [0, 1]]  # what is out stays out, whatever follows
    left = ties._eliminate(scores, [x[:, None]], 2)
    assert [row.nonzero()[:, 0].tolist() for row in left] == kept


def mixed_batch() -> tuple[Tensor, Tensor, list[int]]:
    """Scores, maps, and the positions to choose, 0 where the map is constant.

    No tie; a tie that a comparison decides; one that the ranking decides; a constant map; two equal halves.
    """
    x = torch.zeros(5, 2, 16, 16)
    x[0, 0, 3, 7] = 1.0
    x[1, 0, 2, 2] = x[1, 0, 9, 9] = 1.0
    x[1, 1, 9, 9] = 0.25
    x[2, 0, 0, 0] = x[2, 0, 8, 0] = 1.0
    x[2, 1, 12, 3] = 0.5
    x[3] = 0.3
    x[4, 1, 4, 4] = x[4, 1, 12, 12] = 2.0
    return x.amax(1), x, [3 * 16 + 7, 9 * 16 + 9, 8 * 16, 0, 4 * 16 + 4]


@pytest.mark.parametrize("how", [ties._resolve, ties._resolve_traced])
def test_what_is_tied_is_decided_and_nothing_else(how: Any) -> None:
    """A sample that is not tied keeps the position it came with, and so does one that is constant, in eager code."""
    scores, x, expected = mixed_batch()
    tied = torch.tensor([False, True, True, True, True])
    index = torch.tensor([51, 200, 201, 0, 202])
    assert how(tied, index, scores, x).tolist() == [51, *expected[1:]]
    assert index.tolist() == [51, 200, 201, 0, 202]
    for alone in range(1, 5):
        one = torch.arange(5) == alone
        found = how(one, index, scores, x)
        assert found.tolist() == torch.where(one, torch.tensor(expected), index).tolist()
        assert found.dtype == torch.int64
    none = torch.zeros(5, dtype=torch.bool)
    assert how(none, index, scores, x).tolist() == index.tolist()


def test_constant_maps_are_left_alone() -> None:
    """Every position is as good as another, so nothing is compared; one channel that varies is compared."""
    flat, index, tied = torch.ones(2, 3, 4), torch.tensor([5, 6]), torch.tensor([True, True])
    assert ties._resolve(tied, index, flat[:, 0], flat).tolist() == [5, 6]
    varied = torch.zeros(2, 2, 4)
    varied[1, 1, 2] = 1.0
    assert ties._resolve(tied, index, flat[:, 0], flat, varied).tolist() == [5, 2]


@pytest.mark.parametrize("shape", CASES, ids=str)
def test_both_ways_choose_the_first_of_the_best(shape: tuple[int, ...]) -> None:
    """What `argmax` finds, traced or not, with one map and with two."""
    for seed in range(4):
        torch.manual_seed(seed)
        x, other = few_levels(*shape), few_levels(*shape, levels=3)
        for maps in ([x], [x, other]):
            scores = x.amax(1)
            expected = choices(scores, maps)
            index, tied = torch.full((shape[0],), -7), torch.ones(shape[0], dtype=torch.bool)
            assert ties._resolve_traced(tied, index, scores, *maps).tolist() == expected
            found = argmax(scores, "exact", maps).tolist()
            for i, (a, b) in enumerate(zip(found, expected)):
                rank = ranks(scores[i], [m[i] for m in maps])
                assert rank[a] == rank[b]


def test_other_rules_take_the_first_maximum_or_the_larger_neighbourhood() -> None:
    scores = torch.tensor([[0.0, 2.0, 0.0, 0.0, 0.0, 2.0, 1.0, 0.0], [3.0] + [0.0] * 7])
    assert argmax(scores, "first", ()).tolist() == [1, 0]
    assert argmax(scores, "window", ()).tolist() == [5, 0]
    assert argmax(scores, "exact", (scores[:, None],)).tolist() == [5, 0]
    assert argmax(scores.flip(1), "first", ()).tolist() == [2, 7]


def test_a_window_decides_only_between_maxima() -> None:
    """Beside a large sum that belongs to no maximum, in every sample of its own."""
    scores = torch.tensor([[2.0, 0.0, 0.0, 0.0, 1.9, 1.9, 1.9, 0.0, 0.0, 2.0, 0.0, 0.0], [0.0] * 11 + [1.0]])
    assert argmax(scores, "window", ()).tolist() == [0, 11]
    scores[0, 10] = 0.1
    assert argmax(scores, "window", ()).tolist() == [9, 11]


@pytest.fixture
def exporting(monkeypatch: pytest.MonkeyPatch) -> None:
    """As inside an exporter, which may leave every size open."""
    monkeypatch.setattr(torch.compiler, "is_dynamo_compiling", lambda: True)
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True, raising=False)


def open_size(size: int) -> int:
    """A size as an exporter that leaves it open sees it."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=False)
    found = mode.from_tensor(torch.empty(size, 0)).shape[0]
    assert isinstance(found, torch.SymInt)
    return found


@pytest.mark.usefixtures("exporting")
@pytest.mark.parametrize("shape", CASES, ids=str)
def test_open_schedules_find_the_same_order(shape: tuple[int, ...]) -> None:
    """The spare merges of an exported program change nothing, at sizes far below those they are there for."""
    assert merging_schedule(shape[2:]) == (2, [ties._SYMBOLIC_DOUBLINGS[len(shape) - 2]] * (len(shape) - 2))
    x, other = few_levels(*shape), few_levels(*shape)
    index, tied = torch.full((shape[0],), -7), torch.ones(shape[0], dtype=torch.bool)
    found = ties._resolve_traced(tied, index, x.amax(1), x, other)
    assert found.tolist() == choices(x.amax(1), [x, other])


def test_a_dynamic_graph_serves_sizes_it_never_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    """The length of a signal left open: the graph ranks signals of other lengths as the definition does."""
    monkeypatch.setitem(ties._SYMBOLIC_DOUBLINGS, 1, 4)  # enough for 16 samples, and fast

    def rank(scores: Tensor, maps: Tensor) -> Tensor:
        return aligned_rank(scores, [maps])

    graph = make_fx(rank, tracing_mode="symbolic")(few_levels(2, 5), few_levels(2, 2, 5))
    for size in (2, 9, 16):
        x = few_levels(3, 2, size)
        assert graph(x.amax(1), x).tolist() == [ranks(s, [m]) for s, m in zip(x.amax(1), x)]


@pytest.mark.filterwarnings("ignore")
def test_traced_ties_are_decided_alike() -> None:
    """In a graph the exact rule is a branch, taken where a batch has a tie."""
    traced = torch.compile(select_pivot, backend="eager", fullgraph=True)
    for x in (torch.rand(3, 2, 4, 6), (torch.rand(3, 2, 4, 6) * 2).round()):
        aligned = circular_shift(x, -traced(x))
        assert torch.equal(aligned, circular_shift(x, -select_pivot(x)))
    torch.compiler.reset()


def test_the_branch_is_taken_where_one_sample_is_tied(monkeypatch: pytest.MonkeyPatch) -> None:
    """One tie in the batch and the ranking runs; none and it does not, and the positions come back as they were."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    taken = []

    def cond(condition: Tensor, yes: Any, no: Any, operands: Any) -> Any:
        taken.append(bool(condition))
        return (yes if condition else no)(*operands)

    monkeypatch.setattr(torch, "cond", cond)
    scores, x, expected = mixed_batch()
    index = torch.tensor([51, 200, 201, 0, 202])
    for tied in ([False, True, False, False, False], [True] * 5):
        found = ties._resolve_traced(torch.tensor(tied), index, scores, x)
        assert found.tolist() == [e if t else int(i) for e, t, i in zip(expected, tied, index)]
    unchanged = ties._resolve_traced(torch.zeros(5, dtype=torch.bool), index, scores, x)
    assert torch.equal(unchanged, index)
    assert unchanged.data_ptr() != index.data_ptr()  # what a branch returns may share no memory with what it was given
    assert taken == [True, True, False]


def test_traced_code_does_not_look_at_data() -> None:
    """Under vmap, where nothing can be read, the traced way is taken, and gives the same."""
    x = few_levels(4, 2, 1, 3, 4)
    found = torch.func.vmap(lambda t: argmax(t.amax(1), "exact", (t,)))(x)
    assert found[:, 0].tolist() == [choices(t.amax(1), [t])[0] for t in x]


def test_dense_rank() -> None:
    values = torch.tensor([[3.0, 1.0, 3.0, torch.nan, -torch.inf, torch.nan]])
    assert dense_rank(values).tolist() == [[2, 1, 2, 3, 0, 3]]
    assert dense_rank(torch.tensor([[5, 5, 2]])).tolist() == [[1, 1, 0]]


def test_dense_rank_row_by_row() -> None:
    """Of every dtype, in rows of any number of axes, of one entry too; infinity is less than NaN, zeros are equal."""
    values = torch.tensor([[[4, 4, 4], [1, 2, 3]], [[3, 1, 2], [0, -1, 0]]])
    expected = [[[0, 0, 0], [0, 1, 2]], [[2, 0, 1], [1, 0, 1]]]
    for dtype in (torch.int64, torch.int8, torch.float32, torch.float64, torch.bfloat16):
        found = dense_rank(values.to(dtype))
        assert found.tolist() == expected
        assert found.dtype == torch.int64
    assert dense_rank(torch.tensor([[7.0], [torch.nan]])).tolist() == [[0], [0]]
    assert dense_rank(torch.tensor([torch.nan, torch.inf, 0.0, -0.0, torch.nan])).tolist() == [2, 1, 0, 0, 2]
    assert dense_rank(torch.tensor([False, True, False])).tolist() == [0, 1, 0]


@pytest.mark.parametrize("base", [2, 3, 4, 15])
@pytest.mark.parametrize("pixels", [1, 2, 3, 8, 16])
def test_merged_ranks_are_in_lexicographic_order(base: int, pixels: int) -> None:
    """The first rank weighs most, also where all of them are as large as they can be."""
    rank = torch.randint(0, pixels, (6, base, pixels))
    rank[0] = pixels - 1
    rank[1, :, 0], rank[1, :, -1] = pixels - 1, 0
    rank[2] = 0
    rank[2, -1, -1] = pixels - 1
    for _ in range(2):
        words = [[tuple(word) for word in sample.T.tolist()] for sample in rank]
        expected = [[sorted(set(sample)).index(word) for word in sample] for sample in words]
        assert ties._merge(rank, 1, base).tolist() == expected
        assert ties._merge(rank[:, None].expand(-1, 2, -1, -1), 2, base).tolist() == [[e, e] for e in expected]
        rank = rank.flip(1)


@pytest.mark.parametrize(
    ("sizes", "base", "counts"),
    [
        ((1,), 16, [0]),
        ((8,), 16, [1]),
        ((16,), 15, [2]),
        ((15,), 15, [1]),
        ((17,), 12, [2]),
        ((32, 32), 6, [2, 2]),
        ((5, 1), 16, [1, 0]),
        ((224, 224), 3, [5, 5]),
        ((1024, 1024), 3, [7, 7]),
        ((2**10, 2**11), 2, [10, 11]),
        ((2**16, 2**17), 2, [16, 17]),
        ((9, 10, 11), 6, [2, 2, 2]),
    ],
    ids=str,
)
def test_schedules(sizes: tuple[int, ...], base: int, counts: list[int]) -> None:
    """As many ranks as fit into an int64 as the digits of one number, at most 16, and no merge too many."""
    assert merging_schedule(sizes) == (base, counts)
    bits = max(1, (math.prod(sizes) - 1).bit_length())
    assert base == 2 or base * bits <= 62
    assert base == 16 or (base + 1) * bits > 62
    assert all(base**count >= size > base ** (count - 1) for count, size in zip(counts, sizes) if size > 1)


def test_bits_number_that_many_things() -> None:
    assert [ties._bits(n) for n in (1, 2, 3, 4, 5, 8, 9, 1024, 1025)] == [1, 1, 2, 2, 3, 3, 4, 10, 11]


def test_one_open_size_leaves_no_room_for_more_than_pairs() -> None:
    """How many pixels there are is not known then; a size that is known still needs only its own merges."""
    assert merging_schedule((7, open_size(9))) == (2, [3, 16])
    assert merging_schedule((open_size(3),)) == (2, [32])
    assert merging_schedule((4, 4, open_size(9), 5)) == (2, [2, 2, 12, 3])


@pytest.mark.parametrize(("ndim", "largest"), [(3, 2**12), (2, 2**16)])
def test_open_sizes_have_a_limit(ndim: int, largest: int) -> None:
    """The merges of a graph are counted when it is made; what they cannot reach is refused by name."""
    assert 2 ** ties._merges(open_size(largest), 2, ndim) == largest
    with pytest.raises(
        RuntimeError, match=f"GHS exported with dynamic sizes takes at most {largest} pixels on an axis"
    ):
        ties._merges(open_size(largest + 1), 2, ndim)


@pytest.mark.parametrize(("compiling", "exports"), [(False, False), (False, True), (True, False), (True, True)])
def test_sizes_are_open_inside_an_exporter_only(
    compiling: bool, exports: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.compiler, "is_dynamo_compiling", lambda: compiling)
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: exports, raising=False)
    assert ties._is_open(5) is (compiling and exports)
    assert ties._is_open(open_size(5))
    monkeypatch.delattr(torch.compiler, "is_exporting")  # torch 2.4 has none
    assert not ties._is_open(5)


def test_window_rule_stays_with_the_maxima() -> None:
    """Infinities of both signs in a window have no sum, but the pivot is still a maximum."""
    x = torch.zeros(1, 1, 9, 9)
    x[0, 0, 4, 4] = x[0, 0, 4, 6] = torch.inf
    x[0, 0, 4, 5] = -torch.inf
    row, column = select_pivot(x, ties="window")[0].tolist()
    assert x[0, 0, row, column] == torch.inf


def test_a_sum_that_is_none_loses_against_one_that_is() -> None:
    """Infinities of both signs around the first maximum, of one sign around the second."""
    x = torch.zeros(1, 12)
    x[0, 2] = x[0, 8] = torch.inf
    x[0, 3] = -torch.inf
    assert argmax(x, "window", ()).tolist() == [8]
    x[0, 8] = x[0, 3] = 0.0
    assert argmax(x, "window", ()).tolist() == [2]
    x[0, 2] = x[0, 8] = 2e38
    x[0, 9] = 1.9e38  # together beyond the range of float32
    assert argmax(x, "window", ()).tolist() == [8]


def test_a_sum_that_overflows() -> None:
    """It is above every number, and against a smaller sum it loses only if an infinity makes it none."""
    most = torch.finfo(torch.float32).max
    x = torch.zeros(1, 14)
    x[0, 2] = x[0, 8] = most
    x[0, 9] = 1e38
    assert argmax(x, "window", ()).tolist() == [8]
    x[0, 9] = 0.0
    x[0, 2:4], x[0, 1], x[0, 4] = most, -torch.inf, -torch.inf
    x[0, 7] = x[0, 9] = -0.9 * most
    assert argmax(x, "window", ()).tolist() == [8]


def test_window_rule_prefers_the_larger_neighbourhood() -> None:
    """The paper's suggestion: of two equal maxima, the one with the larger 3 x 3, then 5 x 5 sum."""
    x = torch.zeros(1, 1, 9, 9)
    x[0, 0, 1, 1] = x[0, 0, 5, 5] = 1.0
    x[0, 0, 6, 6] = 0.5
    assert select_pivot(x, ties="window").tolist() == [[5, 5]]
    x[0, 0, 6, 6], x[0, 0, 7, 7] = 0.0, 0.5
    assert select_pivot(x, ties="window").tolist() == [[5, 5]]


def window_oracle(scores: Tensor) -> int:
    """The first maximum of those with the largest 5^n sum, among those with the largest 3^n sum."""
    sizes = tuple(scores.shape)
    left = [place for place in all_shifts(sizes) if scores[place] == scores.max()]
    for radius in (1, 2):
        steps = list(itertools.product(range(-radius, radius + 1), repeat=len(sizes)))
        sums = {
            place: sum(float(scores[tuple((p + s) % n for p, s, n in zip(place, step, sizes))]) for step in steps)
            for place in left
        }
        left = [place for place in left if sums[place] == max(sums.values())]
    return list(all_shifts(sizes)).index(left[0])


def test_window_rule_is_the_brute_force_oracle() -> None:
    """On maps of few whole numbers, whose sums do not round: several samples, oblong and lopsided ones too."""
    x = torch.randint(0, 3, (300, 2, 5, 7)).float()
    x[:100, :, :, 3:] = 0
    found = select_pivot(x, ties="window")
    expected = [window_oracle(sample.amax(0)) for sample in x]
    assert (found[:, 0] * 7 + found[:, 1]).tolist() == expected
    half = select_pivot(x.half() * 1000, ties="window")  # whose sums are beyond the range of float16
    assert torch.equal(half, found)


@pytest.mark.parametrize("sizes", [(9,), (2, 3), (3, 4, 4)])
def test_window_rule_in_every_dimension(sizes: tuple[int, ...]) -> None:
    """Signals, volumes, and maps smaller than the window, whose pixels count as often as it meets them."""
    scores = torch.randint(0, 3, (60, *sizes)).float()
    assert argmax(scores, "window", ()).tolist() == [window_oracle(sample) for sample in scores]


def test_window_rule_cannot_decide_every_case() -> None:
    """Equal neighbourhoods, different maps: the window takes the first in memory and the law breaks."""
    x = torch.zeros(1, 1, 1, 16)
    x[..., 0] = x[..., 8] = 1.0
    x[..., 3] = 0.5
    aligned = [
        circular_shift(m, -select_pivot(m, ties="window")) for m in (circular_shift(x, (0, s)) for s in range(16))
    ]
    assert not all(torch.equal(a, aligned[0]) for a in aligned)


def test_nan_in_a_companion_is_above_infinity() -> None:
    """The cheap comparisons and the complete one are the same order."""
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        choices = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, 1.0])
        x, companion = torch.zeros(2, 1, 2, 6), choices[torch.randint(5, (2, 2, 2, 6), generator=generator)]
        cheap = find_pivot(x, companion)
        complete = aligned_rank(x[:, 0], [x, companion]).argmax(1)
        for sample, (row, column), place in zip(companion, cheap.tolist(), complete.tolist()):
            expected = sample.roll((-(place // 6), -(place % 6)), (1, 2))
            assert torch.equal(sample.roll((-row, -column), (1, 2)).nan_to_num(7.0), expected.nan_to_num(7.0))


def test_the_default_device_does_not_matter_to_ties() -> None:
    x = torch.randn(2, 3, 8, 8).round()
    expected = find_pivot(x)
    with torch.device("meta"):
        assert torch.equal(find_pivot(x), expected)


def test_samples_without_a_pivot_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are tied, and it would take long for nothing."""
    monkeypatch.setattr(ties, "aligned_rank", None)
    monkeypatch.setattr(ties, "_eliminate", None)
    x = torch.full((2, 3, 64, 64), torch.nan)
    for rule in ("max", "phase", "patch"):
        assert find_pivot(x, rule=rule, counts=(32, 32)).eq(-1).all()
