"""What becomes of rewards before advantages: normalisation, and the length penalty of DAPO."""

from __future__ import annotations

from typing import Literal, get_args

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.checks import ROWS, refuse_non_finite
from ragen_jax.core.grouping import is_level
from ragen_jax.core.masking import full_mask
from ragen_jax.types import Array

RewardMethod = Literal["identity", "mean", "mean_std", "asym_clip"]
METHODS: tuple[str, ...] = get_args(RewardMethod)
FLAT_STD = 1e-6  # a standard deviation up to this counts as none, reward units
ASYMMETRIC = (-1.0, 3.0)  # bounds of "asym_clip", in standard deviations


def normalize_rewards(
    rewards: Array, ids: Array, valid: Array | None = None, *, num_ids: int, method: RewardMethod
) -> tuple[jax.Array, jax.Array]:
    """Normalise the rewards of rows that share an id: rows of a group, of a batch (all ids 0), of an environment.

    ``identity``: r. ``mean``: r - mean. ``mean_std``: (r - mean) / std with the unbiased std. ``asym_clip``: the same
    held within [-1, 3], so that a rare success weighs more than a rare failure.

    All but ``identity`` give exactly 0 to rows of an id whose rewards are equal up to float rounding, and to the only
    row of an id; the last two also where the std is at most 1e-6.

    Args:
      rewards: [B].
      ids: [B] int32 in [0, num_ids), which rows belong together.
      valid: [B] bool; invalid rows take no part and get 0.
      num_ids: number of ids, fixed at trace time.
      method: one of the four names above.

    Returns:
      normalised rewards [B] float32, and the factor [B] float32 by which a reward of the row's turns is scaled
      (1, or 1 / std, or 0), before the shift.

    Raises:
      ValueError: unknown method, or (outside jit) a valid reward that is not finite.

    >>> normalize_rewards(jnp.array([0.0, 2.0, 5.0]), jnp.array([0, 0, 1]), num_ids=2, method="mean")[0].tolist()
    [-1.0, 1.0, 0.0]
    """
    if method not in METHODS:
        raise ValueError(f"unknown reward normalisation {method!r}; use one of {', '.join(METHODS)}")
    chex.assert_rank([rewards, ids], 1)
    chex.assert_equal_shape([rewards, ids])
    mask = full_mask(rewards, valid)
    refuse_non_finite("reward", rewards, valid, axes=ROWS, fix="mark the row as not valid or mend the environment")
    rewards = jnp.where(mask, jnp.asarray(rewards, jnp.float32), 0.0)
    if method == "identity":
        return rewards, mask.astype(jnp.float32)
    ids = jnp.asarray(ids, jnp.int32)

    def total(x: jax.Array) -> jax.Array:
        return jax.ops.segment_sum(jnp.where(mask, x, 0.0), ids, num_ids)

    count = total(jnp.ones_like(rewards))
    mean = total(rewards) / jnp.maximum(count, 1.0)
    high = jax.ops.segment_max(jnp.where(mask, rewards, -jnp.inf), ids, num_ids)
    low = jax.ops.segment_min(jnp.where(mask, rewards, jnp.inf), ids, num_ids)
    size = jax.ops.segment_max(jnp.abs(rewards), ids, num_ids)
    flat = (count < 2) | is_level(high, low, size)
    centred = jnp.where(mask & ~flat[ids], rewards - mean[ids], 0.0)
    if method == "mean":
        return centred, mask.astype(jnp.float32)
    std = jnp.sqrt(total(jnp.square(centred)) / jnp.maximum(count - 1.0, 1.0))
    flat = flat | (std <= FLAT_STD)
    factor = jnp.where(flat, 0.0, 1.0 / jnp.where(flat, 1.0, std))[ids] * mask
    scaled = centred * factor
    return jnp.clip(scaled, *ASYMMETRIC) if method == "asym_clip" else scaled, factor


def overlong_penalties(lengths: Array, *, budget: int, buffer: int, penalty: float) -> jax.Array:
    """Length penalty of each response, growing linearly over the last ``buffer`` tokens of its budget (DAPO).

    ``-penalty * clip((n - (budget - buffer)) / buffer, 0, 1)``: nothing up to ``budget - buffer`` tokens, the whole
    penalty for a response that fills its budget, as one that was cut does.

    Args:
      lengths: any shape, tokens of each response; 0 for none.
      budget: tokens that a response may have.
      buffer: tokens, at least 1 and at most the budget.
      penalty: reward units, at least 0.

    Returns:
      Same shape, float32, zero or negative.

    Raises:
      ValueError: a buffer or a penalty outside its range.

    >>> overlong_penalties(jnp.array([6, 8, 9, 10]), budget=10, buffer=4, penalty=1.0).tolist()
    [0.0, -0.5, -0.75, -1.0]
    """
    if not 1 <= buffer <= budget:
        raise ValueError(f"buffer={buffer} must be at least 1 and at most budget={budget} tokens")
    if penalty < 0:
        raise ValueError(f"penalty={penalty} is subtracted; use 0 or a positive number")
    excess = (jnp.asarray(lengths, jnp.float32) - (budget - buffer)) / buffer
    return 0.0 - penalty * jnp.clip(excess, 0.0, 1.0)


def turn_lengths(turn_ids: Array, response_mask: Array, *, max_turns: int) -> jax.Array:
    """Sampled tokens of each turn.

    Args:
      turn_ids: [B, T] int32, turn of a response token.
      response_mask: [B, T] bool.
      max_turns: K, fixed at trace time.

    Returns:
      [B, K] int32.
    """
    chex.assert_rank([turn_ids, response_mask], 2)
    chex.assert_equal_shape([turn_ids, response_mask])
    of_turn = jnp.asarray(turn_ids)[:, None, :] == jnp.arange(max_turns)[:, None]
    return jnp.sum(of_turn & jnp.asarray(response_mask, bool)[:, None, :], axis=2, dtype=jnp.int32)
