"""Keep prompts whose score is at least a share of the largest score."""

from __future__ import annotations

import chex
import jax.numpy as jnp

from ragen_jax.core.filters.result import (
    ROUNDING,
    FilterOptions,
    LossScale,
    build_result,
    candidates,
    check_scores,
    check_share,
)
from ragen_jax.types import Array, FilterResult


def min_p(
    scores: Array,
    *,
    threshold: float,
    flat: Array | None = None,
    include_zero: bool = False,
    loss_scale: LossScale = "none",
) -> FilterResult:
    """Keep scores of at least ``threshold * max``, within a relative rounding of 1e-6.

    Args:
      scores: [P], at least 0.
      threshold: share of the largest score, in (0, 1].
      flat: [P] bool, prompts whose rewards are all equal; by default those with score 0.
      include_zero: let flat prompts take part; they are kept only if every score is 0.
      loss_scale: factor on the actor loss: "none", "linear" or "sqrt".

    Returns:
      The kept set.

    Raises:
      ValueError: threshold outside (0, 1], loss_scale "rho", or (outside jit) scores that are negative or NaN.

    >>> min_p(jnp.array([1.0, 0.5, 0.4, 0.0]), threshold=0.5).keep.tolist()
    [True, True, False, False]
    """
    chex.assert_rank(scores, 1)
    check_share("threshold", threshold)
    check_scores(scores, non_negative=True)
    scores = jnp.asarray(scores, jnp.float32)
    among = candidates(scores, flat, include_zero=include_zero)
    top = jnp.max(jnp.where(among, scores, 0.0))
    return build_result(among & (scores >= (threshold - ROUNDING) * top), scores, loss_scale=loss_scale)


def rule(scores: Array, flat: Array, options: FilterOptions) -> FilterResult:
    """``min_p`` with ``value`` as the threshold."""
    return min_p(
        scores,
        threshold=options.value,
        flat=flat,
        include_zero=options.include_zero,
        loss_scale=options.loss_scale,
    )
