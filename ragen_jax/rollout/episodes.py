"""What is remembered of episodes on the host, beside the arrays of a ``RolloutBatch``."""

from __future__ import annotations

import dataclasses

from ragen_jax.types import RolloutBatch


@dataclasses.dataclass(frozen=True)
class TurnRecord:
    """One exchange: what was shown, what was replied, what came of it.

    Attributes:
      observation: user message that the policy answered.
      reply: text of the reply, think marker included, end-of-turn marker excluded.
      token_ids: the sampled ids, the end-of-turn id included when it was sampled.
      start: slot of the first sampled id in the row, counted behind the first prompt.
      reasoning: (start, stop) of the reasoning in the row, markers excluded; None without a closed think block or when
        there is nothing in it.
      answer: text of the answer block; None without exactly one.
      reward: reward of the environment, without penalty.
      penalty: format penalty of this turn (zero or negative).
      well_formed: the reply has the required form, was not cut, and the environment could use all of its answer. Any
        other reply gets the format penalty.
      cut: the reply reached its token cap without an end.
    """

    observation: str
    reply: str
    token_ids: tuple[int, ...]
    start: int
    reasoning: tuple[int, int] | None
    answer: str | None
    reward: float
    penalty: float
    well_formed: bool
    cut: bool


@dataclasses.dataclass(frozen=True)
class Episode:
    """One row of a rollout.

    Attributes:
      env: name of the environment.
      seed: layout seed, shared by the group.
      member: number within the group.
      prompt: text of the first prompt, think marker included.
      turns: the exchanges, in order.
      success: some turn reported success.
      terminated: the task itself ended.
      truncated: turns, actions, tokens of a reply or context ran out.
      penalty: sum of the format penalties (zero or negative).
      metrics: numbers of the environment's info, each averaged over the turns that reported it.
      error: why the environment failed; None when it did not.
    """

    env: str
    seed: int
    member: int
    prompt: str
    turns: tuple[TurnRecord, ...]
    success: bool
    terminated: bool
    truncated: bool
    penalty: float
    metrics: dict[str, float]
    error: str | None


@dataclasses.dataclass(frozen=True)
class RolloutInfo:
    """Records of a batch; row i * group_size + k is rollout k of prompt i, as in the arrays.

    Attributes:
      episodes: one per row.
      group_size: G, rows per prompt.
    """

    episodes: tuple[Episode, ...]
    group_size: int


@dataclasses.dataclass(frozen=True)
class Rollout:
    """A finished P x G batch: arrays for the learner (NumPy), records for people and metrics.

    Attributes:
      batch: arrays.
      info: records of the same rows.
      first: the step's first batch as it was sampled, when ``batch`` was gathered from several; None otherwise.
    """

    batch: RolloutBatch
    info: RolloutInfo
    first: Rollout | None = None

    @property
    def unselected(self) -> Rollout:
        """The batch that no filter has touched: what is measured, so that runs with and without a filter compare."""
        return self if self.first is None else self.first
