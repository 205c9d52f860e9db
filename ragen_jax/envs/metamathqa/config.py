"""Options of the MetaMathQA environments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from ragen_jax.envs.base import ONE_ACTION, EnvConfig
from ragen_jax.envs.metamathqa.checker import CHECKERS
from ragen_jax.envs.metamathqa.symbolic import require_package
from ragen_jax.envs.options import refuse_changed

DATASETS = ("metamath", "gsm8k")
ONE_ATTEMPT = ONE_ACTION | dict.fromkeys(
    ("max_turns", "max_actions"), "metamathqa has one attempt; metamathqa_retry has several"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetaMathQAConfig(EnvConfig):
    """Options of MetaMathQA. One answer is one attempt.

    Attributes:
      dataset: "metamath" (records of MetaMathQA; our own word problems where no file is named or found) or "gsm8k".
      data_file: file of the data set: a path, or a path below RAGEN_DATA_DIR or the cache. When it is empty,
        ``metamathqa/MetaMathQA-395K.json`` or ``gsm8k/train.jsonl`` below these is taken if it is there.
      skip_malformed: leave rows without a question or a gold answer out and count them, instead of refusing the file.
      variants: also the rephrased, backward and self-verifying questions; else only those that were asked first.
      checker: "symbolic" compares expressions too and needs the extra ``math``; "exact" knows numbers and equal texts.
      time_limit_s: processor time of one symbolic comparison; a longer one makes the answer wrong.
    """

    fixed: ClassVar[Mapping[str, str]] = ONE_ATTEMPT

    max_turns: int = 1
    max_actions_per_turn: int = 1
    max_actions: int = 1
    dataset: str = "metamath"
    data_file: str = ""
    skip_malformed: bool = False
    variants: bool = True
    checker: str = "symbolic"
    time_limit_s: float = 0.5

    def __post_init__(self) -> None:
        """Refuse values outside their range, and a symbolic checker that is not installed."""
        super().__post_init__()
        for field, known in (("dataset", DATASETS), ("checker", CHECKERS)):
            if getattr(self, field) not in known:
                raise ValueError(f"{field}={getattr(self, field)!r}: use one of {', '.join(known)}")
        if not 0 < self.time_limit_s <= 10:
            raise ValueError(f"time_limit_s={self.time_limit_s}: use more than 0, at most 10 seconds")
        if self.checker == "exact":
            refuse_changed(self, ("time_limit_s",), because="checker='exact' makes no symbolic comparison")
        else:
            require_package()


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetaMathQARetryConfig(MetaMathQAConfig):
    """Options of MetaMathQA with several attempts; ``max_actions`` is their number."""

    fixed: ClassVar[Mapping[str, str]] = ONE_ACTION

    max_turns: int = 5
    max_actions: int = 5

    def __post_init__(self) -> None:
        """Refuse attempts for which there are no turns, too."""
        super().__post_init__()
        if self.max_actions > self.max_turns:
            raise ValueError(
                f"max_actions={self.max_actions} attempts in max_turns={self.max_turns}: use as many turns or more"
            )
