"""Drop the prompts whose rewards are all equal: the rule behind DAPO's dynamic sampling."""

from __future__ import annotations

import chex

from ragen_jax.core.filters.result import FilterOptions, LossScale, build_result, candidates, check_scores
from ragen_jax.types import Array, FilterResult


def nonzero(scores: Array, *, flat: Array | None = None, loss_scale: LossScale = "none") -> FilterResult:
    """Keep every prompt that is not flat.

    Args:
      scores: [P], any sign.
      flat: [P] bool, prompts whose rewards are all equal; by default those with score 0.
      loss_scale: factor on the actor loss: "none", "linear" or "sqrt".

    Returns:
      The kept set.

    Raises:
      ValueError: loss_scale "rho", or (outside jit) scores that are NaN or infinite.

    >>> import jax.numpy as jnp
    >>> nonzero(jnp.array([0.0, 0.25])).keep.tolist()
    [False, True]
    """
    chex.assert_rank(scores, 1)
    check_scores(scores, non_negative=False)
    return build_result(candidates(scores, flat, include_zero=False), scores, loss_scale=loss_scale)


def rule(scores: Array, flat: Array, options: FilterOptions) -> FilterResult:
    """``nonzero``; it has no number of its own."""
    return nonzero(scores, flat=flat, loss_scale=options.loss_scale)
