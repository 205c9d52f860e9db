"""How unequal are the prompts? Where all of them teach alike, a filter on reward variance has nothing to choose."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.intervals import Interval, jackknife
from ragen_jax.types import Array


def variance_dispersion(variances: Array) -> Interval:
    """``std(RV) / mean(RV)`` over prompts (RAGEN-2 Table 8), with a jackknife interval over prompts.

    Args:
      variances: [P], reward variance of each group; unbiased std over the prompts.

    Returns:
      Interval, without unit; all 0 when every variance is 0.

    Raises:
      ValueError: fewer than three prompts.

    >>> round(float(variance_dispersion(jnp.array([0.0, 0.0, 3.0])).estimate), 4)
    1.7321
    """
    chex.assert_rank(variances, 1)
    prompts = variances.shape[0]
    if prompts < 3:
        raise ValueError(f"{prompts} prompts are too few for an interval over prompts; use at least 3")
    variances = jnp.asarray(variances, jnp.float32)

    def ratio(kept: jax.Array) -> jax.Array:
        count = jnp.sum(kept)
        mean = jnp.sum(kept * variances) / count
        spread = jnp.sqrt(jnp.sum(kept * jnp.square(variances - mean)) / (count - 1.0))
        return jnp.where(mean > 0, spread / jnp.where(mean > 0, mean, 1.0), 0.0)

    everyone = jnp.ones(prompts, jnp.float32)
    replicates = jax.lax.map(lambda left_out: ratio(everyone.at[left_out].set(0.0)), jnp.arange(prompts))
    return jackknife(ratio(everyone), replicates)
