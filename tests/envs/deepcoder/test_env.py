"""Rewards, feedback and failures of the environment."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from ragen_jax.config import parse
from ragen_jax.envs import env_config, make_env
from ragen_jax.envs.deepcoder import DeepCoder, Judge, JudgeError
from ragen_jax.envs.deepcoder.process import MAX_CHILDREN
from ragen_jax.envs.pool import EnvPool


@pytest.fixture
def data_file(tmp_path: Path) -> str:
    path = tmp_path / "problems.jsonl"
    tests = {"inputs": ["1 2", "3 4", "5 -5", "0 0"], "outputs": ["3", "7", "0", "0"]}
    path.write_text(json.dumps({"problem": "Print the sum.", "tests": tests}), encoding="utf-8")
    return str(path)


def _env(tier: str, data_file: str = "", **options: object) -> DeepCoder:
    env = make_env("deepcoder", sandbox=tier, data_file=data_file, split="all", **options)
    assert isinstance(env, DeepCoder)
    env.reset(0)
    return env


@pytest.mark.parametrize(
    ("program", "all_reward", "share", "verdict", "valid", "effective"),
    [
        ("print(sum(map(int, input().split())))", 1.0, 1.0, "pass", True, True),
        ("```python\nprint(sum(map(int, input().split())))\n```", 1.0, 1.0, "pass", True, True),
        ("print(0)", 0.0, 0.5, "wrong", True, True),
        ("a, b = map(int, input().split())\nprint(a + b if a else 1 / a)", 0.0, 0.75, "error", True, False),
        ("x = open('/etc/passwd')", 0.0, 0.0, "forbidden", True, False),
        ("The answer is 3.", 0.0, 0.0, "error", False, False),
        ("", 0.0, 0.0, "error", False, False),
        ("x" * 40_000, 0.0, 0.0, "error", False, False),
    ],
)
def test_rewards(
    judge: Judge,
    data_file: str,
    program: str,
    all_reward: float,
    share: float,
    verdict: str,
    valid: bool,
    effective: bool,
) -> None:
    for reward, expected in (("all", all_reward), ("fraction", share)):
        result = _env(judge.sandbox.tier, data_file, reward=reward).step(program)
        assert (result.reward, result.info["verdict"]) == (expected, verdict)
        assert isinstance(result.reward, float)
        assert result.info["success"] is (all_reward == 1.0)
        assert (result.info["action_is_valid"], result.info["action_is_effective"]) == (valid, effective)
        flags = {name for name, value in result.info.items() if name.startswith("verdict_") and value}
        assert flags == ({f"verdict_{verdict}"} if verdict != "pass" else set())
        assert result.info.get("passed_share") == (share if reward == "fraction" else None)
        assert result.terminated
        assert not result.truncated


def test_a_failing_judge_is_no_reward(data_file: str) -> None:
    env = _env("rlimits", data_file)
    env._judge = dataclasses.replace(
        env._judge, sandbox=dataclasses.replace(env._judge.sandbox, python="/bin/false", wrapper=())
    )
    with pytest.raises(JudgeError, match="the judge failed at problem"):
        env.step("print(3)")


def test_a_failing_judge_makes_the_row_invalid(data_file: str) -> None:
    config = env_config("deepcoder", sandbox="rlimits", data_file=data_file, split="all")
    with EnvPool("deepcoder", config, groups=2, group_size=2, workers=4, step_timeout_s=60.0) as pool:
        pool.reset([0, 1])
        bad = pool.envs[1]
        assert isinstance(bad, DeepCoder)
        bad._judge = dataclasses.replace(
            bad._judge, sandbox=dataclasses.replace(bad._judge.sandbox, python="/bin/false", wrapper=())
        )
        results = pool.step(["print(sum(map(int, input().split())))"] * 4)
    assert [result and result.reward for result in results] == [1.0, None, 1.0, 1.0]
    assert pool.errors[1] is not None
    assert "JudgeError" in pool.errors[1]


def test_nothing_of_a_hidden_test_is_shown(judge: Judge) -> None:
    env = _env(judge.sandbox.tier)
    seen = [env.instructions(), env.canonical(), env.reset(5).text, env.step("print(12345)").observation.text]
    for test in env.problem.tests:
        if len(test.expected) > 4:
            assert not any(test.expected in text for text in seen)
    assert seen[2].endswith(env.problem.starter_code)


def test_instructions_say_what_holds() -> None:
    env = _env("rlimits", reward="fraction", time_limit_s=3, memory_limit_mb=128)
    assert "3 seconds and 128 MiB" in env.instructions()
    assert "the share of hidden tests" in env.instructions()
    assert "the examples of the problem are not among them" in env.instructions()
    assert "1 when every hidden test passes" in _env("rlimits").instructions()
    assert _env("rlimits", instructions="terse").instructions() == ""


def test_demonstrations_need_a_solution(data_file: str) -> None:
    with pytest.raises(ValueError, match="has no reference solution"):
        _env("rlimits", data_file).demonstrate(np.random.default_rng(0), skill=1.0)


@pytest.mark.parametrize("marker", ["<think>", "</think>", "<answer>", "</answer>", "<|im_end|>"])
def test_no_demonstration_ends_its_own_answer(tmp_path: Path, marker: str) -> None:
    path = tmp_path / "problems.jsonl"
    row = {"problem": "Print.", "uid": "a </think> b", "tests": {"inputs": ["1"], "outputs": ["1"]}}
    path.write_text(json.dumps({**row, "solutions": [f"print({marker!r})"]}), encoding="utf-8")
    with pytest.raises(ValueError, match="holds a marker such as </answer>"):
        _env("rlimits", str(path)).demonstrate(np.random.default_rng(0), skill=1.0)
    other = tmp_path / "others.jsonl"
    other.write_text(json.dumps({**row, "solutions": ["print(1)"]}), encoding="utf-8")
    shown = _env("rlimits", str(other)).demonstrate(np.random.default_rng(0), skill=1.0)
    assert "</think>" not in shown.reasoning


def test_a_row_that_waits_for_a_child_is_not_late() -> None:
    """As many threads as children: the others wait in the pool, where the time limit of a step does not run."""
    config = env_config("deepcoder", sandbox="rlimits", split="all")
    with EnvPool("deepcoder", config, groups=MAX_CHILDREN + 3, group_size=1, workers=MAX_CHILDREN + 3) as pool:
        assert len(pool._workers) == MAX_CHILDREN
    with EnvPool("deepcoder", config, groups=1, group_size=1, workers=2) as pool:
        assert len(pool._workers) == 2


@pytest.mark.slow
def test_endless_programs_of_a_full_batch_all_time_out() -> None:
    preset = parse(["preset=deepcoder", "env.sandbox=rlimits", "env.workers=32"]).config
    options = env_config("deepcoder", **preset.env.options)
    step_s, workers = preset.env.step_timeout_s, preset.env.workers
    with EnvPool("deepcoder", options, groups=32, group_size=1, workers=workers, step_timeout_s=step_s) as pool:
        pool.reset(range(32))
        results = pool.step(["while True: pass"] * 32)
    assert [result and result.info["verdict"] for result in results] == ["timeout"] * 32


def test_demonstrations_name_problem_and_way() -> None:
    env = _env("rlimits")
    rng = np.random.default_rng(0)
    right, broken = (env.demonstrate(rng, skill=skill) for skill in (1.0, 0.0))
    assert (right.answer, broken.answer) == (env.problem.solution, env.problem.broken)
    assert env.problem.name in right.reasoning
    assert env.problem.idea in broken.reasoning


def test_a_second_answer_is_refused(data_file: str) -> None:
    env = _env("rlimits", data_file)
    env.step("")
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"max_turns": 2}, "max_turns=2 has no effect because the first answer ends the episode: leave it at 1"),
        ({"dataset": "taco"}, "dataset='taco': use one of deepcoder, exercism, human_eval"),
        ({"sandbox": "none"}, "sandbox='none': use one of bubblewrap, rlimits"),
        ({"reward": "some"}, "reward='some': use one of all, fraction"),
        ({"dataset": "human_eval", "data_file": "x"}, "data_file='x' has no effect because human_eval comes"),
        ({"dataset": "human_eval", "skip_malformed": True}, "skip_malformed=True has no effect"),
        ({"max_tests": 0}, "max_tests=0: use 1 or more"),
        ({"max_program_bytes": 0}, "max_program_bytes=0"),
        ({"time_limit_s": 0.0}, r"time_limit_s=0.0: use more than 0"),
        ({"time_limit_s": 61.0}, "at most 60 seconds"),
        ({"time_limit_s": 9.0}, r"total_limit_s=6.0, time_limit_s=9.0"),
        ({"time_limit_s": float("nan")}, "time_limit_s=nan: use an ordinary number"),
        ({"total_limit_s": float("nan")}, "total_limit_s=nan: use an ordinary number"),
        ({"total_limit_s": float("inf")}, "total_limit_s=inf: use an ordinary number"),
        ({"memory_limit_mb": 63}, "memory_limit_mb=63: Python itself needs 64"),
    ],
)
def test_options_are_checked(options: dict[str, object], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        env_config("deepcoder", **options)


def test_instructions_promise_nothing_about_the_examples_of_others(tmp_path: Path) -> None:
    row = {"problem": "Print 1.", "tests": [{"input": "", "output": "1"}]}
    (tmp_path / "own.jsonl").write_text(json.dumps(row), encoding="utf-8")
    text = _env("rlimits", str(tmp_path / "own.jsonl")).instructions()
    assert "the examples of the problem may be among them" in text
    assert "not among them" not in text
