"""Keep a fixed number of prompts, those with the largest scores."""

from __future__ import annotations

import math

import chex

from ragen_jax.core.filters.result import (
    FilterOptions,
    LossScale,
    build_result,
    candidates,
    check_scores,
    check_share,
)
from ragen_jax.core.ranking import descending_rank
from ragen_jax.types import Array, FilterResult


def top_k(
    scores: Array,
    *,
    fraction: float,
    flat: Array | None = None,
    include_zero: bool = False,
    loss_scale: LossScale = "none",
) -> FilterResult:
    """Keep ``floor(fraction * P)`` prompts, at least one if any may be kept.

    The count is a share of all P prompts, also when flat ones are left out: with 4 of 8 prompts flat, a fraction of
    0.5 keeps the other four.

    Args:
      scores: [P], any sign.
      fraction: share of the prompts, in (0, 1].
      flat: [P] bool, prompts whose rewards are all equal; by default those with score 0.
      include_zero: let flat prompts take part.
      loss_scale: factor on the actor loss: "none", "linear" or "sqrt".

    Returns:
      The kept set, ties in prompt order.

    Raises:
      ValueError: fraction outside (0, 1], loss_scale "rho", or (outside jit) scores that are NaN or infinite.

    >>> import jax.numpy as jnp
    >>> top_k(jnp.array([1.0, 3.0, 2.0, 0.0]), fraction=0.5).keep.tolist()
    [False, True, True, False]
    """
    check_share("fraction", fraction)
    count = max(1, math.floor(fraction * scores.shape[0] + 1e-9))
    return _keep_first(scores, count, flat, include_zero=include_zero, loss_scale=loss_scale)


def top_k_count(
    scores: Array,
    *,
    count: float,
    flat: Array | None = None,
    include_zero: bool = False,
    loss_scale: LossScale = "none",
) -> FilterResult:
    """Keep ``count`` prompts, fewer if fewer may be kept.

    Args:
      scores: [P], any sign.
      count: a whole number of at least 1.
      flat: [P] bool, prompts whose rewards are all equal; by default those with score 0.
      include_zero: let flat prompts take part.
      loss_scale: factor on the actor loss: "none", "linear" or "sqrt".

    Returns:
      The kept set, ties in prompt order.

    Raises:
      ValueError: count below 1 or not whole, loss_scale "rho", or (outside jit) scores that are NaN or infinite.
    """
    if count < 1 or not float(count).is_integer():
        raise ValueError(f"count={count} must be a whole number of at least 1")
    return _keep_first(scores, int(count), flat, include_zero=include_zero, loss_scale=loss_scale)


def fraction_rule(scores: Array, flat: Array, options: FilterOptions) -> FilterResult:
    """``top_k`` with ``value`` as the fraction."""
    return top_k(
        scores,
        fraction=options.value,
        flat=flat,
        include_zero=options.include_zero,
        loss_scale=options.loss_scale,
    )


def count_rule(scores: Array, flat: Array, options: FilterOptions) -> FilterResult:
    """``top_k_count`` with ``value`` as the count."""
    return top_k_count(
        scores,
        count=options.value,
        flat=flat,
        include_zero=options.include_zero,
        loss_scale=options.loss_scale,
    )


def _keep_first(
    scores: Array, count: int, flat: Array | None, *, include_zero: bool, loss_scale: LossScale
) -> FilterResult:
    chex.assert_rank(scores, 1)
    check_scores(scores, non_negative=False)
    among = candidates(scores, flat, include_zero=include_zero)
    keep = (descending_rank(scores, among) < count) & among
    return build_result(keep, scores, loss_scale=loss_scale)
