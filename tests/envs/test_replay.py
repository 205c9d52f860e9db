"""Replays of stored plans: the same dynamics as an episode, other noise."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ragen_jax.envs import ENVS, make_env
from ragen_jax.envs.base import TextEnv
from ragen_jax.envs.instances import dynamics_rng, replay_rng
from tests.oracles.frozen_lake import success_of_plan

PLAN = "right right down down left"


def lake(**options):
    return make_env("frozen_lake", **{"max_turns": 1, "max_actions_per_turn": 10, "action_separator": " "} | options)


@pytest.mark.parametrize("slip_rate", [0.2, 0.5, 0.8])
def test_replays_of_a_lake_have_the_mean_of_the_exact_dynamics(slip_rate):
    env = lake(slip_rate=slip_rate)
    rng = np.random.default_rng(0)
    for seed in range(6):
        env.reset(seed)
        plan = env.demonstrate(rng, skill=1.0).answer
        draws = 4000
        rewards = env.replay([plan], seed=seed, member=0, draws=draws)
        assert rewards.shape == (draws,) and set(rewards.tolist()) <= {0.0, 1.0}
        truth = success_of_plan(env.lake, plan.split(), slip_rate)
        assert abs(rewards.mean() - truth) < 4 * np.sqrt(max(truth * (1 - truth), 1 / draws) / draws)


def test_a_lake_without_slips_replays_its_episode():
    env = lake(slip_rate=0.0)
    rng = np.random.default_rng(1)
    for seed in range(20):
        env.reset(seed)
        answer = env.demonstrate(rng, skill=0.5).answer
        expected = env.step(answer).reward
        assert env.replay([answer], seed=seed, member=seed, draws=3).tolist() == [expected] * 3


def test_the_budgets_of_an_episode_hold_in_a_replay():
    env = lake(slip_rate=0.0, max_actions=2, max_actions_per_turn=3)
    for seed in range(20):
        env.reset(seed)
        path = [("left", "down", "right", "up")[a] for a in env.lake.shortest_path(env.lake.start)]
        for answer in (" ".join(path), "left right " + " ".join(path), "nonsense", ""):
            env.reset(seed)
            assert env.replay([answer], seed=seed, member=0, draws=1).tolist() == [env.step(answer).reward]


def test_a_locked_goal_pays_nothing_in_a_replay():
    env = lake(slip_rate=0.1, locked_share=1.0)
    env.reset(3)
    plan = env.demonstrate(np.random.default_rng(0), skill=1.0).answer
    assert not env.replay([plan], seed=3, member=0, draws=50).any()


def test_a_replay_leaves_the_running_episode_alone():
    for name, answer in (("frozen_lake", "right down"), ("bandit", "A")):
        env = lake(slip_rate=0.5) if name == "frozen_lake" else make_env("bandit", choose_by="letter")
        env.reset(4, member=2)
        undisturbed = env.step(answer)
        env.reset(4, member=2)
        env.replay([answer], seed=9, member=1, draws=5)
        assert env.step(answer) == undisturbed


def test_noise_is_shared_with_no_member_and_no_other_replay():
    streams = {
        tuple(make(seed, member).random(4))
        for make in (dynamics_rng, replay_rng)
        for seed in (3, 4)
        for member in (0, 1)
    }
    assert len(streams) == 8
    env = lake(slip_rate=0.5)
    env.reset(0)
    plan = [env.demonstrate(np.random.default_rng(0), skill=1.0).answer]
    first = env.replay(plan, seed=0, member=0, draws=400)
    assert (first == env.replay(plan, seed=0, member=0, draws=400)).all()
    assert (first != env.replay(plan, seed=0, member=1, draws=400)).any()


def test_shared_dynamics_are_not_shared_by_replays():
    """They would make all replays of a group one draw."""
    env = lake(slip_rate=0.5, shared_dynamics=True)
    env.reset(0)
    plan = [env.demonstrate(np.random.default_rng(0), skill=1.0).answer]
    assert (env.replay(plan, seed=0, member=0, draws=400) != env.replay(plan, seed=0, member=1, draws=400)).any()


def test_a_bandit_replays_the_luck_of_its_arm():
    env = make_env("bandit", risky_probability=0.25, choose_by="letter")
    env.reset(5)
    safe, risky = (env.choices[env.arms.index(arm)] for arm in (env._safe, env._risky))
    draws = 4000
    assert env.replay([safe], seed=5, member=0, draws=7).tolist() == [env.config.safe_reward] * 7
    assert abs(env.replay([risky], seed=5, member=0, draws=draws).mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / draws)
    for plan in (["neither"], []):
        assert not env.replay(plan, seed=5, member=0, draws=9).any()


@pytest.mark.parametrize("name", ["frozen_lake", "bandit"])
def test_several_turns_are_refused(name):
    env = make_env(name, max_turns=3)
    with pytest.raises(ValueError, match=r"max_turns=3.*later answers react"):
        env.replay(["left"], seed=0, member=0, draws=2)
    one = make_env(name, max_turns=1)
    with pytest.raises(ValueError, match="a plan of 2 answers"):
        one.replay(["left", "up"], seed=0, member=0, draws=2)
    with pytest.raises(ValueError, match="draws=0"):
        one.replay(["left"], seed=0, member=0, draws=0)


def test_an_environment_without_noise_says_so():
    without = [name for name in ENVS if ENVS[name].replay is TextEnv.replay]
    assert {"sokoban", "countdown"} <= set(without)
    with pytest.raises(NotImplementedError, match=r"'sokoban' has no replay.*reward_variance"):
        make_env("sokoban").replay(["left"], seed=0, member=0, draws=1)


def test_a_batch_of_replays_is_quick():
    """128 plans by 8 replays, processor time; a guard against a slow loop, ten times above what it takes."""
    env = lake(slip_rate=0.5)
    began = time.process_time()
    for row in range(128):
        env.replay([PLAN], seed=row // 16, member=row % 16, draws=8)
    assert time.process_time() - began < 1.0
