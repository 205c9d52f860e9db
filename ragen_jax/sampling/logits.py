"""Truncation of a distribution to its nucleus or to its k likeliest tokens, without sorting the vocabulary."""

from __future__ import annotations

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
from jax import Array

HALVINGS = 30  # the bits of 1.0 are below 2^30


def truncate(probabilities: Array, *, top_p: float, top_k: int) -> Array:
    """Zero the tokens outside the nucleus and outside the k likeliest.

    The cut is the largest probability whose tokens, and all likelier ones, still hold mass ``top_p`` (number at least
    ``top_k``). Tokens that tie at the cut all stay. With both, ``top_p`` is a share of the mass that ``top_k`` left.

    Args:
      probabilities: [..., V] float32, each row sums to 1.
      top_p: mass to keep, 1 = all.
      top_k: number to keep, 0 = all.

    Returns:
      [..., V], not renormalised.
    """
    chex.assert_type(probabilities, jnp.float32)
    out = probabilities
    if top_k > 0:
        out = _keep(out, lambda kept: kept.sum(-1) >= top_k)
    if top_p < 1:
        left, total = out, out.sum(-1)
        out = _keep(left, lambda kept: jnp.where(kept, left, 0).sum(-1) >= top_p * total)
    return out


def _keep(probabilities: Array, enough: Callable[[Array], Array]) -> Array:
    """Zero what is below the largest cut that leaves enough.

    Read as whole numbers, the bits of floats that are not negative are ordered as the floats are. Halving their range
    therefore ends at one value exactly, however far the probabilities lie apart.

    Args:
      probabilities: [..., V] float32 in [0, 1].
      enough: from the mask of kept tokens [..., V] to bool [...].
    """
    bits = jax.lax.bitcast_convert_type(probabilities, jnp.int32)

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds  # the cut lies in [low, high)
        middle = low + (high - low) // 2
        good = enough(bits >= middle[..., None])
        return jnp.where(good, middle, low), jnp.where(good, high, middle)

    top = bits.max(-1)
    low, _ = jax.lax.fori_loop(0, HALVINGS, halve, (jnp.zeros_like(top), top + 1))
    return jnp.where(bits >= low[..., None], probabilities, 0)


def draw(probabilities: Array, uniform: Array) -> Array:
    """One token a row by inverting the cumulative distribution.

    Two levels (blocks of 32, then inside one block) keep the running sums short.

    Args:
      probabilities: [R, V], non-negative, not all zero.
      uniform: [R] in [0, 1).

    Returns:
      [R] int32, an id of positive probability.
    """
    rows, vocabulary = probabilities.shape
    blocks = jnp.pad(probabilities, ((0, 0), (0, -vocabulary % 32))).reshape(rows, -1, 32)
    heights = jnp.cumsum(blocks.sum(-1), axis=-1)
    target = uniform * heights[:, -1]
    index = jnp.minimum((heights <= target[:, None]).sum(-1), heights.shape[1] - 1)
    before = jnp.where(index > 0, jnp.take_along_axis(heights, jnp.maximum(index - 1, 0)[:, None], 1)[:, 0], 0.0)
    inside = jnp.cumsum(jnp.take_along_axis(blocks, index[:, None, None], 1)[:, 0], axis=-1)
    token = index * 32 + jnp.minimum((inside <= (target - before)[:, None]).sum(-1), 31)
    token = jnp.minimum(token, vocabulary - 1)
    drawable = jnp.take_along_axis(probabilities, token[:, None], 1)[:, 0] > 0
    return jnp.where(drawable, token, probabilities.argmax(-1)).astype(jnp.int32)
