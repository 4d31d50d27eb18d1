"""Whether one method is ahead of another: tests over seeds and over images, and a verdict of four words.

Values are percentages and differences are points, ours minus theirs. Seeds that both methods have are paired, because
runs of a seed share the initial weights and the order of images. Where the answers to every image are stored, a verdict
must also hold over the images.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from shiftproof.evaluation.statistics import unpack

LEVEL = 0.05
MARGIN = 0.5  # points: two methods that differ by less are equivalent in practice
AHEAD, EQUIVALENT, UNDECIDED, BEHIND = VERDICTS = ("ahead", "equivalent", "undecided", "behind")
RULE = (
    f"Ahead or behind: the difference is significant at {LEVEL:.0%} after Holm's correction over the rows of the "
    f"column. Equivalent: two one-sided tests at {LEVEL:.0%} place it within {MARGIN} points. Undecided: neither. "
    "Methods that share at least two seeds are compared by a paired t-test, others with at least two seeds by Welch's "
    "test. A single seed each (n=1) compares two networks, not two methods: by McNemar's test, or by the intervals of "
    "both where no answers are stored. Where they are, the verdict must also hold for a bootstrap over images and "
    "seeds together. In brackets: ours minus the other, in points, and n."
)
_RESAMPLES = 2000
_FEWEST_RANKED = 6  # with fewer pairs the signed-rank test cannot reach 5 %

Answers = npt.NDArray[np.bool_]  # whether a network is right, per image


class Seeded(Protocol):
    """One value per seed."""

    @property
    def values(self) -> tuple[float, ...]: ...  # noqa: D102

    @property
    def seeds(self) -> tuple[int, ...]: ...  # noqa: D102


@dataclass(frozen=True)
class Test:
    """A difference with its 95 % interval, the p-value of no difference, and that of one beyond the margin.

    `n`: pairs of seeds, or the smaller number of seeds; 1 if two networks were compared. `p_ranks`: of the signed-rank
    test, for paired seeds. `images`: the interval of the bootstrap over images and seeds together.
    """

    __test__ = False  # pytest, this is not one of yours

    name: str
    n: int
    difference: float
    low: float
    high: float
    p: float
    p_equivalent: float
    p_ranks: float | None = None
    images: tuple[float, float] | None = None

    def verdict(self, p: float | None = None) -> str:
        """One of `VERDICTS`; `p` is the p-value after a correction."""
        low, high = self.images or (self.difference, self.difference)
        if (self.p if p is None else p) < LEVEL and low * high > 0:
            return AHEAD if self.difference > 0 else BEHIND
        return EQUIVALENT if self.p_equivalent < LEVEL and max(-low, high) < MARGIN else UNDECIDED


@dataclass(frozen=True)
class Comparison:
    """A row of a table against another one, in one column."""

    subject: str
    other: str
    column: str
    test: Test
    p: float  # after Holm's correction
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: a number that is not finite is None."""
        test = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self.test).items()}
        named = {k: getattr(self, k) for k in ("subject", "other", "column", "verdict")}
        return named | test | {"test": test.pop("name"), "p_corrected": self.p}

    def text(self) -> str:
        """All of it in a line."""
        t = self.test
        ranks = "" if t.p_ranks is None else f", signed ranks {_p(t.p_ranks)}"
        images = "" if t.images is None else f", over images and seeds {t.images[0]:+.2f} to {t.images[1]:+.2f}"
        interval = f"95 % {t.low:+.2f} to {t.high:+.2f}" if math.isfinite(t.low) else "no interval"
        return (
            f"{self.subject} minus {self.other}: {t.difference:+.2f} points, {interval}{images}; {t.name}, n={t.n}, "
            f"p={_p(t.p)}, corrected {_p(self.p)}{ranks}, equivalence p={_p(t.p_equivalent)}: {self.verdict}"
        )


def answers(packed: str) -> Answers:
    """Whether a network is right, per image, from how a record stores it."""
    return unpack(packed).numpy().astype(bool)


def paired(a: Seeded, b: Seeded) -> list[float]:
    """The differences a - b of the seeds that both have."""
    theirs = dict(zip(b.seeds, b.values))
    return [value - theirs[seed] for seed, value in zip(a.seeds, a.values) if seed in theirs]


def half_interval(differences: Sequence[float]) -> float:
    """Half the 95 % interval of the mean of paired differences, by Student's t; infinite for fewer than two."""
    from scipy import stats

    n = len(differences)
    if n < 2:
        return math.inf
    return float(stats.t.ppf(1 - LEVEL / 2, n - 1)) * statistics.stdev(differences) / math.sqrt(n)


def paired_t(differences: Sequence[float]) -> Test:
    """Student's test of paired differences, at least two; from six on with the signed-rank test of Wilcoxon beside."""
    from scipy import stats

    n = len(differences)
    ranked = n >= _FEWEST_RANKED and any(differences)
    ranks = float(stats.wilcoxon(differences).pvalue) if ranked else None
    error = statistics.stdev(differences) / math.sqrt(n)
    return _student("paired t", n, statistics.fmean(differences), error, n - 1, ranks)


def welch(a: Sequence[float], b: Sequence[float]) -> Test:
    """Welch's test of two independent samples of at least two."""
    squares = [statistics.variance(values) / len(values) for values in (a, b)]
    below = sum(s * s / (len(values) - 1) for s, values in zip(squares, (a, b)))
    freedom = sum(squares) ** 2 / below if below else math.inf
    n, difference = min(len(a), len(b)), statistics.fmean(a) - statistics.fmean(b)
    return _student("Welch", n, difference, math.sqrt(sum(squares)), freedom)


def from_margins(difference: float, margins: tuple[float, float]) -> Test:
    """Two networks by half their 95 % intervals, as if measured on different images: wider than the truth."""
    from scipy import stats

    error = math.hypot(*margins) / float(stats.norm.ppf(1 - LEVEL / 2))
    return _student("intervals", 1, difference, error, math.inf)


def mcnemar(a: Answers, b: Answers) -> Test:
    """Two networks on the same images: McNemar's exact test of those that one gets right and the other wrong."""
    from scipy import stats

    wins, losses, count = int((a & ~b).sum()), int((b & ~a).sum()), len(a)
    share = (wins - losses) / count
    error = math.sqrt(((wins + losses) / count - share * share) / count)
    found = _student("McNemar", 1, 100 * share, 100 * error, math.inf)
    p = float(stats.binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
    return Test(**asdict(found) | {"p": p})


def bootstrap(differences: npt.NDArray[np.floating[Any]], seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of the mean of differences (seeds, images), both resampled together.

    Images that have the same differences for all seeds are drawn as one.
    """
    seeds, images = differences.shape
    generator = np.random.default_rng(seed)
    patterns, counts = np.unique(differences, axis=1, return_counts=True)  # (seeds, K), (K,)
    drawn = generator.multinomial(images, counts / images, _RESAMPLES) / images
    chosen = generator.multinomial(seeds, [1 / seeds] * seeds, _RESAMPLES) / seeds
    low, high = np.quantile(((drawn @ patterns.T) * chosen).sum(1), [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values after Holm's correction, each in its place.

    >>> holm([0.03, 0.01, 0.04])
    [0.06, 0.03, 0.06]
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    out, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[i]))
        out[i] = largest
    return out


def _student(name: str, n: int, difference: float, error: float, freedom: float, p_ranks: float | None = None) -> Test:
    """The test of a difference with a standard error, by Student's t; by the normal for infinite degrees of freedom.

    Without an error nothing but an equal result can be judged: that two seeds differ by the same amount is chance.
    """
    from scipy import stats

    if not error:
        p, outside = (1.0, 0.0) if not difference else (1.0, 1.0)
        reach = 0.0 if not difference else math.inf
        return Test(name, n, difference, difference - reach, difference + reach, p, outside, p_ranks)
    t = stats.t(freedom, scale=error)
    reach = float(t.ppf(1 - LEVEL / 2))
    p = float(2 * t.sf(abs(difference)))
    outside = float(t.sf(MARGIN - abs(difference)))  # the larger of the two one-sided ones
    return Test(name, n, difference, difference - reach, difference + reach, p, outside, p_ranks)


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 0.001 else "below 0.001"
