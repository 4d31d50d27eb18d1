"""Tests of significance: compared with scipy's own, and with what must come out whatever the data."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from shiftproof.evaluation.statistics import pack
from shiftproof.experiments import significance
from shiftproof.experiments.significance import MARGIN, Comparison
from shiftproof.reports.table import Cell

A, B = [60.0, 61.5, 59.0, 62.5], [61.0, 61.0, 60.5, 66.0]
NEAR, FAR = [0.1, -0.1, 0.05, -0.02], [2.1, 1.9, 2.05, 2.0]
P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def coin(share: float, count: int, seed: int) -> significance.Answers:
    return np.random.default_rng(seed).random(count) < share


def test_the_paired_test_is_that_of_scipy() -> None:
    differences = [a - b for a, b in zip(A, B)]
    found, expected = significance.paired_t(differences), stats.ttest_rel(A, B)
    interval = expected.confidence_interval()
    assert (found.p, found.low, found.high) == pytest.approx((expected.pvalue, interval.low, interval.high))
    assert found.n == 4
    assert found.p_ranks is None
    assert significance.half_interval(differences) == pytest.approx((interval.high - interval.low) / 2)
    six = [1.0, 2.0, 3.0, 4.0, 5.0, -0.5]
    assert significance.paired_t(six).p_ranks == pytest.approx(stats.wilcoxon(six).pvalue)


def test_welch_is_that_of_scipy() -> None:
    found, expected = significance.welch(A, B[:3]), stats.ttest_ind(A, B[:3], equal_var=False)
    interval = expected.confidence_interval()
    assert (found.p, found.low, found.high) == pytest.approx((expected.pvalue, interval.low, interval.high))
    assert found.n == 3


def test_equivalence_is_the_larger_of_two_one_sided_tests() -> None:
    for d in (NEAR, FAR, [0.4, 0.6, 0.2, 0.5]):
        above = stats.ttest_1samp(d, -MARGIN, alternative="greater").pvalue
        below = stats.ttest_1samp(d, MARGIN, alternative="less").pvalue
        assert significance.paired_t(d).p_equivalent == pytest.approx(max(above, below))


def test_differences_are_paired_by_seed() -> None:
    a, b = Cell(values=(3.0, 5.0, 9.0), seeds=(0, 1, 3)), Cell(values=(1.0, 2.0, 7.0), seeds=(0, 2, 3))
    assert significance.paired(a, b) == [2.0, 2.0]
    assert significance.half_interval([1.0]) == math.inf
    # t(0.975; 3) = 3.182, by any table
    assert significance.half_interval([1.0, 2.0, 3.0, 4.0]) == pytest.approx(3.182 * math.sqrt(5 / 3) / 2, rel=1e-3)


def test_the_four_verdicts() -> None:
    """A difference of chance is none; a correction can take a verdict away; equal results are equivalent."""
    far = significance.paired_t(FAR)
    assert far.verdict() == "ahead"
    assert far.verdict(p=0.06) == "undecided"
    assert significance.paired_t([-d for d in FAR]).verdict() == "behind"
    assert significance.paired_t(NEAR).verdict() == "equivalent"
    assert significance.paired_t([3.0, -2.0]).verdict() == "undecided"
    assert significance.paired_t([0.0, 0.0]).verdict() == "equivalent"
    assert significance.paired_t([-0.4, -0.4]).verdict() == "undecided"  # that two seeds agree to a digit is chance
    assert significance.from_margins(3.0, (1.0, 1.0)).verdict() == "ahead"
    assert significance.from_margins(1.3, (1.0, 1.0)).verdict() == "undecided"


@given(P_VALUES)
def test_holm_refuses_what_step_by_step_is_refused(p_values: list[float]) -> None:
    """From the smallest on, each is compared with the level over what is left; the first refusal refuses the rest."""
    left, accepted = sorted(p_values), []
    while left and left[0] * len(left) < 0.05:
        accepted.append(left.pop(0))
    corrected = significance.holm(p_values)
    assert sorted(p for p, c in zip(p_values, corrected) if c < 0.05) == accepted
    assert all(c >= p for p, c in zip(p_values, corrected))


def test_mcnemar_counts_the_images_that_one_network_alone_gets_right() -> None:
    a, b = np.ones(100, bool), np.ones(100, bool)
    b[:12] = False
    a[12:14] = False
    found = significance.mcnemar(a, b)
    assert found.difference == pytest.approx(10.0)
    assert found.p == pytest.approx(stats.binomtest(12, 14).pvalue)
    assert significance.mcnemar(a, a).p == 1.0
    assert significance.mcnemar(a, a).verdict() == "equivalent"


def test_the_interval_over_images_and_seeds_covers_the_truth() -> None:
    """Three seeds whose means wander, on images of which some are harder: nineteen times in twenty, or more often."""
    covered, generator = 0, np.random.default_rng(0)
    for draw in range(100):
        images, seeds = generator.normal(0, 1, (1, 60)), generator.normal(0, 0.05, (3, 1))
        low, high = significance.bootstrap(images + seeds + generator.normal(0, 1, (3, 60)), draw)
        covered += low < 0 < high
    assert covered >= 90  # 95 expected at least; fewer than 90 once in a hundred
    alone = significance.bootstrap(100 * (coin(0.5, 10_000, 1).astype(float) - 0.5)[None])
    assert alone[1] - alone[0] == pytest.approx(2 * 1.96 * 50 / 100, rel=0.1)  # of one seed: of the images alone


def test_a_verdict_must_hold_over_images_too() -> None:
    """Two seeds that agree by chance do not make up for few images."""
    far = significance.paired_t(FAR)
    assert significance.Test(**vars(far) | {"images": (-0.1, 4.0)}).verdict() == "undecided"
    assert significance.Test(**vars(far) | {"images": (0.5, 4.0)}).verdict() == "ahead"
    near = significance.paired_t(NEAR)
    assert significance.Test(**vars(near) | {"images": (-0.6, 0.2)}).verdict() == "undecided"


def test_a_comparison_is_text_and_json() -> None:
    test = significance.paired_t(FAR)
    found = Comparison("GHS", "LPF-3", "accuracy, %", test, 0.04, "ahead")
    assert found.text().startswith("GHS minus LPF-3: +2.01 points, 95 % +1.88 to +2.15; paired t, n=4, p=below 0.001")
    assert found.text().endswith(": ahead")
    tree = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (tree["verdict"], tree["n"], tree["test"], tree["p_corrected"]) == ("ahead", 4, "paired t", 0.04)
    odd = Comparison("a", "b", "c", significance.paired_t([0.5, 0.5]), 1.0, "undecided")
    assert odd.to_dict()["low"] is None
    assert "no interval" in odd.text()


def test_answers_come_from_records() -> None:
    import torch

    assert significance.answers(pack(torch.tensor([True, False, True]))).tolist() == [True, False, True]
