"""Rows and groups: reshaping, and the statistics of a group's rewards.

Row ``i * G + k`` is rollout k of prompt i, so a group is a plain reshape. A group counts as *flat* when all its rewards
are equal up to float rounding. The test looks at the range, before any mean is taken: the standard deviation of 16
equal float32 numbers is often not 0, and dividing by that noise would invent a learning signal.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.checks import GROUPS, refuse_empty
from ragen_jax.core.masking import full_mask
from ragen_jax.types import Array

FLAT_TOLERANCE = 1e-6  # relative range below which rewards count as equal: about eight float32 roundings
STD_EPS = 1e-6  # added to a group's standard deviation before dividing by it (GRPO)


def to_groups(x: Array, group_size: int) -> jax.Array:
    """Rows to groups: [B, ...] to [P, G, ...].

    Args:
      x: [B, ...].
      group_size: G.

    Returns:
      [B / G, G, ...].

    Raises:
      ValueError: B is not a multiple of the group size.

    >>> to_groups(jnp.arange(4), 2).tolist()
    [[0, 1], [2, 3]]
    """
    rows = x.shape[0]
    if group_size < 1 or rows % group_size:
        raise ValueError(f"{rows} rows do not divide into groups of {group_size}; change the batch or the group size")
    return jnp.asarray(x).reshape(rows // group_size, group_size, *x.shape[1:])


def is_flat(rewards: Array, valid: Array | None = None) -> jax.Array:
    """True for groups whose rewards are all equal: ``max - min <= 1e-6 * max |reward|``.

    Args:
      rewards: [P, G].
      valid: [P, G] bool; invalid rows are left out.

    Returns:
      [P] bool. A group with fewer than two valid rows is flat. NaN or inf among them is never flat.

    >>> is_flat(jnp.array([[0.1, 0.1, 0.1], [0.0, 1.0, 1.0]])).tolist()
    [True, False]
    """
    rewards, mask = _rewards_and_mask(rewards, valid)
    high = jnp.max(jnp.where(mask, rewards, -jnp.inf), axis=1)
    low = jnp.min(jnp.where(mask, rewards, jnp.inf), axis=1)
    size = jnp.max(jnp.where(mask, jnp.abs(rewards), 0.0), axis=1)
    return is_level(high, low, size) | (jnp.sum(mask, axis=1) < 2)


def group_mean(rewards: Array, valid: Array | None = None) -> jax.Array:
    """Mean reward of each group.

    Args:
      rewards: [P, G].
      valid: [P, G] bool.

    Returns:
      [P] float32; 0 for a group without valid rows.
    """
    rewards, mask = _rewards_and_mask(rewards, valid)
    count = jnp.sum(mask.astype(jnp.float32), axis=1)
    return jnp.sum(jnp.where(mask, rewards, 0.0), axis=1) / jnp.maximum(count, 1.0)


def group_variance(rewards: Array, valid: Array | None = None) -> jax.Array:
    """Unbiased reward variance of each group (RAGEN-2 section 3.3).

    ``RV_i = sum_k (r_ik - mean_i)^2 / (n_i - 1)``.

    Args:
      rewards: [P, G].
      valid: [P, G] bool.

    Returns:
      [P] float32, squared reward units; exactly 0 for flat groups and for fewer than two valid rows.

    >>> group_variance(jnp.array([[0.0, 1.0], [5.0, 5.0]])).tolist()
    [0.5, 0.0]
    """
    values, mask = _rewards_and_mask(rewards, valid)
    centred = jnp.where(mask, values - group_mean(values, mask)[:, None], 0.0)
    count = jnp.sum(mask.astype(jnp.float32), axis=1)
    variance = jnp.sum(jnp.square(centred), axis=1) / jnp.maximum(count - 1.0, 1.0)
    return jnp.where(is_flat(values, mask), 0.0, variance)


def group_std(rewards: Array, valid: Array | None = None) -> jax.Array:
    """Square root of :func:`group_variance`, [P], in reward units."""
    return jnp.sqrt(group_variance(rewards, valid))


def is_level(high: jax.Array, low: jax.Array, size: jax.Array) -> jax.Array:
    """True where the range ``high - low`` is rounding only, measured against the largest size; false for NaN or inf."""
    return (high - low <= FLAT_TOLERANCE * size) & jnp.isfinite(size)


def _rewards_and_mask(rewards: Array, valid: Array | None) -> tuple[jax.Array, jax.Array]:
    chex.assert_rank(rewards, 2)
    refuse_empty(rewards, axes=GROUPS)
    return jnp.asarray(rewards, jnp.float32), full_mask(rewards, valid)
