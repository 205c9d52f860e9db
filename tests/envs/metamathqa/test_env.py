"""Episodes of MetaMathQA: attempts, rewards, ends, and a checker that fails."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.envs import make_env
from ragen_jax.envs.metamathqa import MetaMathQA, MetaMathQARetry, symbolic
from ragen_jax.envs.pool import EnvPool
from ragen_jax.rollout.prompting import UserMessages


def _env(name: str = "metamathqa", **options: object) -> MetaMathQA:
    env = make_env(name, checker="exact", **options)
    assert isinstance(env, MetaMathQA)
    return env


def test_one_attempt_ends_the_episode() -> None:
    for answer, reward in (("right", 1.0), ("wrong", 0.0)):
        env = _env()
        env.reset(1)
        result = env.step(env.problem.answer if answer == "right" else "0")
        assert (result.reward, result.terminated, result.truncated) == (reward, True, False)
        assert result.info["success"] == (answer == "right")
        assert result.info["verdict"] == answer
        with pytest.raises(RuntimeError, match="call reset"):
            env.step("1")


@pytest.mark.parametrize("wrong", range(5))
def test_each_attempt_halves_the_reward(wrong: int) -> None:
    env = _env("metamathqa_retry")
    env.reset(2)
    for attempt in range(1, wrong + 1):
        result = env.step("0")
        assert (result.reward, result.done, result.info["attempts"]) == (0.0, False, attempt)
        assert result.info["actions_taken"] == ("attempt",)
    result = env.step(env.problem.answer)
    assert (result.reward, result.terminated, result.info["attempts"]) == (0.5**wrong, True, wrong + 1)


def test_the_last_wrong_attempt_ends_and_pays_nothing() -> None:
    env = _env("metamathqa_retry", max_actions=2)
    env.reset(2)
    assert not env.step("0").done
    result = env.step("0")
    assert (result.reward, result.terminated, result.info["success"]) == (0.0, True, False)


def test_the_attempts_left_are_told_once_and_right() -> None:
    """By the message alone: it knows the turns that replies without an answer have used up."""
    env = _env("metamathqa_retry", max_turns=8)
    messages = UserMessages(env.config, max_turns=8, show_rewards=False)
    said = [messages.first(env.reset(2)), messages.next(env.step("")), messages.next(env.step("0"))]
    said += [messages.next(None) for _ in range(4)]
    said.append(messages.next(env.step("0")))
    left = [re.findall(r"(?i)(?:left: |still take )(\d+)", text) for text in said]
    assert left == [["5"], ["5"], ["4"], ["4"], ["4"], ["3"], ["2"], ["1"]]


def test_an_empty_answer_uses_a_turn_and_no_attempt() -> None:
    env = _env("metamathqa_retry", max_turns=3, max_actions=3)
    env.reset(2)
    first = env.step(" ")
    assert not first.info["action_is_valid"]
    assert not first.info["action_is_effective"]
    assert first.info["attempts"] == 0
    assert env.step("").done is False
    last = env.step("")
    assert (last.terminated, last.truncated) == (False, True)
    env.reset(2)
    env.step("")
    assert env.step(env.problem.answer).reward == 1.0


def test_several_answers_are_an_attempt_that_is_not_valid() -> None:
    env = _env("metamathqa_retry")
    env.reset(2)
    result = env.step(f"1 or {env.problem.answer}")
    assert result.info["several_answers"]
    assert not result.info["action_is_valid"]
    assert (result.reward, result.info["attempts"]) == (0.0, 1)
    assert env.step(env.problem.answer).reward == 0.5


def test_the_feedback_never_shows_the_answer() -> None:
    env = _env("metamathqa_retry")
    for seed in range(40):
        env.reset(seed)
        if env.problem.answer not in ("3", "4"):  # numbers of attempts
            assert env.problem.answer not in env.step("0").observation.text


def test_a_failing_checker_makes_the_row_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a wrong answer: the pool has an error and no result for it."""

    def fail(*_: object, **__: object) -> None:
        raise symbolic.CheckerError("the process died")

    monkeypatch.setattr("ragen_jax.envs.metamathqa.env.judge", fail)
    with EnvPool("metamathqa", _env().config, groups=1, group_size=2, workers=1) as pool:
        pool.reset([3])
        assert pool.step(["1", None]) == [None, None]
        assert pool.errors == ["CheckerError: the process died", None]


def test_the_checker_process_starts_with_the_first_expression(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[float] = []
    monkeypatch.setattr("ragen_jax.envs.metamathqa.env.shared_checker", started.append)
    monkeypatch.setattr("ragen_jax.envs.metamathqa.config.require_package", lambda: None)
    for gold, starts in (("7", []), ("Monday", []), ("x^2", [0.25])):
        file = tmp_path / f"{len(gold)}.jsonl"
        file.write_text(json.dumps({"query": "Which one?", "response": f"#### {gold}"}))
        make_env("metamathqa", data_file=str(file), split="all", time_limit_s=0.25).reset(0)
        assert started == starts


def test_adversarial_answers_earn_nothing() -> None:
    env = _env()
    earned = []
    for seed in range(100):
        question = env.reset(seed).text
        numbers = [word.strip(".,?") for word in question.split() if word.strip(".,?").isdigit()]
        for answer in (" or ".join(numbers), ", ".join(numbers), question[:60], "x", "__import__('os').getpid()"):
            env.reset(seed)
            earned.append(env.step(answer).reward)
    assert max(earned) == 0.0


def test_a_demonstration_quotes_the_numbers_and_calculates() -> None:
    env = _env()
    env.reset(1)
    right = env.demonstrate(np.random.default_rng(0), skill=1.0)
    assert right.answer == env.problem.answer
    assert env.problem.work in right.reasoning
    assert env.demonstrate(np.random.default_rng(0), skill=0.0).answer != env.problem.answer


def test_a_demonstration_carries_no_marker_of_the_data(tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    row = {"query": "Which word?", "response": "Say <answer> </think>\nThe answer is: word<|im_end|></answer>"}
    data.write_text(json.dumps(row) + "\n", encoding="utf-8")
    env = _env(data_file=str(data), split="all")
    env.reset(0)
    shown = env.demonstrate(np.random.default_rng(0), skill=1.0)
    assert not any(marker in shown.reasoning + shown.answer for marker in ("<answer>", "</", "<|"))
    assert env.step(shown.answer).info["success"]


@given(text=st.text(max_size=100))
@settings(max_examples=25, deadline=None)
def test_any_text_is_judged(text: str) -> None:
    env = _env("metamathqa_retry")
    env.reset(5)
    assert env.step(text).reward in (0.0, 1.0)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("metamathqa", {"max_turns": 2}, "metamathqa_retry has several"),
        ("metamathqa_retry", {"max_actions": 6}, "max_actions=6 attempts in max_turns=5"),
        (
            "metamathqa",
            {"max_actions_per_turn": 2},
            "max_actions_per_turn=2 has no effect because an answer is one action",
        ),
        ("metamathqa", {"dataset": "math"}, "use one of metamath, gsm8k"),
        ("metamathqa", {"checker": "sympy"}, "use one of symbolic, exact"),
        ("metamathqa", {"checker": "exact", "time_limit_s": 1.0}, "no effect"),
        ("metamathqa", {"checker": "exact", "data_file": "nowhere.jsonl"}, "data_file='nowhere.jsonl': no such file"),
    ],
)
def test_options_without_sense_are_refused(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_env(name, **({"checker": "exact"} if options.get("dataset") else {}) | options)


def test_a_time_limit_out_of_range_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragen_jax.envs.metamathqa.config.require_package", lambda: None)
    for limit in (0.0, 11.0):
        with pytest.raises(ValueError, match="at most 10 seconds"):
            make_env("metamathqa", time_limit_s=limit)


def test_the_two_environments_differ_in_their_budgets_only() -> None:
    assert issubclass(MetaMathQARetry, MetaMathQA)
    assert _env().instructions().splitlines()[:2] == _env("metamathqa_retry").instructions().splitlines()[:2]
    assert "5 attempts" in _env("metamathqa_retry").instructions()
