"""No filter: every prompt is kept."""

from __future__ import annotations

import chex
import jax.numpy as jnp

from ragen_jax.core.filters.result import FilterOptions, build_result, check_scores
from ragen_jax.types import Array, FilterResult


def keep_all(scores: Array) -> FilterResult:
    """Keep every prompt, flat ones too.

    Args:
      scores: [P], any sign.

    Returns:
      The kept set, with a loss scale of 1.

    Raises:
      ValueError: (outside jit) scores that are NaN or infinite.
    """
    chex.assert_rank(scores, 1)
    check_scores(scores, non_negative=False)
    return build_result(jnp.ones(scores.shape, bool), scores, loss_scale="none")


def rule(scores: Array, flat: Array, options: FilterOptions) -> FilterResult:
    """``keep_all``; options have nothing to change."""
    del flat, options
    return keep_all(scores)
