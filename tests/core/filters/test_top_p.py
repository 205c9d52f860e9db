from __future__ import annotations

import functools

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import assume, given

from ragen_jax import core
from ragen_jax.core.filters import reverse_top_p, top_p
from tests.oracles import learning as oracle

SLACKS = [0.0, 0.001, 0.01]
SIZE = 7
POSITIVE = st.integers(1, 4000).map(lambda n: n / 8)
SCORES = st.lists(st.one_of(st.just(0.0), POSITIVE), min_size=SIZE, max_size=SIZE).map(
    lambda values: np.array(values, np.float32)
)
DISTINCT = st.lists(POSITIVE, min_size=SIZE, max_size=SIZE, unique=True).map(lambda v: np.array(v, np.float32))
RHO = st.integers(1, 40).map(lambda n: n / 40)


@functools.cache
def compiled(rho, slack=0.0):
    return jax.jit(functools.partial(top_p, rho=rho, slack=slack))


def kept(result):
    return np.flatnonzero(np.asarray(result.keep)).tolist()


def clear_of_rounding(scores, rho):
    """No running sum lies within rounding of the threshold."""
    sums = np.cumsum(np.sort(scores.astype(np.float64))[::-1])
    assume(np.abs(sums - rho * sums[-1]).min() > 1e-5 * sums[-1])


@pytest.mark.parametrize("slack", SLACKS)
def test_c14_a_sum_just_below_the_share_counts_as_reaching_it(slack):
    assert kept(top_p(np.array([4, 3, 2, 1], np.float32), rho=0.9, slack=slack)) == [0, 1, 2]
    assert kept(top_p(np.array([0.4, 0.3, 0.2, 0.1], np.float32), rho=0.9)) == [0, 1, 2]


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize(("rho", "expected"), [(0.5, [0]), (0.9, [0, 1]), (1.0, [0, 1])])
def test_c14_binary_rewards(rho, expected, slack):
    rewards = np.array([[0, 0, 1, 1], [0, 0, 0, 1], [1, 1, 1, 1]], np.float32)
    for include_zero in (False, True):
        result = top_p(core.group_variance(rewards), rho=rho, slack=slack, include_zero=include_zero)
        assert kept(result) == expected


@pytest.mark.parametrize("slack", SLACKS)
def test_c14_ties_go_in_prompt_order(slack):
    result = top_p(np.full(10, 0.25, np.float32), rho=0.3, slack=slack)
    assert kept(result) == [0, 1, 2]
    assert int(result.kept_count) == 3
    np.testing.assert_allclose(result.kept_mass, 0.3, rtol=1e-6)


@pytest.mark.parametrize("include_zero", [False, True])
def test_c15_nothing_is_kept_when_all_groups_are_flat(include_zero):
    rewards = np.ones((8, 16), np.float32)
    result = top_p(core.group_variance(rewards), rho=0.9, flat=core.is_flat(rewards), include_zero=include_zero)
    assert (kept(result), int(result.kept_count), float(result.kept_mass)) == ([], 0, 0.0)


def test_many_equal_groups_reach_a_share_exactly():
    for count in (100, 1000):
        assert len(kept(top_p(np.full(count, 0.1, np.float32), rho=0.3))) == round(0.3 * count)


@given(SCORES, RHO)
def test_the_kept_set_is_the_smallest_that_reaches_the_mass(scores, rho):
    result = compiled(rho)(scores)
    keep = np.asarray(result.keep)
    assert keep.sum() == oracle.smallest_set([float(s) for s in scores], rho) == int(result.kept_count)
    if not keep.any():
        assert not scores.any()
        return
    total = scores.astype(np.float64).sum()
    mass = scores[keep].astype(np.float64).sum()
    assert mass >= rho * total * (1 - 1e-6)
    assert mass - scores[keep].min() < rho * total
    assert scores[keep].min() >= scores[~keep].max(initial=0.0)
    np.testing.assert_allclose(result.kept_mass, mass / total, rtol=1e-5)


@given(DISTINCT, RHO, st.permutations(range(SIZE)))
def test_prompt_order_does_not_change_the_set(scores, rho, order):
    order = np.array(order)
    assert set(order[kept(compiled(rho)(scores[order]))]) == set(kept(compiled(rho)(scores)))


@given(SCORES, RHO, RHO)
def test_the_kept_count_grows_with_rho(scores, first, second):
    low, high = sorted((first, second))
    assert int(compiled(low)(scores).kept_count) <= int(compiled(high)(scores).kept_count)


@given(SCORES, RHO, st.sampled_from([0.001, 0.3, 7.0, 1234.5]))
def test_scale_does_not_change_the_set(scores, rho, scale):
    assume(scores.any())
    clear_of_rounding(scores, rho)
    assert kept(compiled(rho)(scores * np.float32(scale))) == kept(compiled(rho)(scores))


def test_an_absolute_slack_drops_a_batch_of_small_scale():
    scores = np.array([0.004, 0.003, 0.002, 0.001], np.float32)
    assert kept(top_p(scores, rho=0.9, slack=0.01)) == []
    assert kept(top_p(scores, rho=0.9)) == [0, 1, 2]


def test_softmax_mass_depends_on_the_scale_of_the_scores():
    scores = np.array([3.0, 2.0, 1.0, 0.0], np.float32)
    weights = np.exp(scores.astype(np.float64)) / np.exp(scores.astype(np.float64)).sum()
    expected = int(np.searchsorted(np.cumsum(weights), 0.9)) + 1
    assert len(kept(top_p(scores, rho=0.9, mass="softmax", include_zero=True))) == expected
    assert len(kept(top_p(scores / 100, rho=0.9, mass="softmax", include_zero=True))) == 4
    assert kept(top_p(np.zeros(4, np.float32), rho=0.9, mass="softmax")) == []


def test_flat_marks_beat_scores():
    scores = np.array([5.0, 1.0, 1.0], np.float32)
    assert kept(top_p(scores, rho=1.0, flat=np.array([True, False, False]))) == [1, 2]


def test_reverse_takes_the_lowest_first():
    scores = np.array([4, 0, 3, 2, 1], np.float32)
    assert kept(reverse_top_p(scores, rho=0.3)) == [3, 4]
    assert kept(reverse_top_p(scores, rho=0.3, include_zero=True)) == [1, 3, 4]
    assert kept(reverse_top_p(np.zeros(5, np.float32), rho=0.3, include_zero=True)) == []


@pytest.mark.parametrize("rule", [top_p, reverse_top_p])
def test_refusals_name_the_value(rule):
    good = np.array([1.0, 2.0], np.float32)
    for rho in (0.0, -0.1, 1.01):
        with pytest.raises(ValueError, match=f"rho={rho}"):
            rule(good, rho=rho)
    with pytest.raises(ValueError, match=r"slack=-0.5"):
        rule(good, rho=0.9, slack=-0.5)
    with pytest.raises(ValueError, match=r"prompt 1 is -2.0"):
        rule(np.array([1.0, -2.0], np.float32), rho=0.9)
    with pytest.raises(ValueError, match="prompt 0 is nan"):
        rule(np.array([np.nan, 1.0], np.float32), rho=0.9)


def test_arrays_that_a_jitted_function_closes_over_are_fine():
    scores = np.array([4, 3, 2, 1], np.float32)
    assert jax.jit(lambda: top_p(jax.numpy.asarray(scores), rho=0.9).keep)().tolist() == [True, True, True, False]
    assert jax.jit(lambda: top_p(scores, rho=0.9).keep)().tolist() == [True, True, True, False]


def test_unknown_mass_is_refused():
    with pytest.raises(ValueError, match="'square'"):
        top_p(np.ones(2, np.float32), rho=0.9, mass="square")
