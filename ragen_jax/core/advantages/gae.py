"""Generalised advantage estimation over the tokens of the policy, across observations of the environment."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.advantages.inputs import AdvantageInputs, AdvantageOptions
from ragen_jax.core.checks import TOKENS, refuse_non_finite
from ragen_jax.types import Array


def gae(
    token_rewards: Array, values: Array, response_mask: Array, *, gamma: float, lam: float
) -> tuple[jax.Array, jax.Array]:
    """Raw GAE; tokens that the policy did not sample are skipped (RAGEN-2 appendix B.2).

    With t' the next response token of the row (value 0 after the last one):

        delta_t = r_t + gamma * V_t' - V_t
        A_t     = delta_t + gamma * lam * A_t'

    Observation tokens neither discount nor contribute. Whitening is a separate step (``core.masked_whiten``).

    Args:
      token_rewards: [B, T].
      values: [B, T], critic value before each token; what stands outside the mask is never read.
      response_mask: [B, T] bool.
      gamma: discount per response token, in [0, 1].
      lam: in [0, 1].

    Returns:
      advantages and returns (critic targets, advantages plus values), each [B, T] float32, 0 outside the mask.

    Raises:
      ValueError: gamma or lam outside [0, 1], or (outside jit) a reward or value within the mask that is not finite.

    >>> mask = jnp.array([[True, True, False, False, True]])
    >>> rewards = jnp.array([[0.0, 0.0, 0.0, 0.0, 1.0]])
    >>> gae(rewards, jnp.zeros((1, 5)), mask, gamma=1.0, lam=0.5)[0].tolist()
    [[0.25, 0.5, 0.0, 0.0, 1.0]]
    """
    chex.assert_rank([token_rewards, values, response_mask], 2)
    chex.assert_equal_shape([token_rewards, values, response_mask])
    check_discounts(gamma=gamma, lam=lam)
    refuse_non_finite("reward", token_rewards, response_mask, axes=TOKENS, fix="mend the environment or mask the row")
    refuse_non_finite("value", values, response_mask, axes=TOKENS, fix="mend the critic or mask the row")
    mask = jnp.asarray(response_mask, bool)
    rewards = jnp.where(mask, jnp.asarray(token_rewards, jnp.float32), 0.0)
    values = jnp.where(mask, jnp.asarray(values, jnp.float32), 0.0)

    def step(
        carry: tuple[jax.Array, jax.Array], token: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        next_value, next_advantage = carry
        reward, value, sampled = token
        advantage = reward + gamma * next_value - value + gamma * lam * next_advantage
        carry = (jnp.where(sampled, value, next_value), jnp.where(sampled, advantage, next_advantage))
        return carry, jnp.where(sampled, advantage, 0.0)

    start = (jnp.zeros_like(values[:, 0]), jnp.zeros_like(values[:, 0]))
    _, columns = jax.lax.scan(step, start, (rewards.T, values.T, mask.T), reverse=True)
    advantages = columns.T
    return advantages, advantages + values


def check_discounts(**numbers: float) -> None:
    """Raise a ValueError for the first number outside [0, 1]."""
    for name, number in numbers.items():
        if not 0 <= number <= 1:
            raise ValueError(f"{name}={number} must lie in [0, 1]")


def estimate(inputs: AdvantageInputs, options: AdvantageOptions) -> tuple[jax.Array, jax.Array]:
    """``gae`` on the valid rows, KL rewards included; it looks at no group.

    Args:
      inputs: see :class:`AdvantageInputs`.
      options: ``gamma`` and ``lam`` are read.

    Returns:
      advantages and returns, each [B, T].
    """
    rewards = inputs.token_rewards + inputs.kl_rewards
    return gae(rewards, inputs.values, inputs.trained, gamma=options.gamma, lam=options.lam)
