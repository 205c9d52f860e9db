"""What holds for every rule, whatever the batch."""

from __future__ import annotations

import functools
import itertools

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from ragen_jax.core import filters
from ragen_jax.core.filters import FILTERS, needs_non_negative, reverse_top_p, select

SIZE = 8
SHARES = {"top_p": (0.3, 0.6, 0.9, 1.0), "reverse_top_p": (0.3, 0.6, 0.9, 1.0), "top_k": (0.25, 0.5, 1.0)}
VALUES = SHARES | {
    "top_k_count": (1, 3, 8),
    "min_p": (0.1, 0.5, 1.0),
    "quartile": (1, 2, 3, 4),
    "nonzero": (0.9,),
    "none": (0.9,),
}
CASES = [(rule, value) for rule, values in VALUES.items() for value in values]
DISTINCT = st.lists(st.integers(1, 4000), min_size=SIZE, max_size=SIZE, unique=True).map(
    lambda numbers: np.array(numbers, np.float32) / 8
)
FLAGS = st.lists(st.booleans(), min_size=SIZE, max_size=SIZE).map(np.array)


@functools.cache
def compiled(rule, value, mass="linear", include_zero=False):
    return jax.jit(functools.partial(select, rule=rule, value=value, mass=mass, include_zero=include_zero))


def kept(rule, value, scores, flat, **options):
    return set(np.flatnonzero(np.asarray(compiled(rule, value, **options)(scores, flat).keep)).tolist())


def test_every_rule_is_here():
    assert set(VALUES) == set(FILTERS)


@pytest.mark.parametrize(("rule", "value"), CASES)
@given(DISTINCT, FLAGS, st.permutations(range(SIZE)))
def test_prompt_order_does_not_change_the_set(rule, value, scores, flat, order):
    order = np.array(order)
    there = kept(rule, value, scores[order], flat[order])
    assert {int(order[i]) for i in there} == kept(rule, value, scores, flat)


@pytest.mark.parametrize(("rule", "value"), CASES)
@given(DISTINCT, FLAGS, st.sampled_from([2.0**-10, 0.5, 1024.0]))
def test_scale_does_not_change_the_set(rule, value, scores, flat, scale):
    """Powers of two, so that no rounding comes in."""
    assert kept(rule, value, scores * np.float32(scale), flat) == kept(rule, value, scores, flat)


@pytest.mark.parametrize(
    ("rule", "mass"), [*((rule, "linear") for rule in SHARES), ("top_p", "softmax"), ("top_p", "count")]
)
@given(DISTINCT, FLAGS)
def test_a_larger_share_keeps_all_that_a_smaller_one_keeps(rule, mass, scores, flat):
    sets = [kept(rule, value, scores, flat, mass=mass) for value in SHARES[rule]]
    assert all(small <= large for small, large in itertools.pairwise(sets))


@given(DISTINCT, FLAGS)
def test_a_larger_threshold_keeps_less(scores, flat):
    sets = [kept("min_p", value, scores, flat) for value in VALUES["min_p"]]
    assert sets[0] >= sets[1] >= sets[2]


@pytest.mark.parametrize(("rule", "value"), CASES)
@given(DISTINCT, FLAGS)
def test_flat_prompts_take_part_only_where_they_may(rule, value, scores, flat):
    chosen = kept(rule, value, scores, flat)
    if rule in ("none", "quartile"):
        assert len(chosen) == (SIZE if rule == "none" else SIZE // 4)
        return
    assert not chosen & set(np.flatnonzero(flat).tolist())
    if not flat.all():
        assert chosen
    if rule != "nonzero":
        assert kept(rule, value, scores, flat, include_zero=True) == kept(rule, value, scores, np.zeros(SIZE, bool))


@given(DISTINCT, st.sampled_from(SHARES["reverse_top_p"]))
def test_reverse_keeps_the_smallest_set_of_lowest_scores_that_reaches_the_mass(scores, rho):
    keep = np.asarray(reverse_top_p(scores, rho=rho).keep)
    total, mass = scores.astype(np.float64).sum(), scores[keep].astype(np.float64).sum()
    assert mass >= rho * total * (1 - 1e-6)
    assert mass - scores[keep].max() < rho * total
    assert scores[keep].max() < scores[~keep].min(initial=np.inf)


@pytest.mark.parametrize("rule", list(FILTERS))
def test_negative_scores_are_refused_exactly_where_they_mean_nothing(rule):
    scores = np.array([3.0, 1.0, -2.0, 2.0], np.float32)
    value = VALUES[rule][0]
    if needs_non_negative(rule):
        with pytest.raises(ValueError, match=r"prompt 2 is -2\.0.*top_k"):
            select(scores, scores == 0, rule=rule, value=value)
    else:
        select(scores, scores == 0, rule=rule, value=value)
    if rule == "top_p":
        for mass in ("softmax", "count"):
            assert not needs_non_negative(rule, mass)
            assert int(select(scores, scores == 0, rule=rule, value=0.25, mass=mass).kept_count) == 1


@pytest.mark.parametrize("rule", list(FILTERS))
def test_masks_of_another_shape_are_refused(rule):
    scores = np.ones(4, np.float32)
    for flat in (np.zeros(3, bool), np.zeros((4, 1), bool)):
        with pytest.raises(AssertionError):
            select(scores, flat, rule=rule, value=VALUES[rule][0])


@pytest.mark.parametrize("rule", [rule for rule in FILTERS if rule != "quartile"])
def test_a_batch_of_one_prompt(rule):
    one, value = np.array([2.0], np.float32), VALUES[rule][0]
    assert kept(rule, value, one, np.array([False])) == {0}
    assert kept(rule, value, one, np.array([True])) == ({0} if rule == "none" else set())


def test_the_documented_order_of_ties_and_edges():
    """Ties go in prompt order in every rule that counts, on every run."""
    level = np.ones(8, np.float32)
    flat = np.zeros(8, bool)
    assert kept("top_p", 0.3, level, flat) == {0, 1, 2}
    assert kept("top_p", 0.3, level, flat, mass="count") == {0, 1, 2}
    assert kept("top_p", 0.3, level, flat, mass="softmax") == {0, 1, 2}
    assert kept("reverse_top_p", 0.3, level, flat) == {0, 1, 2}
    assert kept("top_k", 0.25, level, flat) == {0, 1}
    assert kept("quartile", 2, level, flat) == {2, 3}
    assert filters.select(level, flat, rule="min_p", value=1.0).keep.all()
