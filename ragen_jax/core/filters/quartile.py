"""Diagnostic: train on one quarter of the prompts, ranked by score (RAGEN-2 Table 6)."""

from __future__ import annotations

import chex
import jax.numpy as jnp

from ragen_jax.core.filters.result import FilterOptions, LossScale, build_result, check_scores
from ragen_jax.core.ranking import descending_rank
from ragen_jax.types import Array, FilterResult


def quartile(scores: Array, *, index: float, loss_scale: LossScale = "none") -> FilterResult:
    """Keep ranks ``floor((index - 1) P / 4)`` up to ``floor(index P / 4)``, best first.

    All prompts take part, flat ones too: the four quartiles share out the batch.

    Args:
      scores: [P], any sign.
      index: 1 for the largest scores, up to 4 for the smallest.
      loss_scale: factor on the actor loss: "none", "linear" or "sqrt".

    Returns:
      The kept set, ties in prompt order.

    Raises:
      ValueError: index other than 1 to 4, fewer than 4 prompts, loss_scale "rho", or (outside jit) NaN scores.

    >>> quartile(jnp.array([1.0, 4.0, 2.0, 3.0]), index=1).keep.tolist()
    [False, True, False, False]
    """
    chex.assert_rank(scores, 1)
    if index not in (1, 2, 3, 4):
        raise ValueError(f"index={index} must be 1, 2, 3 or 4; 1 holds the largest scores")
    prompts = scores.shape[0]
    if prompts < 4:
        raise ValueError(f"{prompts} prompts have no quartiles; use at least 4")
    check_scores(scores, non_negative=False)
    rank = descending_rank(scores, jnp.ones(prompts, bool))
    keep = (rank >= int(index - 1) * prompts // 4) & (rank < int(index) * prompts // 4)
    return build_result(keep, scores, loss_scale=loss_scale)


def rule(scores: Array, flat: Array, options: FilterOptions) -> FilterResult:
    """``quartile`` with ``value`` as the index; flat prompts take part whatever the options say."""
    del flat
    return quartile(scores, index=options.value, loss_scale=options.loss_scale)
