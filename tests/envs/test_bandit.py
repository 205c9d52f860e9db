"""The bandit: two streams, name tables, rewards."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ragen_jax.envs import make_env
from ragen_jax.envs.bandit import TRAIN_PAIRS, VALIDATION_PAIRS


def _risky(env) -> str:
    risky = {pair[1] for pair in TRAIN_PAIRS + VALIDATION_PAIRS}
    return next(arm for arm in env.arms if arm in risky)


def test_no_name_stands_twice() -> None:
    names = [name for pair in TRAIN_PAIRS + VALIDATION_PAIRS for name in pair]
    assert len(set(names)) == len(names) == 40


def test_all_pairs_in_both_orders_are_drawn() -> None:
    for split, pairs in (("train", TRAIN_PAIRS), ("validation", VALIDATION_PAIRS)):
        env = make_env("bandit", split=split)
        seen = set()
        for seed in range(400):
            env.reset(seed)
            seen.add(env.arms)
        assert seen == {order for pair in pairs for order in itertools.permutations(pair)}


def test_members_share_the_prompt_but_not_the_luck() -> None:
    env = make_env("bandit")
    texts, rewards = set(), []
    for member in range(2000):
        texts.add(env.reset(5, member).text)
        result = env.step(_risky(env).upper())
        assert result.terminated
        assert result.info == {"success": True, "action_is_valid": True, "action_is_effective": True}
        rewards.append(result.reward)
    assert len(texts) == 1
    assert set(rewards) == {0.0, 1.0}
    assert abs(np.mean(rewards) - 0.25) < 3 * np.sqrt(0.25 * 0.75 / 2000)


def test_shared_dynamics_give_a_group_one_draw() -> None:
    env = make_env("bandit", shared_dynamics=True)
    for seed in range(5):
        rewards = set()
        for member in range(20):
            env.reset(seed, member)
            rewards.add(env.step(_risky(env)).reward)
        assert len(rewards) == 1


def test_the_safe_arm_pays_always_and_is_no_success() -> None:
    env = make_env("bandit", safe_reward=0.2)
    for member in range(20):
        env.reset(5, member)
        safe = next(arm for arm in env.arms if arm != _risky(env))
        result = env.step(safe)
        assert (result.reward, result.info["success"]) == (0.2, False)


def test_an_unknown_name_is_invalid_and_ends_with_the_turns() -> None:
    env = make_env("bandit", max_turns=2)
    env.reset(0)
    first = env.step("the left one")
    assert not first.done
    assert not first.info["action_is_valid"]
    second = env.step("")
    assert second.truncated
    assert second.reward == 0


def test_both_arms_in_one_answer_is_not_valid() -> None:
    env = make_env("bandit")
    env.reset(0)
    result = env.step(" || ".join(env.arms))
    assert result.terminated
    assert not result.info["action_is_valid"]


def test_misuse_is_an_error() -> None:
    env = make_env("bandit")
    with pytest.raises(RuntimeError, match="call reset"):
        env.canonical()
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("anchor")
    env.reset(0)
    env.step(env.arms[0])
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(env.arms[0])


@pytest.mark.parametrize(
    ("field", "value"), [("risky_probability", 1.5), ("max_actions_per_turn", 2), ("max_actions", 3)]
)
def test_impossible_options_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field}={value}"):
        make_env("bandit", **{field: value})


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"risky_probability": 1.0, "risky_else": 0.5}, "risky_else=0.5 has no effect because risky_probability=1"),
        ({"risky_probability": 0.0, "risky_reward": 0.5}, "risky_reward=0.5 has no effect because risky_probability=0"),
        ({"risky_probability": 1.0, "shared_dynamics": True}, "shared_dynamics=True has no effect"),
    ],
)
def test_options_of_a_sure_machine_are_refused(options: dict[str, object], refused: str) -> None:
    with pytest.raises(ValueError, match=refused):
        make_env("bandit", **options)


def test_the_better_machine_is_the_one_that_counts() -> None:
    assert make_env("bandit", risky_probability=1.0).config.risky_probability == 1
    assert make_env("bandit", risky_probability=0.0, risky_else=0.2).config.risky_else == 0.2
    for options in ({"safe_reward": 0.25}, {"risky_probability": 0.1}, {"risky_else": -0.5}):
        with pytest.raises(ValueError, match=r"safe_reward=0\.\d+ is not below -?0\.\d+, what the risky machine pays"):
            make_env("bandit", **options)


def test_letters_choose_too() -> None:
    env = make_env("bandit", choose_by="letter", split="validation")
    for seed in range(20):
        text = env.reset(seed).text
        first, second = env.arms
        assert text == f"Machines: A {first} B {second}"
        letter = "AB"[env.arms.index(_risky(env))]
        demonstration = env.demonstrate(np.random.default_rng(seed), skill=1.0)
        assert demonstration.answer == letter and first in demonstration.reasoning
        assert env.step(letter.lower()).info["success"]
    env.reset(0)
    assert not env.step(env.arms[0]).info["action_is_valid"]
    with pytest.raises(ValueError, match=r"choose_by='colour'"):
        make_env("bandit", choose_by="colour")


def test_instructions_speak_of_luck_where_there_is_some() -> None:
    assert "much or little, by luck" in make_env("bandit").instructions()
    for options in ({"risky_probability": 1.0}, {"risky_probability": 0.0, "risky_else": 0.5}):
        text = make_env("bandit", **options).instructions()
        assert "luck" not in text
        assert "the other pays more, every time too" in text
