"""What a rollout relies on, for every registered environment: flags, ends, budgets, and text without markers."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest

from experiments._env_policies import sheet
from ragen_jax.envs import ENVS, StepResult, TextEnv, env_config
from ragen_jax.envs.parsing import ANSWER, END_MARKER, THINK
from ragen_jax.rollout.prompting import UserMessages
from tests.env_fixtures import INSTALLED, every_env, make

FLAGS = ("success", "action_is_valid", "action_is_effective")
MARKERS = (*THINK, *ANSWER, END_MARKER)


def check(result: StepResult) -> None:
    assert isinstance(result.reward, float) and math.isfinite(result.reward)
    assert type(result.terminated) is bool and type(result.truncated) is bool
    assert not (result.terminated and result.truncated)
    assert all(type(result.info[flag]) is bool for flag in FLAGS)
    assert not result.info["success"] or result.done
    numbers = [value for value in result.info.values() if isinstance(value, (int, float, np.number))]
    assert all(math.isfinite(value) for value in numbers)
    assert not any(marker in result.observation.text for marker in MARKERS)


def episode(env: TextEnv, seed: int, rng: np.random.Generator, act) -> list[StepResult]:
    """Results of a whole episode; every message that a policy would see is made."""
    messages = UserMessages(env.config, max_turns=env.config.max_turns, show_rewards=True)
    observation = env.reset(seed)
    assert not any(marker in observation.text for marker in MARKERS)
    assert observation.text in messages.first(observation)
    shown, results = observation.text, []
    while not (results and results[-1].done):
        assert len(results) < env.config.max_turns, "the turn budget did not end the episode"
        results.append(env.step(act(env, shown, rng)))
        check(results[-1])
        shown = results[-1].observation.text
        assert shown in messages.next(results[-1])
    return results


@every_env
def test_every_step_of_a_guesser_keeps_the_contract(name: str) -> None:
    env, rng = make(name), np.random.default_rng(0)
    for seed in range(2 if name == "deepcoder" else 8):
        episode(env, seed, rng, sheet(name).random.act)
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("anything")


@every_env
def test_before_the_first_reset_there_is_no_episode(name: str) -> None:
    env = make(name)
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("anything")
    with pytest.raises(RuntimeError, match="call reset"):
        env.canonical()


@every_env
def test_nonsense_ends_without_success_or_gain(name: str) -> None:
    env, rng = make(name), np.random.default_rng(0)
    results = episode(env, 3, rng, lambda env, shown, rng: "no such action, whatever comes")
    assert not any(result.info["success"] or result.info["action_is_valid"] for result in results)
    assert sum(result.reward for result in results) <= 0


@every_env
def test_an_episode_leaves_nothing_behind(name: str) -> None:
    used, rng = make(name), np.random.default_rng(0)
    act = (lambda env, shown, rng: "") if name == "deepcoder" else sheet(name).random.act
    episode(used, 1, rng, act)
    fresh = make(name)
    assert used.reset(2).text == fresh.reset(2).text
    both = [[env.demonstrate(np.random.default_rng(5), skill=1.0) for _ in range(2)] for env in (used, fresh)]
    assert both[0] == both[1]


@every_env
def test_the_budgets_that_are_told_are_those_that_hold(name: str) -> None:
    config = env_config(name)
    if config.max_turns == 1:
        pytest.skip("episodes of one answer have no other budget")
    budgets = {
        option: value for option, value in (("max_turns", 19), ("max_actions", 17)) if option not in config.fixed
    }
    env = make(name, **budgets)
    assert set(map(str, budgets.values())) <= set(re.findall(r"\d+", env.instructions()))
    results = episode(env, 3, np.random.default_rng(0), lambda env, shown, rng: "")
    assert results[-1].truncated and len(results) in budgets.values()


@every_env
def test_the_actions_left_that_a_policy_is_told_are_those_left(name: str) -> None:
    """An answer of several actions uses up several."""
    config = env_config(name)
    if config.max_actions_per_turn == 1:
        pytest.skip("every answer is one action")
    env, rng = make(name), np.random.default_rng(1)
    for seed in range(6):
        messages = UserMessages(config, max_turns=config.max_turns, show_rewards=False)
        text = messages.first(env.reset(seed))
        while True:
            result = env.step(sheet(name).random.act(env, text, rng))
            assert isinstance(result.info["actions_taken"], tuple)
            told = re.search(r"You can still take (-?\d+) action", text)
            assert told and int(told[1]) >= len(result.info["actions_taken"])
            text = messages.next(result)
            if result.done:
                break


@every_env
def test_no_message_promises_more_than_the_turns_hold(name: str) -> None:
    """Also when replies without an answer, which the environment never sees, use up turns."""
    config = env_config(name)
    env, rng = make(name), np.random.default_rng(2)
    messages = UserMessages(config, max_turns=config.max_turns, show_rewards=True)
    text = messages.first(env.reset(4))
    result = None
    for turn in range(config.max_turns):
        assert f"turn {turn + 1} of {config.max_turns}" in text
        told = re.findall(r"(?i)\b(?:still take (\d+) action|(?:turns|actions|attempts) left)", text)
        assert len(told) == (config.max_actions > 1)
        assert all(int(number) <= (config.max_turns - turn) * config.max_actions_per_turn for number in told)
        result = None if turn % 3 == 1 else env.step(sheet(name).random.act(env, text, rng))
        if result is not None and result.done:
            return
        text = messages.next(result)


@every_env
def test_the_source_of_rows_is_a_record(name: str) -> None:
    source = make(name).data_source()
    if source is not None:
        assert source.rows > 0
        assert source.kind in ("embedded", "path", "data_dir", "cache")
        assert re.fullmatch(r"[0-9a-f]{64}", source.sha256)
        assert f"{source.rows} rows" in source.describe()


@every_env
def test_every_option_is_documented(name: str) -> None:
    config = type(env_config(name))
    own = {field.name for field in dataclasses.fields(config)}
    documented = "".join(base.__doc__ or "" for base in config.__mro__)
    missing = [option for option in own if not re.search(rf"^ +{option}:", documented, re.MULTILINE)]
    assert not missing


def test_the_table_of_the_page_has_every_environment_and_its_budgets() -> None:
    page = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| (\d+, \d+|the server's) \|", page, re.MULTILINE))
    assert rows.keys() == set(ENVS)
    for name in INSTALLED:
        config = env_config(name)
        assert rows[name] == f"{config.max_turns}, {config.max_actions}", name
