"""Scores, feedback, observations and demonstrations of Countdown."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_jax.envs import make_env
from ragen_jax.envs.base import StepResult
from ragen_jax.envs.countdown import Countdown, Task
from ragen_jax.envs.countdown.expressions import numbers, parse, value


def _env(**options: object) -> Countdown:
    env = make_env("countdown", **options)
    assert isinstance(env, Countdown)
    return env


@pytest.fixture
def data_file(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"target": 15, "nums": [3, 5, 7]}), encoding="utf-8")
    return path


def _answer(data_file: Path, text: str, **options: object) -> StepResult:
    env = _env(data_file=str(data_file), split="all", **options)
    env.reset(0)
    return env.step(text)


@pytest.mark.parametrize(
    ("text", "reward", "valid"),
    [
        ("5+7+3", 1.0, True),
        ("5+7+3=15", 1.0, True),
        ("3*5", 0.0, True),  # 7 is not used
        ("5+5+5", 0.0, True),
        ("3/(5-5)+7", 0.0, True),  # 5 twice
        ("3+5*7", 0.1, True),
        ("3*5+7-7", 0.0, True),
        ("the sum of 3, 5 and 7", 0.0, False),
        ("3+5+7+", 0.0, False),
        ("3^5+7", 0.0, False),
        ("", 0.0, False),
    ],
)
def test_c31_scores(data_file: Path, text: str, reward: float, valid: bool) -> None:
    result = _answer(data_file, text)
    assert result.reward == reward
    assert result.info["success"] is (reward == 1.0)
    assert result.info["action_is_valid"] is valid
    assert result.info["action_is_effective"] is (reward > 0)
    assert result.terminated
    assert not result.truncated
    assert result.info["reachable"] is True
    assert (result.info["operators"], result.info["solution"]) == ("+", "3 + 5 + 7")


def test_division_by_zero_counts_as_a_wrong_value(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"target": 12, "nums": [7, 5, 5, 5]}), encoding="utf-8")
    result = _answer(path, "7 / (5 - 5) + 5")
    assert (result.reward, result.info["success"], result.info["action_is_valid"]) == (0.1, False, True)
    assert "zero" in result.observation.text


def test_c30_answers_are_never_executed(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _answer(data_file, '__import__("pathlib").Path("marker").touch()').reward == 0
    assert not (tmp_path / "marker").exists()
    begin = time.process_time()
    assert _answer(data_file, "9**9**9").reward == 0
    assert time.process_time() - begin < 1
    assert _answer(data_file, "7 + 5 + 3").reward == 1


@pytest.mark.parametrize(
    ("given_numbers", "target", "exploit"),
    [
        ((3, 5, 24), 24, "24 # 3 5"),
        ((3, 5, 24), 24, "24 or 3 or 5"),
        ((1, 3, 24), 24, "[3,24][1]"),
        ((3, 5, 24), 24, "24 if 3 else 5"),
        ((1, 2), 100, "1e2"),
        ((2, 3, 5), 7, "3.5*2"),
        ((10, 2), 32, "0x10 * 2"),
        ((2, 5), 32, "2**5"),
        ((2, 5), 2, "5//2"),
        ((3, 5), 8, "٣ + ٥"),
    ],
)
def test_exploits_of_text_evaluation_pay_nothing(
    tmp_path: Path, given_numbers: tuple[int, ...], target: int, exploit: str
) -> None:
    """Each has the digits of the numbers in it, and the target as its value where a text is evaluated by Python."""
    env = _env()
    env.reset(0)
    env._task = Task(given_numbers, target)  # most of these could never be drawn
    result = env.step(exploit)
    assert result.reward == 0
    assert result.info["success"] is False


def test_at_most_once_rule_is_an_option_and_said(data_file: Path) -> None:
    path = data_file.with_name("loose.jsonl")
    path.write_text(json.dumps({"target": 15, "nums": [3, 5, 8]}), encoding="utf-8")
    assert _answer(path, "3*5", use_all=False).reward == 1
    assert _answer(path, "5+5+5", use_all=False).reward == 0
    assert _answer(path, "3+5", use_all=False).reward == 0.1
    assert "every given number exactly once" in _env().instructions()
    assert "each given number at most once" in _env(use_all=False).instructions()


def test_the_whole_answer_is_one_expression(data_file: Path) -> None:
    assert _answer(data_file, "5+7+3 || 3*5").info["action_is_valid"] is False
    assert _answer(data_file, "5 + 7 + 3").reward == 1


def test_the_format_score_is_an_option(data_file: Path) -> None:
    reward = _answer(data_file, "3+5*7", format_score=0).reward
    assert isinstance(reward, float)
    assert reward == 0
    assert "0.25 when it only" in _env(format_score=0.25).instructions()
    assert "It pays 1 when it hits the target, else 0." in _env(format_score=0).instructions()


def test_observations_show_numbers_and_target(data_file: Path) -> None:
    full = _env(data_file=str(data_file), split="all")
    assert full.reset(0).text == "Numbers: 3, 5, 7\nTarget: 15"
    compact = _env(data_file=str(data_file), split="all", observation_format="compact", instructions="terse")
    assert compact.reset(0).text == "N 3 5 7 T 15"
    assert compact.instructions() == ""
    assert full.canonical() == compact.canonical() == "3 5 7 -> 15"


def test_a_second_answer_is_refused() -> None:
    env = _env()
    env.reset(0)
    env.step("1")
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("1")


@pytest.mark.parametrize("skill", [0.0, 1.0])
def test_demonstrations_calculate_rightly(skill: float) -> None:
    env = _env(numbers_max=3, max_number=9, min_target=1, max_target=60, observation_format="compact")
    rng = np.random.default_rng(0)
    successes = 0
    for seed in range(60):
        env.reset(seed)
        demonstration = env.demonstrate(rng, skill=skill)
        words = demonstration.reasoning
        assert f"use {' '.join(map(str, env.task.numbers))}" in words
        assert f"for {env.task.target}" in words
        assert skill or not re.search(r"\d/\d", words), "careless tries stay with whole numbers"
        for step in words.split("try ")[1].split(" then "):
            left, right = step.split(" = ")
            assert value(parse(left)) == value(parse(right))
        assert sorted(numbers(parse(demonstration.answer))) == sorted(env.task.numbers)
        successes += env.step(demonstration.answer).info["success"]
    assert successes == 60 if skill else successes < 20


def test_hopeless_tasks_are_demonstrated_carelessly() -> None:
    env = _env(unsolvable_share=1.0)
    rng = np.random.default_rng(0)
    for seed in range(20):
        env.reset(seed)
        result = env.step(env.demonstrate(rng, skill=1.0).answer)
        assert result.reward == 0.1
        assert result.info["reachable"] is False
        assert "operators_needed" not in result.info


@given(st.one_of(st.text(), st.text(alphabet="0123456789+-*/x÷()= ")))
def test_any_answer_is_data(answer: str) -> None:
    env = _env()
    env.reset(11)
    result = env.step(answer)
    assert result.reward in (0.0, 0.1, 1.0)
    assert result.terminated
