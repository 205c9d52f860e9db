"""The contract between a text environment and everything else.

Environments know text, numbers and NumPy, never jax, tokens or chat templates. A reset is a pure function of
``(config, seed, member)``: ``seed`` fixes the layout, which all members of a group share; ``(seed, member)`` fixes the
dynamics noise, which no two members share.
"""

from __future__ import annotations

import dataclasses
import math
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ragen_jax.envs.data_source import DataSource
from ragen_jax.envs.options import check_separator, refuse_changed
from ragen_jax.registry import unknown_name

ONE_ACTION = dict.fromkeys(("max_actions_per_turn", "action_separator"), "an answer is one action")
"""``EnvConfig.fixed`` of an environment that takes the whole answer as one action."""
ONE_ANSWER = dict.fromkeys(("max_turns", "max_actions", *ONE_ACTION), "the first answer ends the episode")
"""``EnvConfig.fixed`` of an environment whose episode is one answer, taken whole."""


@dataclasses.dataclass(frozen=True)
class Observation:
    """What the policy sees: text, and an image [H, W, 3] uint8 where the environment draws one."""

    text: str
    image: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class StepResult:
    """Outcome of one answer.

    ``reward`` is an ordinary number, see ``finite_number``. ``terminated``: the task itself ended (goal, hole, wrong
    final answer). ``truncated``: a budget ran out; never both. ``info`` always has ``success``, ``action_is_valid``
    (every part of the answer was usable) and ``action_is_effective`` (something changed), as bools; any other number in
    it becomes a metric. ``actions_taken`` in it is a tuple of texts. ``envs/contract.py`` checks all this.
    """

    observation: Observation
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    @property
    def done(self) -> bool:
        """True when the episode is over."""
        return self.terminated or self.truncated


@dataclasses.dataclass(frozen=True)
class Ending:
    """What an episode that was broken off is still worth.

    Attributes:
      reward: what the environment pays at the end of an episode; an ordinary number.
      info: what ``StepResult.info`` has at the end of an episode only; numbers in it become metrics.
    """

    reward: float = 0.0
    info: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def finite_number(name: str, value: Any) -> float:
    """A reward or metric ``name`` of an environment as a float.

    Raises:
      ValueError: the value is no int or float of Python or NumPy (True and False are none), or not finite as a float.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        shown = f"{reprlib.repr(value)} " if isinstance(value, (str, bool, np.bool_, type(None))) else ""
        raise ValueError(f"{name} {shown}of type {type(value).__name__} is no number: use a float")
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError(
            f"{name} of {int(value).bit_length()} bits is beyond every float: use a smaller one"
        ) from error
    if not math.isfinite(number):
        raise ValueError(f"{name} {number} is not finite: use an ordinary number")
    return number


@dataclasses.dataclass(frozen=True)
class Demonstration:
    """A reply that a solver wrote: the text of the think block and of the answer block."""

    reasoning: str
    answer: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Options that every environment has; each environment's own frozen dataclass extends it.

    Attributes:
      fixed: common options that this environment does not read, each with the reason; a changed one is refused.
      split: "train", "validation" or "all". An instance belongs to validation when the content hash of its canonical
        text, modulo 100, is below ``validation_percent``; resets draw again until the instance lies in the split.
      validation_percent: share of all instances that are validation instances.
      instructions: "full" describes the task in words; "terse" is a few tokens, for tiny policies.
      max_turns: replies per episode.
      max_actions_per_turn: actions that one answer may hold.
      max_actions: actions per episode; reaching it without an end truncates the episode.
      action_separator: stands between two actions of one answer; " " means any white space.
    """

    fixed: ClassVar[Mapping[str, str]] = {}

    split: str = "train"
    validation_percent: int = 10
    instructions: str = "full"
    max_turns: int = 5
    max_actions_per_turn: int = 2
    max_actions: int = 10
    action_separator: str = "||"

    def __post_init__(self) -> None:
        """Refuse values that no environment can work with."""
        for option in dataclasses.fields(self):
            value = getattr(self, option.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{option.name}={value}: use an ordinary number")
        if self.split not in ("train", "validation", "all"):
            raise ValueError(f"split={self.split!r}: use 'train', 'validation' or 'all'")
        if not 0 <= self.validation_percent <= 100:
            raise ValueError(f"validation_percent={self.validation_percent}: use 0 to 100")
        if self.instructions not in ("full", "terse"):
            raise ValueError(f"instructions={self.instructions!r}: use 'full' or 'terse'")
        for field in ("max_turns", "max_actions_per_turn", "max_actions"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field}={getattr(self, field)}: use 1 or more")
        check_separator(self.action_separator)
        options = [option.name for option in dataclasses.fields(self)]
        for field, reason in self.fixed.items():
            if field not in options:
                raise ValueError(f"{type(self).__name__}.fixed: {unknown_name('option', field, options)}")
            refuse_changed(self, (field,), because=reason)
        if self.split == "all":
            refuse_changed(self, ("validation_percent",), because="split='all' takes every instance")

    @property
    def longest_step_s(self) -> float:
        """Seconds that one step may take by the environment's own limits; 0 where it has none."""
        return 0.0


def check_replay(name: str, config: EnvConfig, plan: Sequence[str], draws: int) -> None:
    """Refuse a replay that would not mean what it says.

    Raises:
      ValueError: episodes of several turns, or less than one replay.
    """
    if config.max_turns > 1 or len(plan) > 1:
        raise ValueError(
            f"environment {name!r} with max_turns={config.max_turns}, a plan of {len(plan)} answers: later answers "
            "react to what has happened, so a stored plan can be replayed in episodes of one turn only; use max_turns=1"
        )
    if draws < 1:
        raise ValueError(f"draws={draws}: use 1 replay or more")


class TextEnv(ABC):
    """One environment. ``reset`` first, then ``step`` until the result is done.

    Attributes:
      name: in ``ENVS``.
      max_workers: threads of a pool that may be inside environments of this kind at once; None = any number.
      config: its options.
    """

    name: ClassVar[str]
    max_workers: ClassVar[int | None] = None
    config: EnvConfig

    @classmethod
    def words(cls, config: Any) -> tuple[str, ...]:
        """Names of the actions, and symbols that observations and instructions use; a separator must differ from all.

        Empty where an answer is one action.
        """
        return ()

    @abstractmethod
    def instructions(self) -> str:
        """Task description for the system message, made from the live config (its legend matches the board)."""

    @abstractmethod
    def reset(self, seed: int, member: int = 0) -> Observation:
        """Begin an episode. Same (config, seed, member): same text, in every process."""

    @abstractmethod
    def step(self, answer: str) -> StepResult:
        """Act on what stands in the answer block. Unusable text is an invalid action, never an exception."""

    def finish(self) -> Ending:
        """End the running episode where it stands.

        The turn loop calls it once, when an episode ends without the environment: a reply was cut, the context is full,
        or the turns are used up, some of them by replies without an answer, which never reach ``step``. Whatever is
        paid or reported at the end of an episode is paid and reported here too. After it only ``reset`` is called.
        """
        return Ending()

    @abstractmethod
    def canonical(self) -> str:
        """Text that is equal for two instances if and only if they are the same task; no noise, no formatting."""

    @abstractmethod
    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """A reply to the current state by a solver: right with probability about ``skill``, careless otherwise.

        The reasoning speaks about the observed state and varies in wording.
        """

    def data_source(self) -> DataSource | None:
        """Where the rows of a data environment come from; None for an environment that draws its instances."""
        return None

    def replay(self, plan: Sequence[str], *, seed: int, member: int, draws: int) -> np.ndarray:
        """Rewards [draws] of a stored plan under fresh dynamics on the layout of ``seed``; no model is asked.

        A running episode of this environment is not touched.

        Args:
          plan: answers that were acted upon in one episode; empty when none was, which earns 0.
          seed: layout seed of the episode.
          member: number of the episode in its group; no two members share the noise of their replays.
          draws: K, independent replays; none shares its noise with an episode.

        Raises:
          ValueError: a replay would not mean what it says: later answers react to what has happened, so a stored plan
            of several turns is not what the policy would do.
          NotImplementedError: the environment has no noise of its own, so that every replay would be the episode again,
            or it cannot be replayed from here.
        """
        raise NotImplementedError(
            f"environment {self.name!r} has no replay: its rewards have no noise to average, or its dynamics are out "
            "of reach; use filter.score=reward_variance"
        )

    def close(self) -> None:
        """Free what the environment holds; most hold nothing."""
        return None
