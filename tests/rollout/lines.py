"""A small environment pool for tests of the turn loop: walk to the end of a line."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ragen_jax.envs.base import Ending, EnvConfig, Observation, StepResult
from ragen_jax.rollout.actor import collect
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.rollout.scripted import Script, ScriptedPolicy
from ragen_jax.rollout.tokenizer import Tokenizer

MOVE = "go on</think><answer>right</answer>"
BACK = "go back</think><answer>left</answer>"


@dataclasses.dataclass(frozen=True)
class LineEnv:
    """What the turn loop reads of an environment; the pool moves the walker itself."""

    config: EnvConfig
    name: str = "line"

    def instructions(self) -> str:
        return "" if self.config.instructions == "terse" else "Walk right to the goal."


class LinePool:
    """P x G walkers that start ``seed % 10`` cells from the goal and earn 1 on it.

    ``long_observation`` words are added to every observation after the first; rows in ``failing`` raise at their first
    step, rows in ``dead`` at their reset. ``ending`` is what an episode that is broken off is still worth.
    """

    def __init__(
        self,
        groups: int,
        group_size: int,
        *,
        style: str = "terse",
        long_observation: int = 0,
        failing: Sequence[int] = (),
        dead: Sequence[int] = (),
        ending: Ending | None = None,
    ) -> None:
        config = EnvConfig(instructions=style)
        self.envs = [LineEnv(config) for _ in range(groups * group_size)]
        self.groups, self.group_size = groups, group_size
        self.errors: list[str | None] = [None] * (groups * group_size)
        self.answers: list[list[str | None]] = []
        self.finished: list[list[int]] = []
        self._long, self._failing, self._dead, self._ending = long_observation, failing, dead, ending or Ending()

    def reset(self, seeds: Sequence[int]) -> list[Observation | None]:
        self.distances = [seed % 10 for seed in seeds for _ in range(self.group_size)]
        self.errors = ["no board" if row in self._dead else None for row in range(len(self.distances))]
        return [
            None if row in self._dead else Observation(f"P {distance}") for row, distance in enumerate(self.distances)
        ]

    def step(self, answers: Sequence[str | None]) -> list[StepResult | None]:
        self.answers.append(list(answers))
        return [None if answer is None else self._step(row, answer) for row, answer in enumerate(answers)]

    def finish(self, rows: Sequence[int]) -> list[Ending | None]:
        self.finished.append(list(rows))
        return [self._ending if row in rows else None for row in range(len(self.envs))]

    def _step(self, row: int, answer: str) -> StepResult | None:
        if row in self._failing:
            self.errors[row] = "the floor broke"
            return None
        moves = {"right": -1, "left": 1}
        self.distances[row] += moves.get(answer, 0)
        won = self.distances[row] == 0
        return StepResult(
            observation=Observation(" ".join([f"P {self.distances[row]}"] + ["far"] * self._long)),
            reward=1.0 if won else 0.25,
            terminated=won,
            truncated=False,
            info={"success": won, "action_is_valid": answer in moves, "action_is_effective": True, "steps": 1},
        )


def play(chat: ChatFormat, pool: LinePool, script: Script, **changes: Any) -> tuple[Rollout, ScriptedPolicy]:
    """Collect with a scripted policy of version 7; ``changes`` replace arguments of ``collect``."""
    settings: dict[str, Any] = {
        "seeds": [1],
        "max_turns": 3,
        "max_new_tokens": 40,
        "max_context": 400,
        "prompt_bucket": 8,
        "length_bucket": 16,
        "observation_bucket": 4,
        "format_penalty": -0.1,
        "show_rewards": True,
        "seed": (0,),
    } | changes
    policy = ScriptedPolicy(chat.tokenizer, script, max_new_tokens=settings["max_new_tokens"], version=7)
    return collect(policy, pool, chat, **settings), policy


def words(tokenizer: Tokenizer, *parts: str) -> list[int]:
    """Ids of each part encoded alone, as a sampler might have drawn them."""
    return [token for part in parts for token in tokenizer.encode(part)]
