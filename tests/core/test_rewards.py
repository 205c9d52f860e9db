from __future__ import annotations

import json

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core
from ragen_jax.core.rewards import METHODS
from tests.oracles import learning as oracle

REWARDS = st.integers(-20, 40).map(lambda n: n / 4)
compiled = jax.jit(core.normalize_rewards, static_argnames=("num_ids", "method"))


@pytest.mark.parametrize("method", METHODS)
@given(
    rewards=hnp.arrays(np.float32, 6, elements=REWARDS),
    ids=hnp.arrays(np.int32, 6, elements=st.integers(0, 2)),
    valid=hnp.arrays(bool, 6),
)
def test_agrees_with_the_oracle(method, rewards, ids, valid):
    actual, factor = compiled(rewards, ids, valid, num_ids=3, method=method)
    np.testing.assert_allclose(
        actual, oracle.normalize_rewards(rewards, ids, valid, method=method), rtol=1e-5, atol=1e-5
    )
    assert not np.asarray(factor)[~valid].any()
    if method in ("identity", "mean"):
        assert (np.asarray(factor)[valid] == 1).all()


@pytest.mark.parametrize("method", ["mean", "mean_std", "asym_clip"])
@pytest.mark.parametrize("rewards", [[0.35] * 16, [10.9] * 8, [-0.1] * 16, [0.0] * 4, [3.0]])
def test_equal_rewards_and_a_single_one_become_exactly_zero(method, rewards):
    actual, _ = core.normalize_rewards(np.float32(rewards), np.zeros(len(rewards), int), num_ids=1, method=method)
    assert not np.asarray(actual).any()


def test_a_spread_up_to_the_tolerance_counts_as_none():
    rewards = np.array([0.0, 1e-6], np.float32)  # unbiased std 0.7e-6
    actual, factor = core.normalize_rewards(rewards, np.zeros(2, int), num_ids=1, method="mean_std")
    assert not np.asarray(actual).any() and not np.asarray(factor).any()
    actual, _ = core.normalize_rewards(10 * rewards, np.zeros(2, int), num_ids=1, method="mean_std")
    np.testing.assert_allclose(actual, [-(0.5**0.5), 0.5**0.5], rtol=1e-4)


def test_the_factor_times_the_centred_reward_is_the_normalised_one():
    rewards = np.array([1.0, 2.0, 6.0, 0.0], np.float32)
    ids = np.array([0, 0, 1, 1])
    actual, factor = core.normalize_rewards(rewards, ids, num_ids=2, method="mean_std")
    np.testing.assert_allclose(factor, [2**0.5] * 2 + [2**0.5 / 6] * 2, rtol=1e-6)
    np.testing.assert_allclose(actual, factor * (rewards - np.array([1.5, 1.5, 3, 3])), rtol=1e-6)


def test_the_asymmetric_clip_is_from_minus_one_to_three():
    rewards = np.array([1.0] + [0.0] * 30 + [-1.0], np.float32)
    actual, _ = core.normalize_rewards(rewards, np.zeros(32, int), num_ids=1, method="asym_clip")
    assert (np.asarray(actual).max(), np.asarray(actual).min()) == (3.0, -1.0)


def test_golden_by_group_batch_and_environment(golden_dir):
    golden = json.loads((golden_dir / "reward_normalization.json").read_text())
    totals = np.array(golden["episode_rewards"], np.float32) + np.array(golden["penalties"], np.float32)
    ids = {
        "state": np.array([out["group_id"] for out in golden["env_outputs"]]),
        "batch": np.zeros(len(totals), int),
        "inductive": np.array([ord(out["tag"]) - ord("A") for out in golden["env_outputs"]]),
    }
    for case in golden["cases"]:
        actual, _ = core.normalize_rewards(totals, ids[case["grouping"]], num_ids=3, method=case["method"])
        np.testing.assert_allclose(actual, case["full_mode_result"], rtol=1e-5, atol=1e-6)
    assert len(golden["cases"]) >= 8


def test_the_length_penalty_grows_over_the_buffer_and_is_whole_at_the_budget():
    lengths = np.arange(12)
    penalties = np.asarray(core.overlong_penalties(lengths, budget=10, buffer=4, penalty=2.0))
    np.testing.assert_allclose(penalties, [0, 0, 0, 0, 0, 0, 0, -0.5, -1.0, -1.5, -2.0, -2.0])
    whole = np.asarray(core.overlong_penalties(lengths, budget=10, buffer=10, penalty=1.0))
    np.testing.assert_allclose(whole, -np.minimum(lengths / 10, 1), rtol=1e-6)


def test_turn_lengths_count_the_sampled_tokens_of_each_turn():
    turns = np.array([[0, 0, -1, 1, 2, 2], [0, -1, -1, -1, -1, -1], [0, 0, 0, 1, 1, 1]], np.int32)
    mask = turns >= 0
    mask[2, 5] = False
    assert core.turn_lengths(turns, mask, max_turns=4).tolist() == [[2, 1, 2, 0], [1, 0, 0, 0], [3, 2, 0, 0]]


def test_refusals_name_the_value():
    x = np.zeros(2, np.float32)
    with pytest.raises(ValueError, match="'mean_st'"):
        core.normalize_rewards(x, x.astype(int), num_ids=1, method="mean_st")
    for buffer in (0, 11):
        with pytest.raises(ValueError, match=f"buffer={buffer}"):
            core.overlong_penalties(x, budget=10, buffer=buffer, penalty=1.0)
    with pytest.raises(ValueError, match=r"penalty=-0\.5"):
        core.overlong_penalties(x, budget=10, buffer=2, penalty=-0.5)
