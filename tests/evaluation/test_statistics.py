"""Estimates have the right intervals."""

import base64
import math
import zlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shiftproof.evaluation.statistics import hits, mean, pack, proportion, unpack


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_against_newcombe(successes: int, n: int, low: float, high: float) -> None:
    """The four examples of Newcombe (1998), method 3; and the mirror images."""
    estimate = proportion(successes / n, n)
    assert (round(estimate.low, 4), round(estimate.high, 4)) == (low, high)
    mirrored = proportion(1 - successes / n, n)
    assert mirrored.low == pytest.approx(1 - estimate.high)
    assert mirrored.high == pytest.approx(1 - estimate.low)


def test_shares() -> None:
    """The interval stays inside [0, 1], holds the value, and shrinks with n."""
    for k in range(11):
        few, many = proportion(k / 10, 10), proportion(k / 10, 1000)
        assert 0 <= few.low <= few.value <= few.high <= 1
        assert many.high - many.low < few.high - few.low
    assert hits(torch.tensor([True, False, True, True])).to_dict() == proportion(0.75, 4).to_dict()
    with pytest.raises(ValueError, match="at least 1"):
        hits(torch.zeros(0, dtype=torch.bool))


def test_means() -> None:
    """For many observations the interval is that of the normal distribution; equal for equal seeds only."""
    values = torch.randn(2000, dtype=torch.float64)
    estimate = mean(values)
    reach = 1.96 * float(values.std()) / math.sqrt(2000)
    assert estimate.high - estimate.value == pytest.approx(reach, rel=0.1)
    assert estimate.value - estimate.low == pytest.approx(reach, rel=0.1)
    assert estimate == mean(values)
    assert estimate != mean(values, seed=1)
    assert mean(torch.ones(3)).to_dict() == {"value": 1.0, "low": 1.0, "high": 1.0, "n": 3}
    with pytest.raises(ValueError, match="at least one observation"):
        mean(torch.zeros(0))


@given(st.lists(st.integers(0, 300), max_size=50))
def test_packed_answers_come_back(values: list[int]) -> None:
    numbers = torch.tensor(values, dtype=torch.int64)
    assert torch.equal(unpack(pack(numbers)), numbers)


def test_packed_answers_take_little_room() -> None:
    """Ten thousand of them: whether each is right in two kilobytes, each class in six."""
    generator = torch.Generator().manual_seed(0)
    assert len(pack(torch.rand(10_000, generator=generator) < 0.9)) < 2_000
    assert len(pack(torch.randint(10, (10_000,), generator=generator))) < 7_000


def test_answers_that_are_too_many_are_refused() -> None:
    """A text must not unpack to more than it says, nor say more than fits."""
    with pytest.raises(ValueError, match="too many"):
        unpack(f"{2**40}:1:eNpbAAAAoQCh")
    bomb = base64.b64encode(zlib.compress(b"x" * 2**20)).decode()
    assert len(unpack(f"8:1:{bomb}")) == 8


def test_answers_are_kept_on_request() -> None:
    right = torch.tensor([True, False, True, True])
    assert "right" not in hits(right).to_dict()
    kept = hits(right, keep=True).to_dict()
    assert torch.equal(unpack(kept.pop("right")).bool(), right)
    assert kept == hits(right).to_dict()
