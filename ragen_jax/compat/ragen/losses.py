"""The policy loss of one batch, reduced as the released code reduces it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

from ragen_jax import core

AGGREGATIONS = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")


def ppo_policy_loss(
    log_probs: ArrayLike,
    old_log_probs: ArrayLike,
    advantages: ArrayLike,
    mask: ArrayLike,
    *,
    clip_low: float,
    clip_high: float,
    clip_c: float = 3.0,
    aggregation: str = "token-mean",
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Clipped surrogate with the dual clip; token values are those of ``core.ppo_terms``, only their reduction differs.

    * ``token-mean``: the sum over ``tokens + 1e-8``.
    * ``seq-mean-token-mean``: mean over rows of their token means; NaN with an empty row, which core leaves out.
    * ``seq-mean-token-sum``: mean over all rows of their sums; core counts rows that have a token.
    * ``seq-mean-token-sum-norm``: the sum over the padded length T, whatever the number of rows; core divides by those
      as well, so that the loss does not grow with the batch.

    The released code does this for each micro-batch and takes the mean over micro-batches. Core fixes one denominator
    for the whole optimiser batch; give the rows of one micro-batch to compare.

    Args:
      log_probs: [B, T] nats.
      old_log_probs: [B, T] nats.
      advantages: [B, T].
      mask: [B, T] trained tokens.
      clip_low: lower clip of the ratio.
      clip_high: upper clip of the ratio.
      clip_c: dual clip, above 1.
      aggregation: one of the four names above.

    Returns:
      loss [] and the metrics under the names of the released code: ``pg_clipfrac``, ``ppo_kl`` (nats) and
      ``pg_clipfrac_lower``.

    Raises:
      ValueError: clip values or an aggregation that cannot be used.

    >>> ones = jnp.ones((2, 4))
    >>> loss, _ = ppo_policy_loss(ones, ones, -ones, ones, clip_low=0.2, clip_high=0.28,
    ...                           aggregation="seq-mean-token-sum-norm")
    >>> float(loss)
    2.0
    """
    if aggregation not in AGGREGATIONS:
        raise ValueError(f"unknown aggregation {aggregation!r}; use one of {', '.join(AGGREGATIONS)}")
    log_probs, old_log_probs, advantages = (jnp.asarray(x, jnp.float32) for x in (log_probs, old_log_probs, advantages))
    tokens = jnp.asarray(mask, bool)
    loss, clipped, lower = core.ppo_terms(
        log_probs, old_log_probs, advantages, tokens, clip_low=clip_low, clip_high=clip_high, clip_dual=clip_c
    )
    metrics = {
        "pg_clipfrac": core.masked_mean(clipped, tokens),
        "ppo_kl": core.masked_mean(old_log_probs - log_probs, tokens),
        "pg_clipfrac_lower": core.masked_mean(lower, tokens),
    }
    return _reduce(core.masked_sum(loss, tokens, axis=1), tokens, aggregation), metrics


def _reduce(sums: jax.Array, mask: jax.Array, aggregation: str) -> jax.Array:
    """Sums of rows [B] as one number."""
    counts = mask.sum(axis=1)
    if aggregation == "token-mean":
        return sums.sum() / (counts.sum() + 1e-8)
    if aggregation == "seq-mean-token-mean":
        return jnp.mean(sums / counts)
    if aggregation == "seq-mean-token-sum":
        return jnp.mean(sums)
    return sums.sum() / mask.shape[1]
