"""An environment that breaks the contract costs its own row, and the error names what was wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ragen_jax.envs.base import Demonstration, Ending, EnvConfig, Observation, StepResult, TextEnv
from ragen_jax.envs.contract import check_ending, check_instructions, check_observation, check_result
from ragen_jax.envs.pool import EnvPool
from ragen_jax.rollout.actor import collect
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.rollout.scripted import ScriptedPolicy
from ragen_jax.rollout.tokenizer import Tokenizer

INFO = {"success": True, "action_is_valid": True, "action_is_effective": True}
GOOD = StepResult(Observation("over"), 1.0, terminated=True, truncated=False, info=INFO)


def changed(**fields: Any) -> StepResult:
    return dataclasses.replace(GOOD, **fields)


def without(name: str) -> dict[str, bool]:
    return {key: value for key, value in INFO.items() if key != name}


BAD_STEPS = [
    (None, "step returned None: return a StepResult"),
    (("text", 0.0, False, {}), "step returned ('text', 0.0, False, {}) of type tuple: return a StepResult"),
    (changed(info=without("success")), "info has no 'success': give it as a bool"),
    (changed(info=without("action_is_valid")), "info has no 'action_is_valid'"),
    (changed(info=without("action_is_effective")), "info has no 'action_is_effective'"),
    (changed(info=INFO | {"success": "no"}), "info['success'] is 'no' of type str: use a bool"),
    (changed(info=INFO | {"success": 1.0}), "info['success'] is 1.0 of type float: use a bool"),
    (changed(info=INFO | {"action_is_valid": None}), "info['action_is_valid'] is None: use a bool"),
    (changed(info=None), "info is None: use a dict"),
    (changed(info=INFO | {3: 1}), "a name in info is 3 of type int: use a str"),
    (changed(info=INFO | {"actions_taken": 2}), "info['actions_taken'] is 2 of type int: give a tuple of texts"),
    (changed(info=INFO | {"actions_taken": None}), "info['actions_taken'] is None: give a tuple of texts"),
    (changed(info=INFO | {"actions_taken": "up"}), "info['actions_taken'] is 'up' of type str: give a tuple of texts"),
    (changed(info=INFO | {"actions_taken": (1,)}), "info['actions_taken'] is (1,) of type tuple"),
    (changed(observation="hello"), "step gave 'hello' of type str as observation: use Observation(text)"),
    (changed(observation=Observation(None)), "text of the observation is None: use a str"),
    (changed(observation=Observation("a", np.zeros((2, 2)))), "use an array [height, width, 3] of uint8"),
    (changed(truncated=True), "terminated and truncated are both true: an episode ends in one way"),
    (changed(terminated=1), "terminated is 1 of type int: use a bool"),
    (changed(truncated=None), "truncated is None: use a bool"),
    (changed(reward="1"), "reward '1' of type str is no number"),
    (changed(info=INFO | {"speed": float("nan")}), "speed nan is not finite"),
]
BAD_RESETS = [
    (None, "reset gave None as observation: use Observation(text)"),
    ("hello", "reset gave 'hello' of type str as observation"),
    ((Observation("a"), {}), "of type tuple as observation"),
    (Observation(None), "text of the observation is None: use a str"),
]
BAD_ENDINGS = [
    (None, "finish returned None: return an Ending"),
    (0.5, "finish returned 0.5 of type float: return an Ending"),
    (Ending(reward=float("inf")), "reward inf is not finite"),
    (Ending(reward=True), "reward True of type bool is no number"),
    (Ending(info=None), "info is None: use a dict"),
    (Ending(info={"score": float("nan")}), "score nan is not finite"),
]


@pytest.mark.parametrize(
    ("check", "value", "fault"),
    [
        *((check_result, *case) for case in BAD_STEPS),
        *((check_observation, *case) for case in BAD_RESETS),
        *((check_ending, *case) for case in BAD_ENDINGS),
        (check_instructions, None, "instructions is None: use a str"),
        (check_instructions, ["a"], "instructions is ['a'] of type list: use a str"),
    ],
)
def test_a_breach_is_a_sentence(check: Callable[[Any], object], value: object, fault: str) -> None:
    with pytest.raises(ValueError) as raised:
        check(value)
    assert fault in str(raised.value)


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ValueError) as raised:
        check_result(["x" * 10_000] * 10_000)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    "result",
    [
        GOOD,
        changed(terminated=np.bool_(True), reward=np.float32(1)),
        changed(info=INFO | {"success": np.bool_(False), "note": "x", "nothing": None, "count": np.int8(3)}),
        changed(info=INFO | {"actions_taken": ("up", "left")}),
        changed(info=INFO | {"actions_taken": []}),
        changed(observation=Observation("a", np.zeros((2, 3, 3), np.uint8))),
    ],
)
def test_what_the_contract_allows_passes(result: StepResult) -> None:
    assert check_result(result) is result


class Given(TextEnv):
    """Member 1 of a group gives what a test hands over; the other members are fine."""

    name = "given"
    Config = EnvConfig
    start: object = Observation("go")
    result: object = changed(terminated=False)
    ending: object = Ending(0.25, {"score": 0.5})

    def __init__(self, config: EnvConfig) -> None:
        self.config = config

    def instructions(self) -> str:
        return "play"

    def reset(self, seed: int, member: int = 0) -> Any:
        self.odd = member == 1
        return self.start if self.odd else Observation("go")

    def step(self, answer: str) -> Any:
        return self.result if self.odd else GOOD

    def finish(self) -> Any:
        return self.ending

    def canonical(self) -> str:
        return "given"

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        return Demonstration("so", "a")


def roll(monkeypatch: pytest.MonkeyPatch, script: Callable[[int, int], str] | None = None, **given: object) -> Rollout:
    """Two groups of two; ``given`` are attributes of member 1."""
    for name, value in given.items():
        monkeypatch.setattr(Given, name, value)
    chat = ChatFormat(Tokenizer.tiny())
    with EnvPool(Given, EnvConfig(), groups=2, group_size=2, workers=1) as pool:
        return collect(
            ScriptedPolicy(
                chat.tokenizer, script or (lambda row, turn: "x</think><answer>a</answer>"), max_new_tokens=40
            ),
            pool,
            chat,
            seeds=[7, 8],
            max_turns=2,
            max_new_tokens=40,
            max_context=400,
            prompt_bucket=8,
            length_bucket=8,
            observation_bucket=8,
            format_penalty=-0.1,
            show_rewards=True,
            seed=(0,),
        )


def held(rollout: Rollout, moment: str, fault: str) -> None:
    """Rows 1 and 3 are invalid and say why; the others are whole."""
    assert rollout.batch.valid.tolist() == [True, False, True, False]
    errors = [episode.error for episode in rollout.info.episodes]
    assert errors[0] is None and errors[2] is None
    for row, seed in ((1, 7), (3, 8)):
        assert errors[row].startswith(f"environment 'given', seed {seed}, row {row}, {moment}: ")
        assert fault in errors[row]


@pytest.mark.parametrize(("result", "fault"), BAD_STEPS)
def test_a_broken_step_costs_its_row(monkeypatch: pytest.MonkeyPatch, result: object, fault: str) -> None:
    held(roll(monkeypatch, result=result), "turn 0", fault)


@pytest.mark.parametrize(("start", "fault"), BAD_RESETS)
def test_a_broken_reset_costs_its_row(monkeypatch: pytest.MonkeyPatch, start: object, fault: str) -> None:
    rollout = roll(monkeypatch, start=start)
    held(rollout, "reset", fault)
    assert [len(episode.turns) for episode in rollout.info.episodes] == [1, 0, 1, 0]


@pytest.mark.parametrize(("ending", "fault"), BAD_ENDINGS)
def test_a_broken_ending_costs_its_row(monkeypatch: pytest.MonkeyPatch, ending: object, fault: str) -> None:
    rollout = roll(monkeypatch, ending=ending)
    held(rollout, "finish", fault)
    assert rollout.batch.returns.tolist() == [1.0, 2.0, 1.0, 2.0], "what they had until then"


def test_broken_instructions_cost_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rollout = roll(monkeypatch, instructions=lambda self: None)
    assert not rollout.batch.valid.any()
    assert all("instructions is None: use a str" in episode.error for episode in rollout.info.episodes)


def test_the_pool_finishes_the_rows_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with EnvPool(Given, EnvConfig(), groups=1, group_size=3, workers=1) as pool:
        pool.reset([0])
        assert pool.finish([2]) == [None, None, Given.ending]
        monkeypatch.setattr(Given, "finish", lambda self: 1 / 0)
        assert pool.finish([0]) == [None, None, None]
        assert pool.errors == ["ZeroDivisionError: division by zero", None, None]


@pytest.mark.parametrize(
    ("script", "turns"),
    [
        (lambda row, turn: "x</think><answer>a</answer>", 2),  # the turns are used up
        (lambda row, turn: "no form at all", 2),  # and so by replies that never reach the environment
        (lambda row, turn: "x</think><answer>" + "a " * 60, 1),  # a reply is cut
    ],
)
def test_an_episode_that_is_broken_off_is_finished_once(
    monkeypatch: pytest.MonkeyPatch, script: Callable[[int, int], str], turns: int
) -> None:
    rollout = roll(monkeypatch, script)
    for row in (1, 3):
        episode = rollout.info.episodes[row]
        assert episode.truncated and not episode.terminated and len(episode.turns) == turns
        assert episode.metrics["score"] == 0.5
        assert rollout.batch.returns[row] == sum(turn.reward for turn in episode.turns)
        assert episode.turns[-1].reward % 1 == 0.25
        assert all(turn.reward % 1 == 0 for turn in episode.turns[:-1])
    ended = [episode for episode in rollout.info.episodes if episode.terminated]
    assert all("score" not in episode.metrics for episode in ended)
