"""Does a batch push its tokens up or down on the whole? And what to do about it."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.masking import masked_mean, masked_sum
from ragen_jax.types import Array


def net_token_weight(advantages: Array, mask: Array) -> jax.Array:
    """``sum A / sum |A|`` over tokens, in [-1, 1].

    For group advantages that is ``sum_i A_i n_i / sum_i |A_i| n_i`` with n_i the tokens of row i. Such advantages sum
    to 0 over rollouts, not over tokens: where successes end early, failures hold more tokens and a token mean pushes
    down what all rollouts share, the format first. Near -1 is a warning.

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


def center_over_tokens(advantages: Array, mask: Array, *, group_size: int) -> jax.Array:
    """Subtract from each group the mean over its tokens, so that the advantages of a group sum to 0 over tokens.

    ``A_it - sum_js A_js / sum_j n_j`` over the rows j of the group: what its rollouts have in common is pushed neither
    up nor down by a token mean (or token sum). A group whose advantages are all 0 keeps them.

    Args:
      advantages: [B, T].
      mask: [B, T] bool, trained tokens.
      group_size: G; row ``i * G + k`` is rollout k of prompt i.

    Returns:
      [B, T] float32, 0 outside the mask.

    >>> advantages, mask = jnp.array([[1.0, 0, 0], [-1.0, -1.0, -1.0]]), jnp.array([[1, 0, 0], [1, 1, 1]])
    >>> center_over_tokens(advantages, mask, group_size=2).tolist()
    [[1.5, 0.0, 0.0], [-0.5, -0.5, -0.5]]
    """
    chex.assert_rank([advantages, mask], 2)
    chex.assert_equal_shape([advantages, mask])
    mask = jnp.asarray(mask, bool)
    grouped = (-1, group_size * mask.shape[1])
    means = masked_mean(jnp.reshape(advantages, grouped), jnp.reshape(mask, grouped), axis=1)
    return jnp.where(mask, jnp.asarray(advantages, jnp.float32) - jnp.repeat(means, group_size)[:, None], 0.0)
