from __future__ import annotations

import numpy as np
import pytest

from ragen_jax import core
from ragen_jax.core.filters import replayed_variance, signal_variance


def ranks(values):
    return np.argsort(np.argsort(values))


def planted(seed, replays):
    """Prompts whose plans differ more and more, with noise that has nothing to do with that; [P, G, K] and Var(mu)."""
    rng = np.random.default_rng(seed)
    prompts, group = 64, 16
    scale = np.linspace(0.05, 1.0, prompts)
    noise = rng.permutation(np.linspace(0.2, 2.0, prompts))
    mu = rng.normal(size=(prompts, group)) * scale[:, None]
    rewards = mu[:, :, None] + noise[:, None, None] * rng.normal(size=(prompts, group, replays))
    return rewards.astype(np.float32), mu.var(axis=1, ddof=1)


def test_one_replay_is_the_plain_variance():
    rewards, _ = planted(0, 1)
    np.testing.assert_allclose(replayed_variance(rewards), core.group_variance(rewards[:, :, 0]), rtol=1e-6)


def test_replays_rank_prompts_better_than_one_rollout():
    plain, replayed = [], []
    for seed in range(20):
        rewards, truth = planted(seed, 8)
        plain.append(np.corrcoef(ranks(core.group_variance(rewards[:, :, 0])), ranks(truth))[0, 1])
        replayed.append(np.corrcoef(ranks(replayed_variance(rewards)), ranks(truth))[0, 1])
    gain = np.subtract(replayed, plain)
    assert gain.mean() > 0.1
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))


def test_expectations_are_as_documented():
    rng = np.random.default_rng(1)
    prompts, group, replays = 4000, 8, 4
    rewards = (rng.normal(size=(prompts, group, 1)) + 2.0 * rng.normal(size=(prompts, group, replays))).astype(
        np.float32
    )
    assert abs(float(np.mean(replayed_variance(rewards))) - (1.0 + 4.0 / replays)) < 0.06
    rewards_strong = (3.0 * rng.normal(size=(prompts, group, 1)) + rng.normal(size=(prompts, group, replays))).astype(
        np.float32
    )
    assert abs(float(np.mean(signal_variance(rewards_strong))) - 9.0) < 0.3


def test_equal_plans_without_noise_give_zero():
    rewards = np.full((2, 4, 3), 0.1, np.float32)
    assert replayed_variance(rewards).tolist() == signal_variance(rewards).tolist() == [0.0, 0.0]


def test_invalid_rollouts_take_no_part():
    rewards, _ = planted(2, 3)
    valid = np.ones(rewards.shape[:2], bool)
    valid[:, 5:] = False
    np.testing.assert_allclose(signal_variance(rewards, valid), signal_variance(rewards[:, :5]), rtol=1e-5, atol=1e-6)


def test_one_replay_does_not_show_the_noise():
    with pytest.raises(ValueError, match="1 replay"):
        signal_variance(np.zeros((2, 3, 1), np.float32))
