"""Filter rollouts inside each prompt instead of prompts: the best and the worst by reward (RAGEN-2 Table 7)."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.checks import check_rewards
from ragen_jax.core.masking import full_mask
from ragen_jax.core.ranking import descending_rank
from ragen_jax.types import Array


def best_and_worst(rewards: Array, *, best: int, worst: int, valid: Array | None = None) -> jax.Array:
    """Keep the ``best`` largest and the ``worst`` smallest rewards of every prompt, ties in rollout order.

    Args:
      rewards: [P, G].
      best: rollouts kept from the top.
      worst: rollouts kept from the bottom.
      valid: [P, G] bool; invalid rollouts are never kept and never ranked.

    Returns:
      keep, [P, G] bool. A prompt with fewer valid rollouts than ``best + worst`` keeps all of them.

    Raises:
      ValueError: a negative number, none to keep, or more than G; no prompt; or (outside jit) a valid reward that is
        not finite.

    >>> best_and_worst(jnp.array([[3.0, 1.0, 4.0, 2.0]]), best=1, worst=1).tolist()
    [[False, True, True, False]]
    """
    chex.assert_rank(rewards, 2)
    group_size = rewards.shape[1]
    if best < 0 or worst < 0 or not 1 <= best + worst <= group_size:
        raise ValueError(f"best={best} and worst={worst} must be at least 0 and add up to 1 .. {group_size}")
    check_rewards(rewards, valid)
    mask = full_mask(rewards, valid)
    rank = jax.vmap(descending_rank)(jnp.asarray(rewards, jnp.float32), mask)
    count = jnp.sum(mask.astype(jnp.int32), axis=1, keepdims=True)
    return mask & ((rank < best) | (rank >= count - worst))
