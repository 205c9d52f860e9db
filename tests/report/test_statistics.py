"""Intervals against SciPy and against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.report.statistics import mean_interval, student_quantile, wilson_interval


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
