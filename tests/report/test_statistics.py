"""Intervals against SciPy and against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.report.statistics import (
    clustered_proportion_interval,
    mean_interval,
    student_quantile,
    wilson_interval,
)


@pytest.mark.parametrize("dof", [1, 2, 3, 4, 5, 8, 9, 30, 101])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_student_quantile_equals_scipy(dof: int, confidence: float) -> None:
    expected = scipy.stats.t.ppf((1 + confidence) / 2, dof)
    assert student_quantile(dof, confidence=confidence) == pytest.approx(expected, rel=1e-9)


@given(n=st.integers(1, 2000), share=st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_wilson_equals_scipy_and_holds_the_share(n: int, share: float) -> None:
    successes = round(n * share)
    low, high = wilson_interval(successes, n)
    expected = scipy.stats.binomtest(successes, n).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert 0 <= low <= successes / n + 1e-12
    assert successes / n - 1e-12 <= high <= 1


def test_mean_interval_equals_scipy() -> None:
    values = [0.31, 0.44, 0.29, 0.5]
    mean, low, high = mean_interval(values)
    expected = scipy.stats.t.interval(0.95, 3, loc=np.mean(values), scale=scipy.stats.sem(values))
    assert mean == pytest.approx(np.mean(values))
    assert (low, high) == pytest.approx(expected, rel=1e-9)


def test_one_value_has_no_finite_interval() -> None:
    assert mean_interval([2.0]) == (2.0, -math.inf, math.inf)


def test_equal_values_have_no_width() -> None:
    assert mean_interval([2.0, 2.0, 2.0]) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (3, 2), (-1, 2)])
def test_impossible_counts_are_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match=f"{successes} successes of {n}"):
        wilson_interval(successes, n)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        mean_interval([])
    with pytest.raises(ValueError, match="dof=0"):
        student_quantile(0)
    with pytest.raises(ValueError, match=r"confidence=1\.0"):
        student_quantile(3, confidence=1.0)


def test_equal_clusters_give_the_student_interval_over_cluster_means() -> None:
    successes, size = [0, 8, 3, 5, 8, 1], 8
    mean, low, high = mean_interval([won / size for won in successes])
    assert clustered_proportion_interval(successes, [size] * 6) == pytest.approx((low, high), rel=1e-12)
    assert low < mean < high


def test_unequal_clusters_against_the_formula() -> None:
    won, size = np.array([0.0, 2.0, 5.0, 1.0]), np.array([2, 2, 8, 4])
    share = won.sum() / size.sum()
    error = math.sqrt(4 / 3 * ((won - share * size) ** 2).sum()) / size.sum()
    half = scipy.stats.t.ppf(0.975, 3) * error
    low, high = clustered_proportion_interval(won.tolist(), size.tolist())
    assert (low, high) == pytest.approx((max(0.0, share - half), min(1.0, share + half)), rel=1e-9)


def test_single_trials_and_equal_outcomes_give_wilson_over_clusters() -> None:
    assert clustered_proportion_interval([1, 0, 1, 1], [1, 1, 1, 1]) == pytest.approx(wilson_interval(3, 4))
    assert clustered_proportion_interval([0, 0, 0], [8, 8, 8]) == pytest.approx(wilson_interval(0, 3))
    assert clustered_proportion_interval([8, 8, 8], [8, 8, 8]) == pytest.approx(wilson_interval(3, 3))
    assert clustered_proportion_interval([3], [8]) == (0.0, 1.0)


def test_dependent_trials_widen_the_interval() -> None:
    """Sixteen prompts that always or never succeed hold sixteen facts, not 128."""
    low, high = clustered_proportion_interval([8, 0] * 8, [8] * 16)
    naive_low, naive_high = wilson_interval(64, 128)
    assert high - low > 2.5 * (naive_high - naive_low)


def test_coverage_of_the_clustered_interval() -> None:
    """95 % of intervals hold the true share; single trials would hold it in far fewer samples."""
    rng = np.random.default_rng(0)
    draws, clusters, size = 600, 32, 8
    skill = rng.beta(0.5, 0.5, size=(draws, clusters))  # mean 0.5, most prompts near 0 or 1
    won = rng.binomial(size, skill)
    held = naive = 0
    for row in won:
        low, high = clustered_proportion_interval(row.tolist(), [size] * clusters)
        held += low <= 0.5 <= high
        low, high = wilson_interval(float(row.sum()), clusters * size)
        naive += low <= 0.5 <= high
    assert 0.92 < held / draws < 0.98
    assert naive / draws < 0.8


@pytest.mark.parametrize(("successes", "trials"), [([], []), ([1], [1, 1]), ([2], [1]), ([0], [0]), ([-1], [2])])
def test_impossible_clusters_are_refused(successes: list[float], trials: list[int]) -> None:
    with pytest.raises(ValueError, match="cluster"):
        clustered_proportion_interval(successes, trials)
