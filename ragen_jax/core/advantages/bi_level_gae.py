"""Two levels of generalised advantage estimation: over the turns of an episode, and over the tokens of a turn."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.advantages.gae import check_discounts
from ragen_jax.core.advantages.inputs import AdvantageInputs, AdvantageOptions
from ragen_jax.core.checks import TOKENS, refuse_non_finite
from ragen_jax.types import Array

# Of the next turn end and the next response token: turn; value and advantage of the end; value and advantage.
_Carry = tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]


def bi_level_gae(
    token_rewards: Array,
    values: Array,
    response_mask: Array,
    turn_ids: Array,
    *,
    gamma: float,
    lam: float,
    turn_gamma: float,
) -> tuple[jax.Array, jax.Array]:
    """Raw bi-level GAE. A turn ends at its last response token, whatever its reward is.

    First over the turn ends e of a row, with e' the next one (value and advantage 0 after the last):

        delta_e = r_e + turn_gamma * V_e' - V_e
        A_e     = delta_e + turn_gamma * lam * A_e'

    Then over the tokens of each turn, backwards from its end, where A_e stands and after which nothing counts; t' is
    the next response token of the turn:

        A_t = r_t + gamma * V_t' - V_t + gamma * lam * A_t',   at the end: A_t = A_e, so that its target is A_e + V_e

    With one turn per row it is ``gae``. Whitening is a separate step (``core.masked_whiten``).

    Args:
      token_rewards: [B, T], the reward of a turn on its last response token.
      values: [B, T], critic value before each token; what stands outside the mask is never read.
      response_mask: [B, T] bool.
      turn_ids: [B, T] int32, turn of a response token; not read outside the mask.
      gamma: discount per response token within a turn, in [0, 1].
      lam: in [0, 1], on both levels.
      turn_gamma: discount per turn, in [0, 1].

    Returns:
      advantages and returns (critic targets, advantages plus values), each [B, T] float32, 0 outside the mask.

    Raises:
      ValueError: gamma, lam or turn_gamma outside [0, 1], or (outside jit) a reward or value within the mask that is
        not finite.

    >>> mask, turns = jnp.array([[True, True, False, True]]), jnp.array([[0, 0, -1, 1]])
    >>> rewards = jnp.array([[0.0, 0.0, 0.0, 1.0]])
    >>> bi_level_gae(rewards, 0 * rewards, mask, turns, gamma=1.0, lam=1.0, turn_gamma=0.5)[0].tolist()
    [[0.5, 0.5, 0.0, 1.0]]
    """
    chex.assert_rank([token_rewards, values, response_mask, turn_ids], 2)
    chex.assert_equal_shape([token_rewards, values, response_mask, turn_ids])
    check_discounts(gamma=gamma, lam=lam, turn_gamma=turn_gamma)
    refuse_non_finite("reward", token_rewards, response_mask, axes=TOKENS, fix="mend the environment or mask the row")
    refuse_non_finite("value", values, response_mask, axes=TOKENS, fix="mend the critic or mask the row")
    mask = jnp.asarray(response_mask, bool)
    rewards = jnp.where(mask, jnp.asarray(token_rewards, jnp.float32), 0.0)
    values = jnp.where(mask, jnp.asarray(values, jnp.float32), 0.0)
    turns = jnp.asarray(turn_ids, jnp.int32)

    def step(carry: _Carry, token: tuple[jax.Array, jax.Array, jax.Array, jax.Array]) -> tuple[_Carry, jax.Array]:
        next_turn, end_value, end_advantage, next_value, next_advantage = carry
        reward, value, sampled, turn = token
        ends = sampled & (turn != next_turn)
        between = reward + turn_gamma * end_value - value + turn_gamma * lam * end_advantage
        within = reward + gamma * next_value - value + gamma * lam * next_advantage
        advantage = jnp.where(ends, between, within)
        carry = (
            jnp.where(sampled, turn, next_turn),
            jnp.where(ends, value, end_value),
            jnp.where(ends, advantage, end_advantage),
            jnp.where(sampled, value, next_value),
            jnp.where(sampled, advantage, next_advantage),
        )
        return carry, jnp.where(sampled, advantage, 0.0)

    zeros = jnp.zeros_like(values[:, 0])
    start = (jnp.full_like(turns[:, 0], -1), zeros, zeros, zeros, zeros)
    _, columns = jax.lax.scan(step, start, (rewards.T, values.T, mask.T, turns.T), reverse=True)
    advantages = columns.T
    return advantages, advantages + values


def estimate(inputs: AdvantageInputs, options: AdvantageOptions) -> tuple[jax.Array, jax.Array]:
    """``bi_level_gae`` on the valid rows.

    Args:
      inputs: see :class:`AdvantageInputs`; ``kl_rewards`` are not read, since turns are what this estimator credits
        (a configuration that asks for both is refused).
      options: ``gamma``, ``lam`` and ``turn_gamma`` are read.

    Returns:
      advantages and returns, each [B, T].
    """
    return bi_level_gae(
        inputs.token_rewards,
        inputs.values,
        inputs.trained,
        inputs.turn_ids,
        gamma=options.gamma,
        lam=options.lam,
        turn_gamma=options.turn_gamma,
    )
