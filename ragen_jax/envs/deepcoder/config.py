"""Options of the DeepCoder environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from ragen_jax.envs.base import ONE_ANSWER, EnvConfig
from ragen_jax.envs.deepcoder.process import wall_limit_s
from ragen_jax.envs.deepcoder.sandbox import TIERS
from ragen_jax.envs.options import refuse_changed

DATASETS = ("deepcoder", "exercism", "human_eval")
REWARDS = ("all", "fraction")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeepCoderConfig(EnvConfig):
    """Options of DeepCoder. An episode is one answer: the whole answer is one Python program.

    Attributes:
      validation_percent: 25 by default, since the embedded problems are few.
      dataset: "deepcoder" (rows in the DeepCoder schema; our own embedded problems where no file is named or found),
        "exercism" (its canonical data), or "human_eval" (needs the extra ``code``).
      data_file: file of the data set: a path, or a path below RAGEN_DATA_DIR or the cache.
      skip_malformed: leave malformed rows of the file out, and count them, instead of refusing the file.
      sandbox: "bubblewrap" stops hostile programs; "rlimits" stops accidents only, and has to be asked for.
      reward: "all" pays 1 when every hidden test passes, else 0; "fraction" pays the share of tests that pass.
      max_tests: hidden tests that count, evenly spread over those of a problem.
      time_limit_s: processor seconds on one test.
      total_limit_s: seconds of the tests of a program together, behind which no further one is begun and the verdict is
        a time-out. A run's ``env.step_timeout_s``, behind which a row is invalid, must have room for it and for one
        more test: see ``longest_step_s``.
      memory_limit_mb: address space, MiB.
      max_program_bytes: a longer answer is not run.
    """

    fixed: ClassVar[Mapping[str, str]] = ONE_ANSWER

    max_turns: int = 1
    max_actions_per_turn: int = 1
    max_actions: int = 1
    validation_percent: int = 25
    dataset: str = "deepcoder"
    data_file: str = ""
    skip_malformed: bool = False
    sandbox: str = "bubblewrap"
    reward: str = "all"
    max_tests: int = 16
    time_limit_s: float = 1.0
    total_limit_s: float = 6.0
    memory_limit_mb: int = 512
    max_program_bytes: int = 32_768

    @property
    def longest_step_s(self) -> float:
        """All tests, one more that has just begun, and a second to start and end its child."""
        return self.total_limit_s + wall_limit_s(self.time_limit_s) + 1

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        super().__post_init__()
        for field, known in (("dataset", DATASETS), ("sandbox", TIERS), ("reward", REWARDS)):
            if getattr(self, field) not in known:
                raise ValueError(f"{field}={getattr(self, field)!r}: use one of {', '.join(known)}")
        if self.dataset == "human_eval":
            refuse_changed(self, ("data_file", "skip_malformed"), because="human_eval comes from its package")
        for field in ("max_tests", "max_program_bytes"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field}={getattr(self, field)}: use 1 or more")
        if not 0 < self.time_limit_s <= 60:
            raise ValueError(f"time_limit_s={self.time_limit_s}: use more than 0, at most 60 seconds")
        if self.total_limit_s < self.time_limit_s:
            raise ValueError(
                f"total_limit_s={self.total_limit_s}, time_limit_s={self.time_limit_s}: all tests together need at "
                "least the time of one"
            )
        if self.memory_limit_mb < 64:
            raise ValueError(f"memory_limit_mb={self.memory_limit_mb}: Python itself needs 64")
