import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.errors import InputError
from evenstream.statistics import (
    Sample,
    difference_of_means,
    mean_interval,
    mean_std,
    paired_by_seed,
    paired_difference,
)

values = st.lists(st.floats(-100, 100), min_size=2, max_size=12)


def test_mean_std_is_the_sample_deviation():
    mean, std = mean_std([2, 4, 4, 4, 5, 5, 7, 9])
    assert mean == 5
    assert std == pytest.approx(math.sqrt(32 / 7))


def test_only_common_seeds_are_paired():
    found = paired_by_seed({3: 11, 1: 22, 9: 0, 2: 33}, {1: 20, 2: 30, 3: 10, 4: 7})
    assert found == paired_difference([11, 22, 33], [10, 20, 30])
    assert paired_by_seed({1: 1.0}, {2: 1.0}) is None
    assert -found == paired_difference([10, 20, 30], [11, 22, 33])
    one = paired_by_seed({1: 5.0}, {1: 3.0})
    assert ((-one).mean, (-one).low) == (-2, None)


def test_one_value_has_no_deviation():
    assert mean_std([3.5]) == (3.5, None)


def test_equal_values_have_no_spread():
    assert mean_std([0.1] * 3)[1] == 0


def test_worked_interval():
    # Differences 1, 2, 3: mean 2, deviation 1, t(0.975, 2) = 4.302653.
    result = paired_difference([11, 22, 33], [10, 20, 30])
    assert result.mean == pytest.approx(2)
    assert result.std == pytest.approx(1)
    assert result.n == 3
    assert result.high - result.mean == pytest.approx(4.302653 / math.sqrt(3), abs=1e-5)
    assert result.mean - result.low == pytest.approx(4.302653 / math.sqrt(3), abs=1e-5)
    assert not result.excludes_zero


def test_pairing_finds_what_separate_means_cannot():
    hard_and_easy = np.array([10.0, 50.0, 90.0])
    better = hard_and_easy + np.array([1.0, 1.1, 0.9])
    result = paired_difference(better.tolist(), hard_and_easy.tolist())
    assert result.excludes_zero


def test_one_pair_has_no_interval():
    result = paired_difference([3], [1])
    assert (result.mean, result.low, result.high, result.std, result.n) == (2, None, None, None, 1)
    assert not result.excludes_zero
    assert result.as_dict() == {"mean": 2, "low": None, "high": None, "n": 1, "std": None}


@given(values, st.randoms(use_true_random=False))
def test_symmetry_and_permutation(a, random):
    b = [x / 2 + 1 for x in a]
    there, back = paired_difference(a, b), paired_difference(b, a)
    assert there.mean == pytest.approx(-back.mean)
    assert there.low == pytest.approx(-back.high)
    order = list(range(len(a)))
    random.shuffle(order)
    shuffled = paired_difference([a[i] for i in order], [b[i] for i in order])
    assert shuffled.mean == pytest.approx(there.mean, abs=1e-9)
    assert shuffled.high == pytest.approx(there.high, abs=1e-9)
    assert there.low <= there.mean <= there.high


@given(values)
def test_higher_confidence_is_wider(a):
    b = [0.0] * len(a)
    narrow, wide = paired_difference(a, b, confidence=0.8), paired_difference(a, b)
    assert wide.low <= narrow.low and narrow.high <= wide.high


def test_coverage_is_95_percent():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        sample = rng.normal(size=5) + 1
        interval = paired_difference(sample.tolist(), [0.0] * 5)
        hits += interval.low <= 1 <= interval.high
    assert 0.92 < hits / 400 < 0.98


def test_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    a, b = [81.0, 84.5, 79.2, 88.1], [75.0, 80.5, 77.2, 79.9]
    expected = stats.ttest_rel(a, b).confidence_interval(0.95)
    result = paired_difference(a, b)
    assert (result.low, result.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([1, 2], [1], "2 and 1"),
        ([], [], "no values"),
        ([float("nan")], [1], "finite"),
    ],
)
def test_bad_input(a, b, message):
    with pytest.raises(InputError, match=message):
        paired_difference(a, b)


def test_bad_confidence():
    with pytest.raises(InputError, match="confidence"):
        paired_difference([1, 2], [1, 2], confidence=95)


# ---- means that cannot be paired -----------------------------------------------------------------


def test_a_worked_difference_of_means():
    # Errors 3 and 4 make 5; t(0.975, 3) = 3.182446 for the side of four values.
    found = difference_of_means(Sample(80, 6, 4), Sample(70, 4 * math.sqrt(10), 10))
    assert (found.mean, found.n) == (10, 4)
    assert (found.low, found.high) == pytest.approx((10 - 5 * 3.182446, 10 + 5 * 3.182446))


def test_the_difference_of_means_is_no_surer_than_welchs():
    stats = pytest.importorskip("scipy.stats")
    a, b = [81.0, 84.5, 79.2, 88.1], [75.0, 80.5, 77.2]
    welch = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    first, second = (Sample(float(np.mean(v)), float(np.std(v, ddof=1)), len(v)) for v in (a, b))
    found = difference_of_means(first, second)
    assert found.low < welch.low < found.mean < welch.high < found.high
    assert (found.mean, found.n) == (pytest.approx(np.mean(a) - np.mean(b)), 3)


@pytest.mark.parametrize("ours", [2, 3, 5])
@pytest.mark.parametrize("spread", [0.5, 1, 2])
def test_few_seeds_do_not_make_differences_out_of_luck(ours, spread):
    """At most 5 % of intervals leave out zero where there is no true difference.

    With Welch's degrees of freedom it would be 9 to 10 % for two seeds of our own.
    """
    rng = np.random.default_rng(0)
    draws = 2000
    marked = 0
    for a, b in zip(
        rng.normal(0, spread, (draws, ours)), rng.normal(0, 1, (draws, 10)), strict=True
    ):
        samples = (Sample(float(v.mean()), float(v.std(ddof=1)), len(v)) for v in (a, b))
        marked += difference_of_means(*samples).excludes_zero
    assert marked / draws <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / draws)


def test_means_without_any_spread_differ_by_exactly_that():
    found = difference_of_means(Sample(3, 0, 2), Sample(1, 0, 10))
    assert (found.mean, found.low, found.high) == (2, 2, 2)


@pytest.mark.parametrize(
    "sample", [Sample(1, 1, 1), Sample(1, -1, 5), Sample(float("nan"), 1, 5), Sample(1, np.inf, 5)]
)
def test_samples_that_say_too_little(sample):
    with pytest.raises(InputError, match="at least two values"):
        difference_of_means(sample, Sample(0, 1, 10))
    with pytest.raises(InputError, match="at least two values"):
        difference_of_means(Sample(0, 1, 10), sample)
    with pytest.raises(InputError, match="confidence"):
        difference_of_means(Sample(0, 1, 10), Sample(0, 1, 10), confidence=95)


def test_the_interval_of_a_mean():
    stats = pytest.importorskip("scipy.stats")
    values = [3.0, 5.0, 4.0]
    low, high = stats.t.interval(0.95, 2, loc=4, scale=stats.sem(values))
    found = mean_interval(values)
    assert (found.mean, found.low, found.high) == pytest.approx((4, low, high))
    assert mean_interval([3.0]).low is None


def test_an_interval_within_what_is_possible():
    wide = mean_interval([99.0, 90.0])
    assert wide.high > 100 and wide.low < 80
    cut = wide.within(80, 100)
    assert (cut.low, cut.high, cut.mean, cut.n, cut.std) == (80, 100, wide.mean, 2, wide.std)
    assert wide.within(-1e3, 1e3) == wide and mean_interval([5.0]).within(0, 1) == mean_interval(
        [5]
    )
    beyond = mean_interval([140.0, 160.0])
    assert beyond.within(0, 100) == beyond, "then it was no bound"
