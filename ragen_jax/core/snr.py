"""Gradient accounting: buckets of prompts by reward variance, and what the inner products of gradients say.

The gradient of one set of prompts comes as five vectors: the task gradient, the difference between the contributions of
two halves of the rollouts to it, the gradients of the KL and of the entropy term at coefficient 1, and a direction of
interest. Everything here is computed from their Gram matrix, 25 numbers, so the vectors themselves need not be kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.checks import PROMPTS, refuse_empty, refuse_non_finite
from ragen_jax.core.ranking import descending_rank
from ragen_jax.types import Array

SOURCES = ("task", "difference", "kl", "entropy", "direction")


def rv_buckets(variances: Array, *, count: int | None = None, edges: Sequence[float] | None = None) -> jax.Array:
    """Bucket of each prompt by reward variance, 0 for the lowest.

    Args:
      variances: [P] reward variances (any unit: only their order, or their place among the edges, counts).
      count: k buckets of ``floor(P / k)`` prompts in ascending order, the remainder in the last one; with fewer prompts
        than buckets every prompt has its own. Equal values keep their order (``core.ranking``).
      edges: inner edges e_1 < ... < e_m of the buckets (-inf, e_1), [e_1, e_2), ..., [e_m, inf).

    Returns:
      [P] int32.

    Raises:
      ValueError: not exactly one of count and edges, no bucket, no edge, or edges that do not ascend; no prompt; or
        (outside jit) a variance that is not finite.

    >>> rv_buckets(jnp.array([0.5, 0.0, 2.0, 1.0, 3.0]), count=2).tolist()
    [0, 0, 1, 1, 1]
    >>> rv_buckets(jnp.array([0.5, 0.0, 2.0, 1.0, 3.0]), edges=(0.5, 2.0)).tolist()
    [1, 0, 2, 1, 2]
    """
    chex.assert_rank(variances, 1)
    refuse_empty(variances, axes=PROMPTS)
    refuse_non_finite("reward variance", variances, axes=PROMPTS, fix="leave out prompts with broken rewards")
    if (count is None) == (edges is None):
        raise ValueError(f"count={count} and edges={edges}: give one of them")
    if edges is not None:
        if not edges or any(low >= high for low, high in itertools.pairwise(edges)):
            raise ValueError(f"edges={tuple(edges)} must be at least one number, in ascending order")
        return jnp.searchsorted(jnp.asarray(edges), jnp.asarray(variances), side="right").astype(jnp.int32)
    assert count is not None
    if count < 1:
        raise ValueError(f"count={count} buckets; use 1 or more")
    prompts = variances.shape[0]
    buckets = min(count, prompts)
    rank = descending_rank(-jnp.asarray(variances, jnp.float32), jnp.ones(prompts, bool))
    return jnp.minimum(rank // (prompts // buckets), buckets - 1)


def dominance_ratio(task_norm: Array, regulariser_norm: Array) -> jax.Array:
    """Share of the regularisers in a gradient, ``|g_reg| / (|g_task| + |g_reg|)`` (RAGEN-2 appendix K).

    ``g_reg`` is the sum of the regularisers, so its norm is that of the sum, not the sum of norms.

    Args:
      task_norm: [...].
      regulariser_norm: [...].

    Returns:
      [...] in [0, 1]; 0 when both are 0.
    """
    return _ratio(jnp.asarray(regulariser_norm), jnp.asarray(task_norm) + jnp.asarray(regulariser_norm))


def signal_to_noise(signal_norm: Array, noise_norm: Array, regulariser_norm: Array) -> jax.Array:
    """``|g_signal| / (|g_noise| + |g_reg|)`` (RAGEN-2 section 3.2).

    Args:
      signal_norm: [...].
      noise_norm: [...].
      regulariser_norm: [...].

    Returns:
      [...] at least 0; 0 when all three are 0, inf for a signal that nothing disturbs.
    """
    return _ratio(jnp.asarray(signal_norm), jnp.asarray(noise_norm) + jnp.asarray(regulariser_norm))


def gradient_account(gram: Array, *, kl_coef: float, entropy_coef: float) -> dict[str, jax.Array]:
    r"""Norms, cosines, signal and noise of one set of prompts, from the Gram matrix of its gradients.

    With the contributions a, b of two halves of the rollouts to the task gradient ``g = a + b``, so that 2a and 2b are
    two estimates of it, and their difference ``d = a - b``:

        noise^2 = |2a - 2b|^2 / 4 = |d|^2        signal^2 = <2a, 2b> = |g|^2 - |d|^2

    ``signal^2`` estimates the squared norm of the expected g and can be negative; ``noise^2`` the variance of g. With
    a baseline that does not depend on the group both are unbiased. The group mean couples the halves: signal^2 then
    has expectation ``((1 - 1/G)^2 + 1/G^2) |g_true|^2``, against ``(1 - 1/G)^2 |g_true|^2`` for the square of the
    expected estimate.

    Args:
      gram: [5, 5] inner products of the gradients in the order of ``SOURCES``: losses, so a step goes against them. KL
        and entropy at coefficient 1. ``direction`` is the gradient of a loss too, for example of minus the MI.
      kl_coef: coefficient of the KL term.
      entropy_coef: coefficient of the entropy term.

    Returns:
      Scalars. ``*_norm``: task, kl, entropy, their sum regulariser, and total. ``*_unit_norm``: at coefficient 1.
      ``signal_sq``, ``noise_sq``, ``signal_norm`` (of signal_sq cut at 0), ``noise_norm``, ``snr`` (with regularisers),
      ``task_snr`` (without), ``dominance``. ``cos_a_b``: cosines between terms as losses at coefficient 1; with
      ``direction``, above 0 means that a step on the term goes along it. A cosine with a vector of length 0 is 0.
    """
    chex.assert_shape(gram, (5, 5))
    gram = jnp.asarray(gram)
    vectors = {
        "task": jnp.array([1.0, 0.0, 0.0, 0.0, 0.0], gram.dtype),
        "kl": jnp.array([0.0, 0.0, 1.0, 0.0, 0.0], gram.dtype),
        "entropy": jnp.array([0.0, 0.0, 0.0, 1.0, 0.0], gram.dtype),
        "regulariser": jnp.array([0.0, 0.0, kl_coef, entropy_coef, 0.0], gram.dtype),
        "total": jnp.array([1.0, 0.0, kl_coef, entropy_coef, 0.0], gram.dtype),
        "direction": jnp.array([0.0, 0.0, 0.0, 0.0, 1.0], gram.dtype),
    }
    norm = {name: jnp.sqrt(jnp.maximum(v @ gram @ v, 0.0)) for name, v in vectors.items()}
    noise_sq = gram[1, 1]
    signal_sq = gram[0, 0] - noise_sq
    signal, noise = jnp.sqrt(jnp.maximum(signal_sq, 0.0)), jnp.sqrt(noise_sq)
    numbers = {
        "task_norm": norm["task"],
        "kl_norm": abs(kl_coef) * norm["kl"],
        "entropy_norm": abs(entropy_coef) * norm["entropy"],
        "regulariser_norm": norm["regulariser"],
        "total_norm": norm["total"],
        "kl_unit_norm": norm["kl"],
        "entropy_unit_norm": norm["entropy"],
        "direction_norm": norm["direction"],
        "signal_sq": signal_sq,
        "noise_sq": noise_sq,
        "signal_norm": signal,
        "noise_norm": noise,
        "snr": signal_to_noise(signal, noise, norm["regulariser"]),
        "task_snr": _ratio(signal, noise),
        "dominance": dominance_ratio(norm["task"], norm["regulariser"]),
    }
    pairs = (("task", "kl"), ("task", "entropy"), ("kl", "entropy"), ("task", "regulariser"))
    for first, second in (*pairs, *((name, "direction") for name in ("task", "kl", "entropy", "total"))):
        inner = vectors[first] @ gram @ vectors[second]
        cosine = jnp.clip(_ratio(inner, norm[first] * norm[second]), -1.0, 1.0)
        numbers[f"cos_{first}_{second}"] = jnp.where(norm[first] * norm[second] > 0, cosine, 0.0)
    return numbers


def _ratio(part: jax.Array, whole: jax.Array) -> jax.Array:
    """The quotient; 0 for 0 / 0."""
    return jnp.where((part == 0) & (whole == 0), 0.0, part / jnp.where((part == 0) & (whole == 0), 1.0, whole))
