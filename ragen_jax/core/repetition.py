"""Does a policy repeat one symbol over and over? The bluntest collapse, visible in the tokens alone."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.masking import masked_mean
from ragen_jax.types import Array


def repeated_rows(tokens: Array, mask: Array, *, dominance: float = 0.9, least_tokens: int = 16) -> jax.Array:
    """Rows in which a single token id makes up at least ``dominance`` of what was said.

    Args:
      tokens: [B, T] int32.
      mask: [B, T] bool, true on the tokens that the policy sampled.
      dominance: share of a row's tokens from which on one id dominates it.
      least_tokens: rows with fewer sampled tokens are never called repetitive: a short answer may well be one word.

    Returns:
      [B] bool.

    Raises:
      ValueError: ``dominance`` of 1/2 or less, where two ids could dominate a row, or above 1.

    >>> tokens = jnp.array([[7] * 16, [7, 8] * 8])
    >>> repeated_rows(tokens, jnp.ones((2, 16), bool)).tolist()
    [True, False]
    """
    chex.assert_rank([tokens, mask], 2)
    chex.assert_equal_shape([tokens, mask])
    if not 0.5 < dominance <= 1:
        raise ValueError(f"dominance={dominance} must lie above 0.5 and at most at 1")
    mask = jnp.asarray(mask, bool)
    count = jnp.sum(mask.astype(jnp.int32), axis=1)
    # An id with more than half of the tokens is the median of the row: sort, look at the middle, count.
    ordered = jnp.sort(jnp.where(mask, jnp.asarray(tokens, jnp.int32), jnp.iinfo(jnp.int32).max), axis=1)
    median = jnp.take_along_axis(ordered, jnp.maximum(count - 1, 0)[:, None] // 2, axis=1)
    same = jnp.sum((mask & (tokens == median)).astype(jnp.int32), axis=1)
    return (count >= least_tokens) & (same >= dominance * count)


def repeated_share(
    tokens: Array, mask: Array, valid: Array, *, dominance: float = 0.9, least_tokens: int = 16
) -> jax.Array:
    """Share of the valid rows that repeat one symbol; see :func:`repeated_rows`.

    Args:
      tokens: [B, T] int32.
      mask: [B, T] bool.
      valid: [B] bool, rows that count.
      dominance: as above.
      least_tokens: as above.

    Returns:
      [] float32, 0 without a valid row.
    """
    rows = repeated_rows(tokens, mask, dominance=dominance, least_tokens=least_tokens)
    return masked_mean(rows, valid)
