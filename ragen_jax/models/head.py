"""From hidden states to log-probs: the only place where a vocabulary-sized array exists, one chunk at a time."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.log_probs import log_probs_and_entropy
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.sharding import lay_out
from ragen_jax.types import Array, Params

CHUNK = 2048  # rows of logits alive at once


def logits(params: Params, config: ModelConfig, hidden: Array, *, vocab_size: int) -> jax.Array:
    """Float32 logits [..., vocab_size]; embedding rows that no token uses are left out."""
    table = params["embedding" if config.tied else "head"][:vocab_size]
    return jnp.einsum("...d,vd->...v", hidden, table.astype(hidden.dtype), preferred_element_type=jnp.float32)


def token_log_probs(
    params: Params,
    config: ModelConfig,
    hidden: Array,
    targets: Array,
    *,
    vocab_size: int,
    temperature: float,
    chunk: int = CHUNK,
) -> tuple[jax.Array, jax.Array]:
    """Log-prob of the targets and entropy of the distribution they were drawn from.

    Args:
      params: parameters.
      config: static shapes.
      hidden: [..., d] states that predict the targets.
      targets: [...] int32.
      vocab_size: ids below this can be drawn.
      temperature: divides the logits.
      chunk: rows whose logits are alive at once, in the backward pass too.

    Returns:
      Two [...] float32 arrays in nats.
    """
    chex.assert_shape(hidden, (*targets.shape, config.width))
    flat, ids = hidden.reshape(-1, config.width), targets.reshape(-1)

    @jax.checkpoint
    def piece(states: Array, wanted: Array) -> tuple[jax.Array, jax.Array]:
        scores = lay_out(logits(params, config, lay_out(states, "rows", None), vocab_size=vocab_size), "rows", "tensor")
        return log_probs_and_entropy(scores, wanted, temperature=temperature)

    count = flat.shape[0]
    if count <= chunk:
        log_probs, entropy = piece(flat, ids)
    else:
        extra = -count % chunk
        pieces = (
            jnp.pad(flat, ((0, extra), (0, 0))).reshape(-1, chunk, config.width),
            jnp.pad(ids, (0, extra)).reshape(-1, chunk),
        )
        log_probs, entropy = jax.lax.map(lambda args: piece(*args), pieces)
        log_probs, entropy = log_probs.reshape(-1)[:count], entropy.reshape(-1)[:count]
    return log_probs.reshape(targets.shape), entropy.reshape(targets.shape)
