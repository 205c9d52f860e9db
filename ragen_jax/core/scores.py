"""What a filter ranks prompts by: one number per group, by name.

To add a score: write ``compute(values, valid) -> [P]`` in a file of its own, wrap it in a :class:`Score`, and name that
object in ``SCORES``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.grouping import group_mean, group_std, group_variance
from ragen_jax.core.replayed_variance import replayed_variance
from ragen_jax.registry import Registry
from ragen_jax.types import Array

Need = Literal["rewards", "lengths", "entropies", "replays"]


class ScoreInputs(NamedTuple):
    """What is known of a batch of groups; a score reads one part of it.

    Attributes:
      rewards: [P, G], return of each rollout, with or without its format penalty.
      valid: [P, G] bool, rows that count.
      lengths: [P, G], response tokens of each rollout.
      entropies: [P, G], token-mean entropy of each rollout's responses (nats).
      replays: [P, G, K], rewards of K replays of each rollout.
    """

    rewards: Array
    valid: Array
    lengths: Array | None = None
    entropies: Array | None = None
    replays: Array | None = None


class Score(NamedTuple):
    """One way to rank prompts.

    Attributes:
      compute: of the values that it reads, [P, G] or [P, G, K], and ``valid`` [P, G]; the answer is [P] float32.
      needs: the part of the inputs that it reads; what costs extra work is made only when it is asked for.
      non_negative: never below 0 whatever the rewards are, as rules on mass and ``min_p`` require.
    """

    compute: Callable[[Array, Array], jax.Array]
    needs: Need = "rewards"
    non_negative: bool = True


SCORES = Registry(
    "score",
    (
        ("reward_variance", "ragen_jax.core.scores:REWARD_VARIANCE"),
        ("reward_std", "ragen_jax.core.scores:REWARD_STD"),
        ("reward_mean", "ragen_jax.core.scores:REWARD_MEAN"),
        ("reward_sum", "ragen_jax.core.scores:REWARD_SUM"),
        ("reward_max", "ragen_jax.core.scores:REWARD_MAX"),
        ("entropy", "ragen_jax.core.scores:ENTROPY"),
        ("entropy_variance", "ragen_jax.core.scores:ENTROPY_VARIANCE"),
        ("length", "ragen_jax.core.scores:LENGTH"),
        ("replayed_variance", "ragen_jax.core.scores:REPLAYED_VARIANCE"),
    ),
)


def group_scores(name: str, inputs: ScoreInputs) -> jax.Array:
    """Score of every prompt.

    Args:
      name: a key of ``SCORES``.
      inputs: [P, G] arrays; the one that the score reads must be there.

    Returns:
      [P] float32; 0 for a group without valid rows.

    Raises:
      KeyError: unknown score.
      ValueError: the inputs lack what the score reads.

    >>> inputs = ScoreInputs(rewards=jnp.array([[0.0, 1.0], [2.0, 4.0]]), valid=jnp.ones((2, 2), bool))
    >>> group_scores("reward_variance", inputs).tolist(), group_scores("reward_max", inputs).tolist()
    ([0.5, 2.0], [1.0, 4.0])
    """
    score: Score = SCORES[name]
    chex.assert_rank([inputs.rewards, inputs.valid], 2)
    chex.assert_equal_shape([inputs.rewards, inputs.valid])
    values = getattr(inputs, score.needs)
    if values is None:
        raise ValueError(f"score {name!r} reads {score.needs}, which are not among the inputs; pass them")
    chex.assert_equal_shape_prefix([inputs.rewards, values], 2)
    return score.compute(values, inputs.valid)


def _sum(values: Array, valid: Array) -> jax.Array:
    return jnp.sum(jnp.where(jnp.asarray(valid, bool), values, 0.0), axis=1, dtype=jnp.float32)


def _max(values: Array, valid: Array) -> jax.Array:
    mask = jnp.asarray(valid, bool)
    highest = jnp.max(jnp.where(mask, jnp.asarray(values, jnp.float32), -jnp.inf), axis=1)
    return jnp.where(mask.any(axis=1), highest, 0.0)


REWARD_VARIANCE = Score(group_variance)
REWARD_STD = Score(group_std)
REWARD_MEAN = Score(group_mean, non_negative=False)
REWARD_SUM = Score(_sum, non_negative=False)
REWARD_MAX = Score(_max, non_negative=False)
ENTROPY = Score(group_mean, needs="entropies")
ENTROPY_VARIANCE = Score(group_variance, needs="entropies")
LENGTH = Score(group_mean, needs="lengths")
REPLAYED_VARIANCE = Score(replayed_variance, needs="replays")
