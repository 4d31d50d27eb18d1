"""The score of patches: whole numbers that move with the map, and that few patches share."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from shiftproof.ghs import backend
from shiftproof.ghs.pivots import score_patch, select_pivot
from shiftproof.invariance import same_bits


def picture(batch: int, height: int, width: int) -> Tensor:
    """8-bit pictures with a saturated sky."""
    x = (torch.rand(batch, 3, height, width) * 255).round()
    x[:, :, : height // 3] = 255
    return x / 255


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_patches_are_told_apart_by_whole_numbers(dtype: torch.dtype) -> None:
    """Equal patches have equal scores, flat ones 0, the least; few patches of a photograph share the largest one."""
    x = picture(8, 60, 70).to(dtype)
    scores = score_patch(x)
    assert torch.equal(scores, scores.round())
    assert float(scores.min()) >= 0
    assert float(scores.max()) < 2**24
    assert not scores[:, 4:18].any()  # the sky
    assert ((scores == scores.amax((1, 2), keepdim=True)).sum((1, 2)) == 1).all()
    for shift in ((1, 0), (17, 33)):
        assert same_bits(score_patch(x.roll(shift, (2, 3))), scores.roll(shift, (1, 2)))
    one_hot = nn.functional.one_hot(torch.randint(5, (2, 9, 9))).movedim(-1, 1).to(dtype)
    assert len(set(score_patch(one_hot).flatten().tolist())) > 100  # all channels count, not only the largest


def test_the_patch_score_is_its_formula() -> None:
    """Written out for one pixel after the other, in Python's whole numbers."""
    x = torch.randn(2, 3, 4, 5)
    scores = score_patch(x)
    weights = {(0, 0): 4093, (0, 1): -7919, (1, 0): 6101, (2, 1): -2275}
    assert sum(weights.values()) == 0
    for b, sample in enumerate(x):
        steps = (sample * (256 / sample.abs().max())).round().int().tolist()
        for i, j in itertools.product(range(4), range(5)):
            total = 0
            for (di, dj), weight in weights.items():
                pixel = sum(steps[c][(i + di) % 4][(j + dj) % 5] * (1618 * (c + 1) % 4096) for c in range(3))
                total += pixel % 2**13 * weight
            assert scores[b, i, j] == total % 2**24


@pytest.mark.parametrize("shape", [(2, 3, 5, 6), (1, 2, 7), (2, 1, 3, 4, 5)])
def test_patches_in_other_dimensions_and_of_extreme_values(shape: tuple[int, ...]) -> None:
    """Of a signal and a volume too; infinities are more than any number, NaN makes its sample NaN."""
    x = torch.randn(shape)
    dims = tuple(range(2, x.dim()))
    shift = (2, 1, 3)[: len(dims)]
    assert same_bits(score_patch(x.roll(shift, dims)), score_patch(x).roll(shift, tuple(d - 1 for d in dims)))
    assert same_bits(score_patch(x * 2.0**-80), score_patch(x))
    huge = torch.where(x > 1, torch.inf, x)
    assert same_bits(score_patch(huge.roll(shift, dims)), score_patch(huge).roll(shift, tuple(d - 1 for d in dims)))
    assert score_patch(huge).any()
    assert score_patch(-torch.full_like(x, torch.inf)).count_nonzero() == 0
    x[0, 0].flatten()[1] = torch.nan
    assert score_patch(x)[0].isnan().all()
    assert not score_patch(x)[1:].isnan().any()
    kept = x.clone()
    score_patch(x)
    assert same_bits(x, kept)


def test_the_score_is_made_on_the_device_of_the_maps() -> None:
    assert score_patch(torch.zeros(2, 3, 5, 4, device="meta")).is_meta


def test_compiled_search_finds_the_same_patches() -> None:
    """Through C where there is one; tied samples and those with NaN are searched again."""
    x = picture(5, 9, 8)
    x[1] = 0.5
    x[2, :, ::3] = x[2, :, :1]
    x[3, 0, 0, 0] = torch.nan
    assert torch.equal(backend.find(x, "patch", "exact", (), None), select_pivot(x, "patch"))


def test_infinities_where_the_smallest_numbers_count_as_zero() -> None:
    """The largest value has an inverse that is a normal number, so C and torch agree there too."""
    torch.set_flush_denormal(True)
    try:
        for seed in range(50):
            x = torch.randn(1, 1, 4, 5, generator=torch.Generator().manual_seed(seed))
            x[0, 0, 1, 1] = torch.inf
            assert torch.equal(backend.find(x, "patch", "exact", (), None), select_pivot(x, "patch"))
    finally:
        torch.set_flush_denormal(False)
