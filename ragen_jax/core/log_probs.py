"""From logits to log-probs and entropies, the same way for sampler, scorer and loss."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.types import Array

# Finite, so that 0 * log 0 stays 0 in the entropy and no gradient becomes NaN.
_UNUSED_LOGIT = -1e30


def log_probs_and_entropy(
    logits: Array, tokens: Array, *, temperature: float, vocab_size: int | None = None
) -> tuple[jax.Array, jax.Array]:
    """Log-prob of each token and entropy of each distribution, ``softmax(logits / temperature)``, in float32.

    Args:
      logits: [..., V], any float dtype.
      tokens: [...] int32, the token whose log-prob is wanted.
      temperature: divides the logits before anything else; the sampler's own value, so that ratios start at 1.
      vocab_size: ids at or above it are no tokens of the tokenizer and get probability 0; None keeps all V.

    Returns:
      log_probs [...] and entropy [...], nats, float32.

    Raises:
      ValueError: temperature not positive, or vocab_size outside [1, V].

    >>> log_prob, _ = log_probs_and_entropy(jnp.array([2.0, 0.0]), jnp.array(0), temperature=0.5)
    >>> round(float(log_prob), 5)
    -0.01815
    """
    chex.assert_rank(tokens, logits.ndim - 1)
    chex.assert_equal_shape_prefix([logits, tokens], tokens.ndim)
    if temperature <= 0:
        raise ValueError(f"temperature={temperature} must be positive; greedy decoding has no log-probs to train on")
    rows = logits.shape[-1]
    if vocab_size is not None and not 1 <= vocab_size <= rows:
        raise ValueError(f"vocab_size={vocab_size} must lie between 1 and the {rows} rows of the logits")
    scaled = jnp.asarray(logits, jnp.float32) / temperature
    if vocab_size is not None and vocab_size < rows:
        scaled = jnp.where(jnp.arange(rows) < vocab_size, scaled, _UNUSED_LOGIT)
    return _of_scaled(scaled, jnp.asarray(tokens, jnp.int32))


@jax.custom_vjp
def _of_scaled(scaled: jax.Array, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log-prob of each token and entropy of each ``softmax(scaled)``."""
    return _forward(scaled, tokens)[0]


def _forward(scaled: jax.Array, tokens: jax.Array) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, ...]]:
    shifted = scaled - jnp.max(scaled, axis=-1, keepdims=True)
    log_total = jnp.log(jnp.sum(jnp.exp(shifted), axis=-1))
    chosen = jnp.take_along_axis(shifted, tokens[..., None], axis=-1)[..., 0]
    probs = jnp.exp(shifted - log_total[..., None])
    entropy = log_total - jnp.sum(probs * shifted, axis=-1)
    return (chosen - log_total, entropy), (shifted, tokens, log_total, entropy)


def _backward(kept: tuple[jax.Array, ...], wanted: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
    """Both gradients in one sweep over the vocabulary; derived step by step they hold four arrays of its size.

    With p = softmax and e the unit vector of the token: d log p_token = e - p, dH = -p (log p + H).
    """
    shifted, tokens, log_total, entropy = kept
    of_log_prob, of_entropy = (x[..., None] for x in wanted)
    log_probs = shifted - log_total[..., None]
    is_token = jnp.arange(shifted.shape[-1]) == tokens[..., None]
    slope = of_log_prob + of_entropy * (log_probs + entropy[..., None])
    return jnp.where(is_token, of_log_prob, 0.0) - jnp.exp(log_probs) * slope, None


_of_scaled.defvjp(_forward, _backward)
