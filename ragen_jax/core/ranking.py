"""The one order in which prompts and rollouts are ranked: best first, ties in the order in which they stand."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.types import Array

TIE = 1e-5  # share of the largest score; neighbours no further apart are equal. Rounding is ten times smaller


def descending_rank(scores: Array, among: Array) -> jax.Array:
    """Rank of each entry, best first; ties in the order of the entries, entries outside ``among`` last.

    A statistic of a group, such as its variance, carries rounding that changes with the order of the rollouts, with the
    unit of the rewards and with the compiler. So it is not compared digit by digit: in descending order a score ties
    with the one before when it lies no more than 1e-5 of the largest ``|score|`` below. Ties link up, so the order does
    not depend on who is compared with whom.

    Args:
      scores: [N].
      among: [N] bool, entries that take part.

    Returns:
      [N] int32, a permutation of 0 .. N - 1.

    >>> descending_rank(jnp.array([1.0, 3.0, 3.0000002, 2.0]), jnp.ones(4, bool)).tolist()
    [3, 0, 1, 2]
    """
    chex.assert_rank([scores, among], 1)
    chex.assert_equal_shape([scores, among])
    scores = jnp.asarray(scores, jnp.float32)
    among = jnp.asarray(among, bool)
    key = jnp.where(among, -scores, jnp.inf)
    order = jnp.argsort(key, stable=True)
    largest = jnp.max(jnp.abs(jnp.where(among, scores, 0.0)), initial=0.0)
    apart = jnp.diff(key[order]) > TIE * largest  # inf - inf is NaN: not apart
    level = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(apart.astype(jnp.int32))])
    level = jnp.zeros(key.shape, jnp.int32).at[order].set(level)
    return jnp.argsort(jnp.argsort(level, stable=True), stable=True).astype(jnp.int32)
