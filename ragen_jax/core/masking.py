"""Masked sums, and the one place where token losses become one number.

A loss is ``aggregate(...)``: a sum divided by a denominator that is fixed once for the whole optimiser batch. The sum
is additive over rows, so any split into micro-batches or devices gives the same loss and the same gradient.
"""

from __future__ import annotations

from typing import Literal, get_args

import chex
import jax
import jax.numpy as jnp

from ragen_jax.types import Array

AggregationMode = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"]
_MODES: tuple[str, ...] = get_args(AggregationMode)


def full_mask(values: Array, mask: Array | None) -> jax.Array:
    """The mask as bool, or without one a mask that leaves nothing out.

    Args:
      values: any shape.
      mask: bool, same shape; None for all.
    """
    if mask is None:
        return jnp.ones(values.shape, bool)
    chex.assert_equal_shape([values, mask])
    return jnp.asarray(mask, bool)


def masked_sum(values: Array, mask: Array, *, axis: int | tuple[int, ...] | None = None) -> jax.Array:
    """Sum of the values where the mask is true.

    Args:
      values: any shape; NaN or inf at masked positions does not leak.
      mask: bool, same shape.
      axis: axes to reduce, all by default.

    Returns:
      The sum, float32, 0 for an empty mask.

    >>> float(masked_sum(jnp.array([1.0, jnp.nan]), jnp.array([True, False])))
    1.0
    """
    chex.assert_equal_shape([values, mask])
    kept = jnp.where(jnp.asarray(mask, bool), jnp.asarray(values, jnp.float32), 0.0)
    return jnp.sum(kept, axis=axis)


def masked_mean(values: Array, mask: Array, *, axis: int | tuple[int, ...] | None = None) -> jax.Array:
    """Mean of the values where the mask is true, 0 for an empty mask.

    Args:
      values: any shape.
      mask: bool, same shape.
      axis: axes to reduce, all by default.

    Returns:
      The mean, float32.
    """
    count = jnp.sum(jnp.asarray(mask, jnp.float32), axis=axis)
    return masked_sum(values, mask, axis=axis) / jnp.maximum(count, 1.0)


def masked_var(values: Array, mask: Array, *, ddof: int = 0) -> jax.Array:
    """Variance of all values where the mask is true, in two passes.

    Args:
      values: any shape.
      mask: bool, same shape.
      ddof: 0 for the population variance, 1 for the unbiased one.

    Returns:
      [] float32, in squared units of the values; 0 for fewer than ``ddof + 1`` values.
    """
    chex.assert_equal_shape([values, mask])
    centred = jnp.asarray(values, jnp.float32) - masked_mean(values, mask)
    count = jnp.sum(jnp.asarray(mask, jnp.float32))
    return masked_sum(jnp.square(centred), mask) / jnp.maximum(count - ddof, 1.0)


def masked_whiten(values: Array, mask: Array, *, over: Array | None = None, eps: float = 1e-8) -> jax.Array:
    """Shift and scale to mean 0 and unbiased variance 1.

    ``(v - mean) / sqrt(var + eps)``. Values that are all equal become exactly 0: rounding noise is not blown up.

    Args:
      values: any shape.
      mask: bool, same shape, the values that are wanted.
      over: bool, same shape, the values that mean and variance are taken from; the mask by default.
      eps: added to the variance.

    Returns:
      Same shape, float32, 0 outside the mask.
    """
    chex.assert_equal_shape([values, mask])
    mask = jnp.asarray(mask, bool)
    over = mask if over is None else jnp.asarray(over, bool)
    chex.assert_equal_shape([values, over])
    values = jnp.asarray(values, jnp.float32)
    low = jnp.min(jnp.where(over, values, jnp.inf))
    high = jnp.max(jnp.where(over, values, -jnp.inf))
    scaled = (values - masked_mean(values, over)) * jax.lax.rsqrt(masked_var(values, over, ddof=1) + eps)
    return jnp.where(mask & (high > low), scaled, 0.0)


def aggregation_denominator(
    mask: Array, counted: Array, *, mode: str, constant_length: float | None = None
) -> jax.Array:
    """What :func:`aggregate` divides by, taken once over the whole optimiser batch.

    ``token-mean``: tokens of the counted rows. ``seq-mean-token-mean`` and ``seq-mean-token-sum``: counted rows that
    have at least one token. ``seq-mean-token-sum-norm``: those rows times ``constant_length`` (Dr. GRPO).

    Args:
      mask: [B, T] bool, trained tokens.
      counted: [B] bool or 0/1 weights, rows that the mean is taken over. Counting rows that a filter dropped divides
        by the batch before filtering; leaving them out divides by the batch after it.
      mode: one of the four names above.
      constant_length: tokens; needed by ``seq-mean-token-sum-norm`` and by no other mode.

    Returns:
      [] float32; 0 when nothing is counted.

    Raises:
      ValueError: unknown mode, or a constant length that is missing, not positive or not used by the mode.
    """
    _check_mode(mode)
    chex.assert_rank([mask, counted], [2, 1])
    chex.assert_equal_shape_prefix([mask, counted], 1)
    if (mode == "seq-mean-token-sum-norm") != (constant_length is not None):
        raise ValueError(
            f"aggregation mode {mode!r} with constant_length={constant_length}: give a length to "
            "'seq-mean-token-sum-norm' and to no other mode"
        )
    if constant_length is not None and constant_length <= 0:
        raise ValueError(f"constant_length={constant_length} must be a positive number of tokens")
    row_tokens = jnp.sum(jnp.asarray(mask, jnp.float32), axis=1)
    row_weight = jnp.asarray(counted, jnp.float32)
    if mode == "token-mean":
        return jnp.sum(row_tokens * row_weight)
    rows = jnp.sum(jnp.where(row_tokens > 0, row_weight, 0.0))
    return rows if constant_length is None else rows * constant_length


def aggregate(values: Array, mask: Array, weights: Array, *, mode: str, denominator: Array) -> jax.Array:
    """One number from token values; additive over micro-batches that share the denominator.

    ``sum_b w_b * row_b / denominator`` where ``row_b`` is the masked token sum of the row, or the masked token mean for
    ``seq-mean-token-mean``. A row with an empty mask adds nothing.

    Args:
      values: [B, T], for example token losses.
      mask: [B, T] bool.
      weights: [B], 0 for rows that must not be trained.
      mode: "token-mean", "seq-mean-token-mean", "seq-mean-token-sum" or "seq-mean-token-sum-norm".
      denominator: [] from :func:`aggregation_denominator` with the same mode.

    Returns:
      [] float32; 0 with zero gradient when the denominator is 0.

    Raises:
      ValueError: unknown mode.

    >>> loss = jnp.array([[1.0, 1.0, 0.0], [3.0, 3.0, 3.0]])
    >>> mask = jnp.array([[True, True, False], [True, True, True]])
    >>> n = aggregation_denominator(mask, jnp.ones(2), mode="seq-mean-token-mean")
    >>> float(aggregate(loss, mask, jnp.ones(2), mode="seq-mean-token-mean", denominator=n))
    2.0
    """
    _check_mode(mode)
    chex.assert_rank([values, mask, weights], [2, 2, 1])
    chex.assert_equal_shape([values, mask])
    chex.assert_equal_shape_prefix([mask, weights], 1)
    reduce_row = masked_mean if mode == "seq-mean-token-mean" else masked_sum
    total = jnp.sum(reduce_row(values, mask, axis=1) * jnp.asarray(weights, jnp.float32))
    denominator = jnp.asarray(denominator, jnp.float32)
    return jnp.where(denominator > 0, total / jnp.where(denominator > 0, denominator, 1.0), 0.0)


def _check_mode(mode: str) -> None:
    if mode not in _MODES:
        raise ValueError(f"unknown aggregation mode {mode!r}; use one of {', '.join(_MODES)}")
