"""A score that tells signal from environment noise: the variance of replayed mean rewards.

A reward is ``mu(plan) + noise``, so the variance inside a group is Var(mu) plus the noise of the environment, and a
noisy prompt can look as instructive as a good one. Replaying each stored plan K times under fresh dynamics averages the
noise down. That is exact for plans made in one turn; where later actions answer what happened, a stored plan is no
longer what the policy would do, and its replay measures something else.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.checks import GROUPS, refuse_empty, refuse_non_finite
from ragen_jax.core.grouping import group_variance
from ragen_jax.core.masking import full_mask
from ragen_jax.types import Array

_REPLAYS = (*GROUPS, "replay")


def replayed_variance(replays: Array, valid: Array | None = None) -> jax.Array:
    """Unbiased variance over rollouts of the mean replayed reward: the score to rank prompts by.

    Its expectation is ``Var(mu) + sigma^2 / K``. Subtracting the noise term does not help the ranking, since that adds
    the noise of its own estimate.

    Args:
      replays: [P, G, K] rewards of K replays of each rollout.
      valid: [P, G] bool.

    Returns:
      [P] float32, squared reward units.

    Raises:
      ValueError: no prompt, rollout or replay, or (outside jit) a valid reward that is not finite.
    """
    chex.assert_rank(replays, 3)
    refuse_empty(replays, axes=_REPLAYS)
    mask = None if valid is None else jnp.broadcast_to(jnp.asarray(valid, bool)[:, :, None], replays.shape)
    refuse_non_finite("reward", replays, mask, axes=_REPLAYS, fix="mark the row as not valid or mend the environment")
    return group_variance(jnp.mean(jnp.asarray(replays, jnp.float32), axis=2), valid)


def signal_variance(replays: Array, valid: Array | None = None) -> jax.Array:
    """Estimate of Var(mu) alone, for reports of its size: ``replayed_variance - mean(s^2) / K``, not below 0.

    Args:
      replays: [P, G, K], K of at least 2.
      valid: [P, G] bool.

    Returns:
      [P] float32, squared reward units.

    Raises:
      ValueError: fewer than two replays, which leave the noise unknown.
    """
    chex.assert_rank(replays, 3)
    prompts, group_size, count = replays.shape
    if count < 2:
        raise ValueError(f"{count} replay of each rollout does not show the noise; use at least 2")
    mask = full_mask(replays[:, :, 0], valid)
    noise = group_variance(jnp.asarray(replays).reshape(prompts * group_size, count)).reshape(prompts, group_size)
    rows = jnp.maximum(jnp.sum(mask.astype(jnp.float32), axis=1), 1.0)
    noise = jnp.sum(jnp.where(mask, noise, 0.0), axis=1) / rows
    return jnp.maximum(replayed_variance(replays, mask) - noise / count, 0.0)
