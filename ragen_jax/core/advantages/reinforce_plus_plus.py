"""REINFORCE++: rewards to go without a critic, and its form with the group's mean as baseline.

Both are whitened over the batch as a second step (``core.masked_whiten``), which is the only scaling they have. With
a KL in the reward, one flat group is not blown up by it; a batch of nothing but flat groups is, since the KL is then
the only spread there is, and wants a filter that drops them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ragen_jax.core.advantages.gae import gae
from ragen_jax.core.advantages.grpo import group_advantages, with_kl_return
from ragen_jax.core.advantages.inputs import AdvantageInputs, AdvantageOptions
from ragen_jax.types import Array


def returns_to_go(token_rewards: Array, response_mask: Array, *, gamma: float) -> jax.Array:
    """Discounted sum of the rewards from a token on, ``R_t = r_t + gamma * R_t'`` with t' the next response token.

    It is GAE with lambda 1 and a critic that knows nothing. Observations neither discount nor end the sum, so a reward
    of a later turn reaches the turns before it.

    Args:
      token_rewards: [B, T]; what stands outside the mask is not read.
      response_mask: [B, T] bool.
      gamma: discount per response token, in [0, 1].

    Returns:
      [B, T] float32, 0 outside the mask.

    Raises:
      ValueError: gamma outside [0, 1].

    >>> mask = jnp.array([[True, True, False, True]])
    >>> returns_to_go(jnp.array([[0.0, 1.0, 0.0, 2.0]]), mask, gamma=0.5).tolist()
    [[1.0, 2.0, 0.0, 2.0]]
    """
    return gae(token_rewards, jnp.zeros(token_rewards.shape, jnp.float32), response_mask, gamma=gamma, lam=1.0)[0]


def estimate(inputs: AdvantageInputs, options: AdvantageOptions) -> tuple[jax.Array, jax.Array]:
    """``returns_to_go`` of the token rewards, KL rewards included.

    Args:
      inputs: see :class:`AdvantageInputs`.
      options: ``gamma`` is read.

    Returns:
      advantages, before whitening, and returns (zeros: no critic is trained), each [B, T].
    """
    advantages = returns_to_go(inputs.token_rewards + inputs.kl_rewards, inputs.trained, gamma=options.gamma)
    return advantages, jnp.zeros_like(advantages)


def estimate_baseline(inputs: AdvantageInputs, options: AdvantageOptions) -> tuple[jax.Array, jax.Array]:
    """Reward minus the mean of the group on every response token.

    Args:
      inputs: see :class:`AdvantageInputs`.
      options: not read.

    Returns:
      advantages, before whitening, and returns (zeros), each [B, T].
    """
    del options
    return with_kl_return(group_advantages(inputs.rewards, inputs.valid, normalize_by_std=False), inputs)
