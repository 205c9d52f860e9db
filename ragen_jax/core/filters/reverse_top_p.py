"""Diagnostic: the top-p rule with the lowest scores first. What does training on the least informative prompts do?"""

from __future__ import annotations

import chex
import jax.numpy as jnp

from ragen_jax.core.filters.result import (
    FilterOptions,
    LossScale,
    build_result,
    candidates,
    check_scores,
    check_share,
    smallest_prefix,
)
from ragen_jax.types import Array, FilterResult


def reverse_top_p(
    scores: Array,
    *,
    rho: float,
    flat: Array | None = None,
    include_zero: bool = False,
    slack: float = 0.0,
    loss_scale: LossScale = "none",
) -> FilterResult:
    """Smallest k with ``sum of the k smallest scores >= rho * total``.

    Args:
      scores: [P], at least 0.
      rho: share of the total, in (0, 1].
      flat: [P] bool, prompts whose rewards are all equal; by default those with score 0.
      include_zero: let flat prompts take part; they come first and are all kept if anything is.
      slack: lowers the threshold by this many units of the score.
      loss_scale: factor on the actor loss: "none", "linear", "sqrt" or "rho".

    Returns:
      The kept set; empty when all prompts are flat.

    Raises:
      ValueError: rho outside (0, 1], negative slack, or (outside jit) scores that are negative or NaN.

    >>> reverse_top_p(jnp.array([4.0, 3.0, 2.0, 1.0]), rho=0.3).keep.tolist()
    [False, False, True, True]
    """
    chex.assert_rank(scores, 1)
    check_share("rho", rho)
    if slack < 0:
        raise ValueError(f"slack={slack} must be at least 0")
    check_scores(scores, non_negative=True)
    scores = jnp.asarray(scores, jnp.float32)
    among = candidates(scores, flat, include_zero=include_zero)
    keep = smallest_prefix(-scores, scores, among, share=rho, slack=slack)
    return build_result(keep, scores, loss_scale=loss_scale, rho=rho)


def rule(scores: Array, flat: Array, options: FilterOptions) -> FilterResult:
    """``reverse_top_p`` with ``value`` as rho."""
    return reverse_top_p(
        scores,
        rho=options.value,
        flat=flat,
        include_zero=options.include_zero,
        slack=options.slack,
        loss_scale=options.loss_scale,
    )
