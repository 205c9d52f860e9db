"""Keep the smallest set of prompts that holds a share rho of the total score (RAGEN-2 section 3.3, the SNR filter)."""

from __future__ import annotations

from typing import get_args

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.filters.result import (
    FilterOptions,
    LossScale,
    Mass,
    build_result,
    candidates,
    check_scores,
    check_share,
    smallest_prefix,
)
from ragen_jax.types import Array, FilterResult


def top_p(
    scores: Array,
    *,
    rho: float,
    flat: Array | None = None,
    include_zero: bool = False,
    slack: float = 0.0,
    mass: Mass = "linear",
    loss_scale: LossScale = "none",
) -> FilterResult:
    """Smallest k with ``sum of the k largest scores >= rho * total``.

    Ties go in prompt order, sums count as equal within a relative rounding of 1e-6, so the answer is the same on every
    run. With ``slack=0`` the set does not change when all scores are multiplied by c > 0.

    Mass: "linear" is the score itself. "softmax" is softmax(scores), which depends on the scale of the rewards: on 0/1
    rewards it is close to uniform and keeps nearly everything. "count" gives every prompt that takes part the same
    mass, so that the ``ceil(rho * n)`` best of n are kept.

    Args:
      scores: [P], the reward variance in the paper; at least 0 under "linear".
      rho: share of the total, in (0, 1].
      flat: [P] bool, prompts whose rewards are all equal; by default those with score 0.
      include_zero: let flat prompts take part. Under "linear" they hold no mass and are never needed.
      slack: lowers the threshold by this many units of the mass. An absolute slack drops batches of small scale.
      mass: "linear", "softmax" or "count".
      loss_scale: factor on the actor loss: "none", "linear", "sqrt" or "rho".

    Returns:
      The kept set; empty when all prompts are flat.

    Raises:
      ValueError: rho outside (0, 1], negative slack, unknown mass, or (outside jit) scores that are negative or NaN.

    >>> top_p(jnp.array([4.0, 3.0, 2.0, 1.0]), rho=0.9).keep.tolist()
    [True, True, True, False]
    """
    chex.assert_rank(scores, 1)
    check_share("rho", rho)
    if slack < 0:
        raise ValueError(f"slack={slack} must be at least 0")
    if mass not in get_args(Mass):
        raise ValueError(f"unknown mass {mass!r}; use one of {', '.join(get_args(Mass))}")
    check_scores(scores, non_negative=mass == "linear")
    scores = jnp.asarray(scores, jnp.float32)
    among = candidates(scores, flat, include_zero=include_zero)
    keep = smallest_prefix(scores, _mass(scores, among, mass), among, share=rho, slack=slack)
    return build_result(keep, scores, loss_scale=loss_scale, rho=rho)


def rule(scores: Array, flat: Array, options: FilterOptions) -> FilterResult:
    """``top_p`` with ``value`` as rho."""
    return top_p(
        scores,
        rho=options.value,
        flat=flat,
        include_zero=options.include_zero,
        slack=options.slack,
        mass=options.mass,
        loss_scale=options.loss_scale,
    )


def _mass(scores: jax.Array, among: jax.Array, mass: Mass) -> jax.Array:
    if mass == "linear":
        return scores
    if mass == "softmax":
        return jax.nn.softmax(scores, where=among)
    return among.astype(jnp.float32)
