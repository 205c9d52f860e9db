"""Does a batch push its tokens up or down on the whole?"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ragen_jax.core.masking import masked_sum
from ragen_jax.types import Array


def net_token_weight(advantages: Array, mask: Array) -> jax.Array:
    """``sum A / sum |A|`` over tokens, in [-1, 1].

    Group advantages sum to 0 over rollouts, not over tokens: where successes end early, failures hold more tokens and
    a token mean pushes down what all rollouts share, the format first. Near -1 is a warning.

    Args:
      advantages: [B, T].
      mask: [B, T] bool.

    Returns:
      [] float32; 0 when all advantages are 0.

    >>> float(net_token_weight(jnp.array([[1.0, 0.0, 0.0], [-1.0, -1.0, -1.0]]), jnp.array([[1, 0, 0], [1, 1, 1]])))
    -0.5
    """
    size = masked_sum(jnp.abs(jnp.asarray(advantages, jnp.float32)), mask)
    return masked_sum(advantages, mask) / jnp.where(size > 0, size, 1.0)
