"""Broken, empty and disordered input is refused by name; what a mask leaves out may hold anything."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from ragen_jax import core
from ragen_jax.core.checks import check_rewards
from ragen_jax.core.filters import best_and_worst, keep_all, select
from ragen_jax.core.replayed_variance import replayed_variance, signal_variance

BROKEN = [np.nan, np.inf, -np.inf]
MASK = np.array([[1, 1, 1], [1, 1, 0]], bool)
IDS = np.array([0, 0, 1, 1], np.int32)


def gae(token_rewards, values, mask):
    return core.gae(token_rewards, values, mask, gamma=1.0, lam=1.0)


def bi_level(token_rewards, values, mask):
    turns = np.zeros(mask.shape, np.int32)
    return core.bi_level_gae(token_rewards, values, mask, turns, gamma=1.0, lam=1.0, turn_gamma=1.0)


def ppo(log_probs, old, advantages, mask):
    return core.ppo_policy_loss(log_probs, old, advantages, mask, clip_low=0.2, clip_high=0.28)[0]


def others(x):
    return np.zeros_like(x)


# Functions of one [2, 3] array and its mask.
MASKED = {
    "group_advantages": lambda x, m: core.group_advantages(x, m, normalize_by_std=True),
    "leave_one_out": core.leave_one_out,
    "best_and_worst": lambda x, m: best_and_worst(x, best=1, worst=1, valid=m),
    "stratified_interval": core.stratified_interval,
    "replayed_variance": lambda x, m: replayed_variance(np.stack([x, x], axis=2), m),
    "signal_variance": lambda x, m: signal_variance(np.stack([x, x], axis=2), m),
    "gae rewards": lambda x, m: gae(x, others(x), m),
    "gae values": lambda x, m: gae(others(x), x, m),
    "bi_level_gae rewards": lambda x, m: bi_level(x, others(x), m),
    "bi_level_gae values": lambda x, m: bi_level(others(x), x, m),
    "ppo log_probs": lambda x, m: ppo(x, others(x), others(x), m),
    "ppo old_log_probs": lambda x, m: ppo(others(x), x, others(x), m),
    "ppo advantages": lambda x, m: ppo(others(x), others(x), x, m),
}
PLAIN = {
    "variance_dispersion": core.variance_dispersion,
    "rv_buckets": lambda x: core.rv_buckets(x, count=2),
    "keep_all": keep_all,
    "normalize_rewards": lambda x: core.normalize_rewards(x, IDS, num_ids=2, method="mean"),
    "group_advantages_by_id": lambda x: core.group_advantages_by_id(x, IDS, num_groups=2, normalize_by_std=False),
    "kl": lambda x: core.kl(x[None], others(x)[None], estimator="k3"),
    "kl reference": lambda x: core.kl(others(x)[None], x[None], estimator="k3"),
}


@pytest.mark.parametrize("value", BROKEN)
@pytest.mark.parametrize("name", MASKED)
def test_masked_numbers_may_be_anything_and_others_are_named(name, value):
    x = np.array([[0.0, 1.0, 0.5], [0.25, 1.0, 0.0]], np.float32)
    hidden, shown = x.copy(), x.copy()
    hidden[1, 2] = shown[1, 1] = value
    function = MASKED[name]
    for clean, dirty in zip(jax.tree.leaves(function(x, MASK)), jax.tree.leaves(function(hidden, MASK)), strict=True):
        np.testing.assert_array_equal(clean, dirty)
    with pytest.raises(ValueError, match=rf" of (prompt|row) 1, (rollout|token) 1(, replay 0)? is {value}; \w+"):
        function(shown, MASK)


@pytest.mark.parametrize("value", BROKEN)
@pytest.mark.parametrize("name", PLAIN)
def test_numbers_without_a_mask_are_named(name, value):
    x = np.array([0.0, 1.0, value, 2.0], np.float32)
    with pytest.raises(ValueError, match=rf" of (prompt 2|row 2|row 0, token 2) is {value}; \w+"):
        PLAIN[name](x)
    PLAIN[name](np.nan_to_num(x, posinf=0.0, neginf=0.0))


def test_inside_jit_nothing_is_checked():
    x = np.array([[0.0, 1.0, np.nan]], np.float32)
    assert np.isnan(jax.jit(lambda y: core.group_advantages(y, normalize_by_std=False))(x)).any()


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
def test_empty_groups_are_refused(shape):
    empty = np.zeros(shape, np.float32)
    axis = "prompt" if shape[0] == 0 else "rollout"
    functions = (
        core.group_variance,
        core.is_flat,
        core.leave_one_out,
        core.stratified_interval,
        lambda x: best_and_worst(x, best=1, worst=1),
        check_rewards,
        lambda x: replayed_variance(x[:, :, None]),
    )
    for function in functions[:4] + functions[5:]:
        with pytest.raises(ValueError, match=f"0 {axis}s: .* give at least one {axis}"):
            function(empty)
    with pytest.raises(ValueError, match=f"0 {axis}s|add up to 1 .. 0"):
        functions[4](empty)


def test_a_batch_without_prompts_has_no_filter():
    for rule in ("top_p", "top_k", "min_p", "nonzero", "none", "reverse_top_p"):
        with pytest.raises(ValueError, match="0 prompts"):
            select(np.zeros(0, np.float32), np.zeros(0, bool), rule=rule, value=0.5)
    with pytest.raises(ValueError, match="0 prompts"):
        core.rv_buckets(np.zeros(0, np.float32), count=2)
    with pytest.raises(ValueError, match="0 prompts"):
        core.collapse_metrics(scores((0, 2, 0)))
    with pytest.raises(ValueError, match="0 rollouts"):
        core.collapse_metrics(scores((2, 0, 2)))


def scores(shape):
    from ragen_jax.types import CrossScores

    return CrossScores(
        log_probs=np.zeros(shape, np.float32),
        lengths=np.ones(shape[:2], np.int32),
        valid=np.ones(shape[:2], bool),
        column_class=np.arange(shape[0], dtype=np.int32),
    )


def test_rows_that_are_no_permutations_are_refused():
    with pytest.raises(ValueError, match=r"permutations\[1\] = \[0, 0, 2\] does not name each of 0 .. 2 once"):
        core.permutation_null(scores((3, 2, 3)), np.array([[0, 1, 2], [0, 0, 2]]))
    core.permutation_null(scores((3, 2, 3)), np.array([[0, 1, 2], [2, 0, 1]]))


def test_concrete_arrays_that_a_jitted_function_closes_over_are_fine_and_still_checked():
    x, order = np.array([[0.0, 1.0, 3.0]] * 4, np.float32), np.array([[1, 0, 2]])
    table, columns = scores((3, 2, 3)), np.array([[0, 1, 2], [1, 0, 2], [2, 0, 1]], np.int32)
    drawn = table.replace(columns=columns)
    functions = (
        lambda y: core.leave_one_out(jax.numpy.asarray(x)).sum() + y,
        lambda y: keep_all(jax.numpy.asarray(x[:, 0])).kept_count + y,
        lambda y: core.permutation_null(table, jax.numpy.asarray(order))["mi_sequence_nats"].p_value + y,
        lambda y: core.collapse_metrics(jax.tree.map(jax.numpy.asarray, drawn))[0]["mi_sequence_nats"] + y,
        lambda y: core.variance_dispersion(jax.numpy.asarray(x[:, 1])).estimate + y,
    )
    for function in functions:
        assert np.isfinite(jax.jit(function)(1.0))
    broken = np.where(x == 3.0, np.nan, x)
    with pytest.raises(ValueError, match="reward of prompt 0, rollout 2 is nan"):
        jax.jit(lambda y: core.leave_one_out(broken) + y)(1.0)
