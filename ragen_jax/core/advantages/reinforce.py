"""REINFORCE with a baseline from the group: its mean, or the mean of the other rollouts (RLOO)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ragen_jax.core.advantages.grpo import group_advantages, spread_over_tokens, with_kl_return
from ragen_jax.core.advantages.inputs import AdvantageInputs, AdvantageOptions
from ragen_jax.core.masking import full_mask
from ragen_jax.types import Array


def leave_one_out(rewards: Array, valid: Array | None = None) -> jax.Array:
    """``r_k`` minus the mean reward of the other rollouts of the group, ``(r_k - mean) * n / (n - 1)``.

    Args:
      rewards: [P, G].
      valid: [P, G] bool; invalid rows take no part and get 0.

    Returns:
      [P, G] float32; exactly 0 in flat groups and in groups of one.

    Raises:
      ValueError: no prompt or no rollout, or (outside jit) a valid reward that is not finite.

    >>> leave_one_out(jnp.array([[3.0, 0.0, 0.0, 0.0]])).tolist()
    [[3.0, -1.0, -1.0, -1.0]]
    """
    mask = full_mask(rewards, valid)
    count = jnp.sum(mask.astype(jnp.float32), axis=1, keepdims=True)
    return group_advantages(rewards, valid, normalize_by_std=False) * (count / jnp.maximum(count - 1.0, 1.0))


def estimate_rloo(inputs: AdvantageInputs, options: AdvantageOptions) -> tuple[jax.Array, jax.Array]:
    """``leave_one_out`` of the rewards, the KL part included, on every response token.

    Args:
      inputs: see :class:`AdvantageInputs`.
      options: not read.

    Returns:
      advantages and returns (zeros), each [B, T].
    """
    del options
    rewards = inputs.rewards + inputs.kl_returns
    return spread_over_tokens(leave_one_out(rewards, inputs.valid), inputs.trained)


def estimate_reinforce(inputs: AdvantageInputs, options: AdvantageOptions) -> tuple[jax.Array, jax.Array]:
    """Reward minus the mean of the group on every response token.

    Args:
      inputs: see :class:`AdvantageInputs`.
      options: not read; the same numbers as Dr. GRPO, under the estimator's own name.

    Returns:
      advantages and returns (zeros), each [B, T].
    """
    del options
    return with_kl_return(group_advantages(inputs.rewards, inputs.valid, normalize_by_std=False), inputs)
