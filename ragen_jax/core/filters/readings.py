"""Four things that "top-p with rho" has been taken to mean, each with a name.

A share rho of what? The paper says variance mass; its released code adds up standard deviations, and its main-table
script their softmax; others keep a share of the prompts. On one batch the four keep different numbers of prompts.
"""

from __future__ import annotations

from typing import NamedTuple

import chex

from ragen_jax.core.checks import check_rewards
from ragen_jax.core.filters.result import Mass
from ragen_jax.core.filters.top_p import top_p
from ragen_jax.core.grouping import is_flat
from ragen_jax.core.masking import full_mask
from ragen_jax.core.scores import ScoreInputs, group_scores
from ragen_jax.registry import unknown_name
from ragen_jax.types import Array, FilterResult


class Reading(NamedTuple):
    """What is ranked, and how the ranked score becomes mass."""

    score: str
    mass: Mass


READINGS = {
    "variance": Reading("reward_variance", "linear"),
    "std": Reading("reward_std", "linear"),
    "softmax_std": Reading("reward_std", "softmax"),
    "prompt_fraction": Reading("reward_variance", "count"),
}


def top_p_by_reading(
    rewards: Array, *, reading: str, rho: float, valid: Array | None = None, include_zero: bool = False
) -> FilterResult:
    """Top-p on plain rewards under one of the four readings.

    Args:
      rewards: [P, G].
      reading: a key of ``READINGS``.
      rho: share, in (0, 1]; of what, the reading says.
      valid: [P, G] bool, rows that count; by default all.
      include_zero: let prompts whose rewards are all equal take part.

    Returns:
      The kept set.

    Raises:
      KeyError: unknown reading.
      ValueError: rho outside (0, 1], or (outside jit) rewards that are not finite.

    >>> import jax.numpy as jnp
    >>> rewards = jnp.array([[0.0, 2.0], [0.0, 1.0], [0.0, 1.0], [5.0, 5.0]])
    >>> [int(top_p_by_reading(rewards, reading=name, rho=0.6).kept_count) for name in READINGS]
    [1, 2, 2, 2]
    """
    if reading not in READINGS:
        raise KeyError(unknown_name("reading of top-p", reading, READINGS))
    chex.assert_rank(rewards, 2)
    check_rewards(rewards, valid)
    mask = full_mask(rewards, valid)
    chosen = READINGS[reading]
    scores = group_scores(chosen.score, ScoreInputs(rewards=rewards, valid=mask))
    return top_p(scores, rho=rho, flat=is_flat(rewards, mask), include_zero=include_zero, mass=chosen.mass)
