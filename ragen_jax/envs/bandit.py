"""A two-armed bandit whose arms hint at their rewards by name only: a safe one and a risky, better one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from ragen_jax.envs.base import ONE_ACTION, Demonstration, EnvConfig, Observation, StepResult, TextEnv, check_replay
from ragen_jax.envs.demonstrations import with_fillers
from ragen_jax.envs.instances import dynamics_rng, layout_rng, replay_rng
from ragen_jax.envs.options import refuse_changed
from ragen_jax.envs.parsing import Actions, split_actions

# (safe, risky). No name stands in both tables.
TRAIN_PAIRS = (
    ("anchor", "rocket"),
    ("granite", "lightning"),
    ("turtle", "falcon"),
    ("cellar", "casino"),
    ("savings", "lottery"),
    ("oak", "comet"),
    ("bridge", "tightrope"),
    ("candle", "firework"),
    ("pasture", "goldmine"),
    ("harbor", "storm"),
    ("library", "raceway"),
    ("bread", "truffle"),
)
VALIDATION_PAIRS = (
    ("pension", "jackpot"),
    ("ox", "cheetah"),
    ("cottage", "volcano"),
    ("brick", "balloon"),
    ("pond", "geyser"),
    ("ladder", "trapeze"),
    ("wool", "dynamite"),
    ("canal", "rapids"),
)
_PAIRS = {
    "train": TRAIN_PAIRS,
    "validation": VALIDATION_PAIRS,
    "all": TRAIN_PAIRS + VALIDATION_PAIRS,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BanditConfig(EnvConfig):
    """Options of the bandit.

    The splits are two tables of name pairs (12 for training, 8 for validation, in two orders each), not a content
    hash.

    Attributes:
      safe_reward: reward of the safe arm, always.
      risky_reward: reward of the risky arm when it pays.
      risky_else: reward of the risky arm when it does not.
      risky_probability: how often the risky arm pays.
      choose_by: "name" answers with the name of the machine; "letter" shows A and B before the names and answers with
        the letter, which a tiny policy can do for names that it has never met.
      shared_dynamics: all members of a group meet the same draw.
    """

    fixed: ClassVar[Mapping[str, str]] = {
        "validation_percent": "the splits are two tables of names",
        "max_actions": "the first pull ends the episode",
        **ONE_ACTION,
    }

    max_turns: int = 1
    max_actions_per_turn: int = 1
    max_actions: int = 1
    safe_reward: float = 0.1
    risky_reward: float = 1.0
    risky_else: float = 0.0
    risky_probability: float = 0.25
    choose_by: str = "name"
    shared_dynamics: bool = False

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        super().__post_init__()
        if self.choose_by not in ("name", "letter"):
            raise ValueError(f"choose_by={self.choose_by!r}: use 'name' or 'letter'")
        if not 0 <= self.risky_probability <= 1:
            raise ValueError(f"risky_probability={self.risky_probability}: use a probability, 0 to 1")
        if self.risky_probability in (0, 1):
            unpaid = "risky_reward" if self.risky_probability == 0 else "risky_else"
            certain = f"risky_probability={self.risky_probability:g} leaves nothing to chance"
            refuse_changed(self, (unpaid, "shared_dynamics"), because=certain)
        mean = self.risky_probability * self.risky_reward + (1 - self.risky_probability) * self.risky_else
        if mean <= self.safe_reward:
            raise ValueError(
                f"safe_reward={self.safe_reward:g} is not below {mean:g}, what the risky machine pays on average, but "
                "success is choosing that one; lower it, or raise risky_reward, risky_else or risky_probability"
            )


class Bandit(TextEnv):
    """Pull one of two arms, once. Success is choosing the risky arm, whatever it paid."""

    name: ClassVar[str] = "bandit"
    Config: ClassVar[type[BanditConfig]] = BanditConfig

    def __init__(self, config: BanditConfig) -> None:
        """Make an environment that still has to be reset."""
        self.config: BanditConfig = config
        self._arms: tuple[str, str] | None = None
        self._done = True

    def reset(self, seed: int, member: int = 0) -> Observation:
        """Draw the pair and its order from ``seed``; the arm's luck comes from ``(seed, member)``."""
        layout = layout_rng(seed)
        pairs = _PAIRS[self.config.split]
        self._safe, self._risky = pairs[layout.integers(len(pairs))]
        swapped = layout.random() < 0.5
        self._arms = (self._risky, self._safe) if swapped else (self._safe, self._risky)
        self._luck = dynamics_rng(seed, 0 if self.config.shared_dynamics else member)
        self._turns = 0
        self._done = False
        return self._observe()

    def step(self, answer: str) -> StepResult:
        """Pull the named arm; see ``TextEnv.step``."""
        if self._done:
            raise RuntimeError("the episode is over or was never begun: call reset")
        parsed = self._parse(answer)
        self._turns += 1
        if not parsed.actions:
            self._done = self._turns >= self.config.max_turns
            info = {"success": False, "action_is_valid": False, "action_is_effective": False}
            return StepResult(self._observe(), 0.0, terminated=False, truncated=self._done, info=info)
        arm = self.arms[parsed.actions[0]]
        success = arm == self._risky
        reward = self._pay(arm, self._luck)
        self._done = True
        info = {"success": success, "action_is_valid": parsed.valid, "action_is_effective": True}
        observation = Observation(f"{arm} paid {reward:g}")
        return StepResult(observation, reward, terminated=True, truncated=False, info=info)

    def instructions(self) -> str:
        """Task description; the terse one is empty, tiny policies know the task from their warm start."""
        if self.config.instructions == "terse":
            return ""
        certain = self.config.risky_probability in (0, 1)
        other = "more, every time too" if certain else "much or little, by luck, and more on average"
        return (
            f"Two slot machines stand before you. One pays a small sum every time; the other pays {other}. "
            "Their names are the only hint: think about what each stands for. "
            f"Choose the one with the higher expected reward and answer with its {self.config.choose_by}."
        )

    def canonical(self) -> str:
        """The names in the order in which they are shown."""
        return " ".join(self.arms)

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """Judge both names and choose the risky arm, or carelessly the safe one."""
        first, second = self.arms
        choice = self._risky if rng.random() < skill else self._safe
        nature = {self._safe: "sure", self._risky: "wild"}
        answer = self.choices[self.arms.index(choice)]
        parts = (f"{first} {nature[first]}", f"{second} {nature[second]}", "so", answer)
        return Demonstration(reasoning=with_fillers(parts, rng), answer=answer)

    def replay(self, plan: Sequence[str], *, seed: int, member: int, draws: int) -> np.ndarray:
        """Pull the chosen arm ``draws`` times; see ``TextEnv.replay``."""
        check_replay(self.name, self.config, plan, draws)
        machine = Bandit(self.config)
        machine.reset(seed)
        pulls = machine._parse(plan[0]).actions if plan else ()
        if not pulls:
            return np.zeros(draws)
        luck = replay_rng(seed, member)
        return np.array([machine._pay(machine.arms[pulls[0]], luck) for _ in range(draws)])

    @property
    def arms(self) -> tuple[str, str]:
        """Names of the two arms in the order in which they are shown."""
        if self._arms is None:
            raise RuntimeError("no episode was begun: call reset")
        return self._arms

    @property
    def choices(self) -> tuple[str, str]:
        """Answers that pull the first and the second arm."""
        return self.arms if self.config.choose_by == "name" else ("A", "B")

    def _parse(self, answer: str) -> Actions:
        return split_actions(answer, separator=self.config.action_separator, limit=1, names=self.choices)

    def _pay(self, arm: str, luck: np.random.Generator) -> float:
        config = self.config
        if arm != self._risky:
            return config.safe_reward
        return config.risky_reward if luck.random() < config.risky_probability else config.risky_else

    def _observe(self) -> Observation:
        first, second = self.arms
        if self.config.choose_by == "letter":
            first, second = f"A {first}", f"B {second}"
        return Observation(f"Machines: {first} {second}")
