"""Options of the Countdown environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from ragen_jax.envs.base import ONE_ANSWER, EnvConfig
from ragen_jax.envs.countdown.solver import MAX_NUMBERS
from ragen_jax.envs.options import refuse_changed

FORMATS = ("full", "compact")
OPS_FILTERS = ("any", "additive", "needs_muldiv")
_GENERATOR_OPTIONS = ("numbers_min", "numbers_max", "max_number", "min_target", "max_target", "unsolvable_share")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CountdownConfig(EnvConfig):
    """Options of Countdown. An episode is one answer: one expression, whatever stands in it.

    Attributes:
      numbers_min: fewest numbers of a task.
      numbers_max: most numbers of a task.
      max_number: numbers are drawn from 1 to this.
      min_target: smallest target.
      max_target: largest target.
      use_all: an answer must use every number exactly once; else each at most once.
      ops_filter: which tasks are kept: "any"; "additive" (plus and minus are enough); or "needs_muldiv" (they are not).
      format_score: reward of an expression that uses the numbers rightly but has another value, or none (division by
        zero).
      unsolvable_share: share of the tasks, validation excepted, whose target cannot be reached: prompts that no
        answer solves.
      data_file: tasks from a file instead of generated ones: lines of JSON such as ``{"target": 24, "nums": [3, 8]}``,
        or a ``.parquet`` file with these columns (extra ``parquet``); a path, or a path below RAGEN_DATA_DIR or the
        cache. Unsolvable rows are never drawn.
      skip_malformed: leave malformed rows of the file out, and count them, instead of refusing the file.
      observation_format: "full", or "compact" (one short line, for tiny policies).
    """

    fixed: ClassVar[Mapping[str, str]] = ONE_ANSWER

    max_turns: int = 1
    max_actions_per_turn: int = 1
    max_actions: int = 1
    numbers_min: int = 3
    numbers_max: int = 4
    max_number: int = 99
    min_target: int = 10
    max_target: int = 99
    use_all: bool = True
    ops_filter: str = "any"
    format_score: float = 0.1
    unsolvable_share: float = 0.0
    data_file: str = ""
    skip_malformed: bool = False
    observation_format: str = "full"

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        super().__post_init__()
        if self.observation_format not in FORMATS:
            raise ValueError(f"observation_format={self.observation_format!r}: use one of {', '.join(FORMATS)}")
        if self.ops_filter not in OPS_FILTERS:
            raise ValueError(f"ops_filter={self.ops_filter!r}: use one of {', '.join(OPS_FILTERS)}")
        if not 0.0 <= self.format_score < 1.0:
            raise ValueError(
                f"format_score={self.format_score}: use 0 or more and less than 1, the reward of a solution"
            )
        if self.data_file:
            refuse_changed(self, _GENERATOR_OPTIONS, because="tasks come from data_file")
            return
        refuse_changed(self, ("skip_malformed",), because="there is no data_file")
        if not 2 <= self.numbers_min <= self.numbers_max <= MAX_NUMBERS:
            raise ValueError(
                f"numbers_min={self.numbers_min}, numbers_max={self.numbers_max}: "
                f"use 2 <= numbers_min <= numbers_max <= {MAX_NUMBERS}"
            )
        if self.max_number < 1:
            raise ValueError(f"max_number={self.max_number}: use 1 or more")
        if not 1 <= self.min_target <= self.max_target:
            raise ValueError(
                f"min_target={self.min_target}, max_target={self.max_target}: use 1 <= min_target <= max_target"
            )
        if not 0.0 <= self.unsolvable_share <= 1.0:
            raise ValueError(f"unsolvable_share={self.unsolvable_share}: use 0 to 1")
