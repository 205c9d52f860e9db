from __future__ import annotations

import json

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core
from ragen_jax.core.advantages import ADVANTAGES, TOKEN_LEVEL, AdvantageInputs, AdvantageOptions
from tests.oracles import learning as oracle

GROUP_ESTIMATORS = [name for name in ADVANTAGES if name not in TOKEN_LEVEL]
OPTIONS = AdvantageOptions()
REWARDS = st.integers(-20, 40).map(lambda n: n / 4)


def make(rewards, valid=None, mask=None, values=None, kl_rewards=None):
    rewards = np.asarray(rewards, np.float32)
    rows = rewards.size
    mask = np.ones((rows, 3), bool) if mask is None else np.asarray(mask, bool)
    token_rewards = np.zeros(mask.shape, np.float32)
    token_rewards[np.arange(rows), [np.flatnonzero(m)[-1] if m.any() else 0 for m in mask]] = rewards.ravel()
    return AdvantageInputs(
        rewards=rewards,
        valid=np.ones(rewards.shape, bool) if valid is None else np.asarray(valid, bool),
        token_rewards=token_rewards,
        kl_rewards=np.zeros(mask.shape, np.float32) if kl_rewards is None else np.asarray(kl_rewards, np.float32),
        values=np.zeros(mask.shape, np.float32) if values is None else np.asarray(values, np.float32),
        response_mask=mask,
        turn_ids=np.where(mask, 0, -1).astype(np.int32),
    )


@pytest.mark.parametrize("estimator", GROUP_ESTIMATORS)
@pytest.mark.parametrize("rewards", [[[1.0] * 4], [[0.0] * 4], [[0.35] * 8], [[10.9] * 16], [[3.0]]])
def test_c01_flat_groups_and_groups_of_one_give_exactly_zero(estimator, rewards):
    advantages, _ = ADVANTAGES[estimator](make(rewards), OPTIONS)
    assert np.asarray(advantages).tolist() == np.zeros((len(rewards[0]), 3)).tolist()


@pytest.mark.parametrize("estimator", GROUP_ESTIMATORS)
def test_c01_the_policy_gradient_of_a_flat_group_is_zero(estimator):
    advantages, _ = ADVANTAGES[estimator](make([[0.35] * 8]), OPTIONS)
    mask = np.ones((8, 3), bool)
    old = np.full((8, 3), -1.0, np.float32)
    gradient = jax.grad(lambda x: core.ppo_policy_loss(x, old, advantages, mask, clip_low=0.2, clip_high=0.28)[0])(
        old + 0.1
    )
    assert not np.asarray(gradient).any()


def test_c02_the_two_group_estimators():
    rewards = np.array([[1, 0, 0, 0]], np.float32)
    grpo = core.group_advantages(rewards, normalize_by_std=True)
    np.testing.assert_allclose(grpo, [[1.5, -0.5, -0.5, -0.5]], atol=1e-4)
    assert core.group_advantages(rewards, normalize_by_std=False).tolist() == [[0.75, -0.25, -0.25, -0.25]]
    per_prompt = core.group_advantages(np.array([[0, 1], [10, 11]], np.float32), normalize_by_std=True)
    np.testing.assert_allclose(per_prompt, [[-0.7071, 0.7071]] * 2, atol=1e-4)


@pytest.mark.parametrize("normalize_by_std", [True, False])
@given(rewards=hnp.arrays(np.float32, (2, 4), elements=REWARDS), valid=hnp.arrays(bool, (2, 4)))
def test_group_advantages_agree_with_the_oracle(normalize_by_std, rewards, valid):
    expected = oracle.group_advantages(rewards, valid, normalize_by_std=normalize_by_std)
    actual = core.group_advantages(rewards, valid, normalize_by_std=normalize_by_std)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@given(rewards=hnp.arrays(np.float32, (2, 4), elements=REWARDS), valid=hnp.arrays(bool, (2, 4)))
def test_leave_one_out_subtracts_the_mean_of_the_others(rewards, valid):
    actual = np.asarray(core.leave_one_out(rewards, valid))
    for i, k in np.ndindex(2, 4):
        others = [float(rewards[i, j]) for j in range(4) if valid[i, j] and j != k]
        expected = float(rewards[i, k]) - sum(others) / len(others) if valid[i, k] and others else 0.0
        np.testing.assert_allclose(actual[i, k], expected, rtol=1e-5, atol=1e-5)


def test_nan_in_an_invalid_row_stays_there():
    rewards = np.array([[1.0, 0.0, np.nan]], np.float32)
    valid = np.array([[True, True, False]])
    np.testing.assert_allclose(core.group_advantages(rewards, valid, normalize_by_std=False), [[0.5, -0.5, 0.0]])
    np.testing.assert_allclose(core.leave_one_out(rewards, valid), [[1.0, -1.0, 0.0]])


@pytest.mark.parametrize("estimator", list(ADVANTAGES))
def test_every_estimator_runs_inside_jit_and_leaves_masked_positions_at_zero(estimator):
    mask = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]], bool)
    inputs = make([[1.0, 0.0], [3.0, 5.0]], mask=mask)
    options = AdvantageOptions(gamma=0.9, lam=0.8, turn_gamma=0.7)
    advantages, returns = jax.jit(lambda x: ADVANTAGES[estimator](x, options))(inputs)
    assert advantages.shape == returns.shape == mask.shape
    assert not np.asarray(advantages)[~mask].any()
    assert not np.asarray(returns)[~mask].any()
    assert np.asarray(advantages)[:3].any()


@pytest.mark.parametrize("estimator", list(ADVANTAGES))
def test_invalid_rows_get_nothing_and_change_nothing(estimator):
    valid = [[True, True, False]]
    first, _ = ADVANTAGES[estimator](make([[1.0, 0.0, 7.0]], valid), OPTIONS)
    second, _ = ADVANTAGES[estimator](make([[1.0, 0.0, -50.0]], valid), OPTIONS)
    np.testing.assert_array_equal(first, second)
    assert not np.asarray(first)[2].any()
    assert np.asarray(first)[0].all()


def test_c13_turn_rewards_enter_the_group_as_returns():
    returns = np.array([[-0.1 - 0.1 + 10.9, -0.1 * 5]], np.float32)
    centred = core.group_advantages(returns, normalize_by_std=False)
    np.testing.assert_allclose(centred, [[5.6, -5.6]], rtol=1e-5)


def test_net_token_weight_sees_short_successes():
    rewards = [[1.0, 0.0]]
    mask = np.array([[1, 0, 0, 0], [1, 1, 1, 1]], bool)
    advantages, _ = ADVANTAGES["grpo"](make(rewards, mask=mask), OPTIONS)
    np.testing.assert_allclose(core.net_token_weight(advantages, mask), (1 - 4) / 5, rtol=1e-5)
    assert float(core.net_token_weight(np.zeros((2, 4)), mask)) == 0.0


@given(rewards=hnp.arrays(np.float32, (3, 2), elements=REWARDS), mask=hnp.arrays(bool, (6, 4)))
def test_centred_over_tokens_a_group_pushes_its_tokens_nowhere(rewards, mask):
    advantages, _ = ADVANTAGES["grpo"](make(rewards, mask=mask), OPTIONS)
    centred = np.asarray(core.center_over_tokens(advantages, mask, group_size=2), np.float64)
    assert not centred[~mask].any()
    for group in range(3):
        rows = slice(2 * group, 2 * group + 2)
        assert abs(centred[rows].sum()) < 1e-5
        tokens = mask[rows].sum()
        if tokens:  # only one number per group was subtracted
            shift = np.asarray(advantages)[rows][mask[rows]] - centred[rows][mask[rows]]
            np.testing.assert_allclose(shift, np.asarray(advantages)[rows].sum() / tokens, atol=1e-5)
    assert abs(float(core.net_token_weight(centred, mask))) < 1e-5


def test_centring_over_tokens_leaves_flat_groups_at_exactly_zero():
    mask = np.array([[1, 1, 1], [1, 0, 0]], bool)
    advantages, _ = ADVANTAGES["grpo"](make([[0.35, 0.35]], mask=mask), OPTIONS)
    assert not np.asarray(core.center_over_tokens(advantages, mask, group_size=2)).any()


@pytest.mark.parametrize("estimator", GROUP_ESTIMATORS)
def test_a_kl_in_the_reward_is_not_blown_up_in_a_flat_group(estimator):
    """Dividing by the spread of a flat group would make advantages of size 1 of a KL of 1e-3."""
    kl_rewards = np.zeros((4, 3), np.float32)
    kl_rewards[0, 1] = -0.001
    flat, _ = ADVANTAGES[estimator](make([[1.0] * 4], kl_rewards=kl_rewards), OPTIONS)
    scale = 4 / 3 if estimator == "rloo" else 1.0
    expected = scale * np.array([-0.00075, 0.00025, 0.00025, 0.00025])
    np.testing.assert_allclose(flat, np.repeat(expected[:, None], 3, 1), rtol=1e-4)


def test_the_task_part_is_ranked_and_normalised_without_the_kl():
    rewards = [[1.0, 0.0, 0.0, 0.0]]
    kl_rewards = np.full((4, 3), -0.1, np.float32)
    kl_rewards[3] = 0.2
    with_kl, _ = ADVANTAGES["grpo"](make(rewards, kl_rewards=kl_rewards), OPTIONS)
    task, _ = ADVANTAGES["grpo"](make(rewards), OPTIONS)
    part = np.array([-0.3, -0.3, -0.3, 0.6])
    np.testing.assert_allclose(with_kl - task, np.repeat((part - part.mean())[:, None], 3, 1), atol=1e-6)


@pytest.mark.parametrize("estimator", sorted(TOKEN_LEVEL - {"bi_level_gae"}))
def test_token_level_estimators_credit_each_token_with_its_own_kl(estimator):
    kl_rewards = np.zeros((2, 3), np.float32)
    kl_rewards[0, 1] = -0.5
    with_kl, _ = ADVANTAGES[estimator](make([[1.0, 0.0]], kl_rewards=kl_rewards), OPTIONS)
    task, _ = ADVANTAGES[estimator](make([[1.0, 0.0]]), OPTIONS)
    np.testing.assert_allclose(np.asarray(with_kl - task), [[-0.5, -0.5, 0], [0, 0, 0]], atol=1e-6)


@pytest.mark.parametrize("estimator", [name for name in ADVANTAGES if name != "bi_level_gae"])
def test_the_kl_of_masked_tokens_and_invalid_rows_is_not_read(estimator):
    mask = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1]], bool)
    valid = [[True, True, False]]
    kl_rewards = np.where(mask, -0.25, np.nan).astype(np.float32)
    kl_rewards[2] = np.nan
    advantages, _ = ADVANTAGES[estimator](make([[1.0, 0.0, 3.0]], valid, mask, kl_rewards=kl_rewards), OPTIONS)
    clean, _ = ADVANTAGES[estimator](
        make([[1.0, 0.0, 3.0]], valid, mask, kl_rewards=np.nan_to_num(kl_rewards)), OPTIONS
    )
    np.testing.assert_array_equal(advantages, clean)


def test_golden_grpo_and_rloo(golden_dir):
    golden = json.loads((golden_dir / "advantages.json").read_text())
    compared = 0
    for case in golden["grpo"]:
        if case["episode_ids"] is not None:  # rows there are turns of episodes, a layout of the released code
            continue
        ids = np.array(case["index"])
        actual = core.group_advantages_by_id(
            np.array(case["scores"], np.float32), ids, num_groups=len(ids), normalize_by_std=case["norm_by_std"]
        )
        # A group of one keeps its raw score there; the right value is 0.
        several = np.bincount(ids)[ids] > 1
        expected = np.array(case["advantages"])[several]
        mask = np.array(case["mask"])[several]
        np.testing.assert_allclose(np.asarray(actual)[several, None] * mask, expected, rtol=1e-5, atol=1e-6)
        assert not np.asarray(actual)[~several].any()
        compared += several.sum()
    assert compared >= 12
    others = golden["others"]
    rloo = next(case for case in others["cases"] if case["fn"] == "rloo")
    rows = [0, 1, 2, 3, 4, 5]  # three groups of two
    actual = core.leave_one_out(np.array(others["scores"], np.float32)[rows].reshape(3, 2))
    expected = np.array(rloo["advantages"])[rows]
    np.testing.assert_allclose(np.asarray(actual).reshape(-1, 1) * np.array(others["mask"])[rows], expected, rtol=1e-5)
