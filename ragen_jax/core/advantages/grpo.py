"""Group-relative advantages: GRPO, and Dr. GRPO without the division by the standard deviation."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.advantages.inputs import AdvantageInputs, AdvantageOptions
from ragen_jax.core.checks import GROUPS, ROWS, refuse_non_finite
from ragen_jax.core.grouping import STD_EPS, group_mean, group_std, is_flat
from ragen_jax.core.masking import full_mask
from ragen_jax.types import Array


def group_advantages(rewards: Array, valid: Array | None = None, *, normalize_by_std: bool) -> jax.Array:
    """``(r - mean) / (std + 1e-6)`` with the unbiased std of the group (GRPO), or ``r - mean`` (Dr. GRPO).

    Args:
      rewards: [P, G].
      valid: [P, G] bool; invalid rows take no part and get 0.
      normalize_by_std: divide by the group's standard deviation.

    Returns:
      [P, G] float32; exactly 0 in flat groups and in groups of one.

    Raises:
      ValueError: no prompt or no rollout, or (outside jit) a valid reward that is not finite.

    >>> group_advantages(jnp.array([[1.0, 0.0, 0.0, 0.0]]), normalize_by_std=False).tolist()
    [[0.75, -0.25, -0.25, -0.25]]
    """
    refuse_non_finite("reward", rewards, valid, axes=GROUPS, fix="mark the row as not valid or mend the environment")
    flat = is_flat(rewards, valid)
    mask = full_mask(rewards, valid)
    centred = jnp.asarray(rewards, jnp.float32) - group_mean(rewards, valid)[:, None]
    if normalize_by_std:
        centred = centred / (group_std(rewards, valid)[:, None] + STD_EPS)
    return jnp.where(mask & ~flat[:, None], centred, 0.0)


def group_advantages_by_id(rewards: Array, ids: Array, *, num_groups: int, normalize_by_std: bool) -> jax.Array:
    """:func:`group_advantages` for rows in any order and groups of any size.

    Args:
      rewards: [B].
      ids: [B] int32 in [0, num_groups), the group of each row.
      num_groups: number of groups, fixed at trace time; memory grows with its product with B.
      normalize_by_std: divide by the group's standard deviation.

    Returns:
      [B] float32; exactly 0 in flat groups and in groups of one.

    Raises:
      ValueError: no row or no group, or (outside jit) a reward that is not finite.

    >>> group_advantages_by_id(jnp.array([0.0, 3.0, 2.0]), jnp.array([0, 1, 0]), num_groups=2,
    ...                        normalize_by_std=False).tolist()
    [-1.0, 0.0, 1.0]
    """
    chex.assert_rank([rewards, ids], 1)
    chex.assert_equal_shape([rewards, ids])
    refuse_non_finite("reward", rewards, axes=ROWS, fix="leave the row out or mend the environment")
    members = jnp.asarray(ids, jnp.int32) == jnp.arange(num_groups)[:, None]
    everything = jnp.broadcast_to(jnp.asarray(rewards, jnp.float32), members.shape)
    return jnp.sum(group_advantages(everything, members, normalize_by_std=normalize_by_std), axis=0)


def spread_over_tokens(advantages: jax.Array, response_mask: Array) -> tuple[jax.Array, jax.Array]:
    """Give every response token the advantage of its row.

    Args:
      advantages: [P, G].
      response_mask: [B, T] bool.

    Returns:
      advantages [B, T], 0 outside the mask, and returns [B, T], all 0: group estimators train no critic.
    """
    tokens = jnp.where(jnp.asarray(response_mask, bool), advantages.reshape(-1, 1), 0.0)
    return tokens, jnp.zeros_like(tokens)


def with_kl_return(advantages: jax.Array, inputs: AdvantageInputs) -> tuple[jax.Array, jax.Array]:
    """Add the KL part of the reward, minus its mean over the group, and give every response token its row's sum.

    ``A_k = A_k(task) + (K_k - mean K)``. The KL part is not divided by a standard deviation: in a flat group the KL is
    the only spread that is left, and dividing by it would pull every such group back to the reference at full
    strength, however small the coefficient.

    Args:
      advantages: [P, G], of the task rewards.
      inputs: see :class:`AdvantageInputs`.

    Returns:
      advantages and returns (zeros), each [B, T].
    """
    kl_part = group_advantages(inputs.kl_returns, inputs.valid, normalize_by_std=False)
    return spread_over_tokens(advantages + kl_part, inputs.trained)


def estimate(inputs: AdvantageInputs, options: AdvantageOptions) -> tuple[jax.Array, jax.Array]:
    """``group_advantages`` of the task rewards plus the centred KL part, on every response token.

    Args:
      inputs: see :class:`AdvantageInputs`.
      options: ``normalize_by_std`` is read: true is GRPO, false is Dr. GRPO.

    Returns:
      advantages and returns (zeros), each [B, T].
    """
    task = group_advantages(inputs.rewards, inputs.valid, normalize_by_std=options.normalize_by_std)
    return with_kl_return(task, inputs)
