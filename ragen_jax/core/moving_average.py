"""Exponential moving average of the marginal's standard deviation, as (state, value) -> state."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.types import Array, CollapseState


def empty_moving_average() -> CollapseState:
    """The state before any value was seen."""
    zero = jnp.zeros((), jnp.float32)
    return CollapseState(ema_std=zero, ema_std_sequence=zero, count=jnp.zeros((), jnp.int32))


def update_moving_average(state: CollapseState, std: Array, std_sequence: Array, *, decay: float) -> CollapseState:
    """Next state: ``e = decay * e + (1 - decay) * value``; the first value initialises (RAGEN-2 section 2.3).

    Args:
      state: average so far.
      std: [] nats per token.
      std_sequence: [] nats per sequence.
      decay: in [0, 1).

    Returns:
      The state with one more value.

    Raises:
      ValueError: decay outside [0, 1).

    >>> state = update_moving_average(empty_moving_average(), jnp.array(2.0), jnp.array(8.0), decay=0.9)
    >>> round(float(update_moving_average(state, jnp.array(1.0), jnp.array(8.0), decay=0.9).ema_std), 4)
    1.9
    """
    chex.assert_rank([state.ema_std, state.ema_std_sequence, state.count, std, std_sequence], 0)
    if not 0 <= decay < 1:
        raise ValueError(f"decay={decay} must lie in [0, 1)")

    def averaged(before: Array, value: Array) -> jax.Array:
        value = jnp.asarray(value, jnp.float32)
        return jnp.where(state.count > 0, decay * before + (1.0 - decay) * value, value)

    return CollapseState(
        ema_std=averaged(state.ema_std, std),
        ema_std_sequence=averaged(state.ema_std_sequence, std_sequence),
        count=state.count + 1,
    )
