"""Ties are ties, however float32 rounds the statistics that are ranked."""

from __future__ import annotations

import functools

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given, settings

from ragen_jax import core
from ragen_jax.core.filters import FILTERS, READINGS, best_and_worst, select, top_p_by_reading
from ragen_jax.core.ranking import descending_rank
from ragen_jax.core.snr import rv_buckets

PROMPTS, GROUP = 8, 10
VALUES = {"top_p": 0.3, "reverse_top_p": 0.3, "top_k": 0.25, "top_k_count": 3, "min_p": 0.5, "quartile": 1}
# What environments pay: 0 and 1, with a format penalty, and Sokoban's scale.
PAYMENTS = st.sampled_from([(0.0, 1.0), (-0.1, 0.0, 1.0), (-0.1, 0.9, 1.0), (-0.1, 10.9)])


@functools.cache
def compiled(rule):
    return jax.jit(functools.partial(kept, rule))


def kept(rule, rewards):
    if rule in READINGS:
        return top_p_by_reading(rewards, reading=rule, rho=0.3).keep
    scores = core.group_variance(rewards)
    return select(scores, core.is_flat(rewards), rule=rule, value=VALUES[rule]).keep


def tied_batch(seed, payments):
    """Eight prompts that pay the same rewards, in the order of their rollouts and up to a reflection of the rewards."""
    rng = np.random.default_rng(seed)
    rewards = rng.choice(payments, GROUP)
    rewards[:2] = min(payments), max(payments)
    rows = [rewards if i % 2 else min(payments) + max(payments) - rewards for i in range(PROMPTS)]
    return np.stack([rng.permutation(row) for row in rows]).astype(np.float32)


def test_equal_variances_of_two_and_eight_successes_go_in_prompt_order():
    rewards = np.array([[1.0] * (8 if i % 2 else 2) + [0.0] * (2 if i % 2 else 8) for i in range(8)], np.float32)
    for scale in (1.0, 3.0, 0.7, 1e-3, 1e4):
        assert np.flatnonzero(kept("variance", np.float32(scale) * rewards)).tolist() == [0, 1, 2]


def test_one_and_four_successes_of_five_tie():
    rewards = np.array([[0, 1, 1, 1, 1], [1, 0, 0, 0, 0]], np.float32)
    for order in ([0, 1], [1, 0]):
        assert kept("variance", rewards[order])[:1].tolist() == [True]
        assert np.flatnonzero(kept("top_k_count", rewards[order]))[0] == 0
        assert rv_buckets(core.group_variance(rewards[order]), count=2).tolist() == [0, 1]


@pytest.mark.parametrize("rule", [*VALUES, *READINGS])
@given(st.integers(0, 2**31), PAYMENTS)
@settings(max_examples=10, deadline=None)
def test_ties_go_in_prompt_order_whatever_the_rounding(rule, seed, payments):
    rewards = tied_batch(seed, payments)
    first = np.asarray(compiled(rule)(rewards))
    assert (np.asarray(kept(rule, rewards)) == first).all()  # not compiled
    count = int(first.sum())
    assert first[:count].all()  # a prefix of the prompts
    shuffled = np.random.default_rng(seed).permuted(rewards, axis=1)
    assert (np.asarray(compiled(rule)(shuffled)) == first).all()
    if rule != "softmax_std":  # the one reading that depends on the scale
        for scale in (3.0, 0.7, 1e-3):
            assert (np.asarray(compiled(rule)(np.float32(scale) * rewards)) == first).all()


@given(st.integers(0, 2**31), PAYMENTS, st.sampled_from([3.0, 0.7, 0.1]))
@settings(max_examples=10, deadline=None)
def test_mixed_batches_keep_their_set_when_rows_are_permuted_or_scaled(seed, payments, scale):
    rng = np.random.default_rng(seed)
    rewards = rng.choice(payments, (PROMPTS, GROUP)).astype(np.float32)
    for rule in ("variance", "std", "prompt_fraction", "top_k", "reverse_top_p", "quartile"):
        first = np.asarray(compiled(rule)(rewards))
        assert (np.asarray(compiled(rule)(rng.permuted(rewards, axis=1))) == first).all()
        assert (np.asarray(compiled(rule)(np.float32(scale) * rewards)) == first).all()


def test_ranks_are_a_permutation_with_those_left_out_last():
    scores = np.array([0.5, -2.0, 7.0, 0.5, 7.00001, -9.0], np.float32)
    among = np.array([1, 1, 1, 1, 1, 0], bool)
    assert descending_rank(scores, among).tolist() == [2, 4, 0, 3, 1, 5]
    assert descending_rank(scores, np.zeros(6, bool)).tolist() == [0, 1, 2, 3, 4, 5]
    assert descending_rank(np.array([1.0, 1.001], np.float32), np.ones(2, bool)).tolist() == [1, 0]


def test_rollouts_that_tie_go_in_rollout_order():
    rewards = np.array([[0.9, 1.0 - 0.1, np.float32(1.0) - np.float32(0.1) + 1e-7, 0.0]], np.float32)
    assert best_and_worst(rewards, best=1, worst=1).tolist() == [[True, False, False, True]]


def test_the_table_has_every_rule_with_an_order():
    assert set(VALUES) == set(FILTERS) - {"none", "nonzero"}
