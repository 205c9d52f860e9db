"""What would the collapse estimators say if reasoning had nothing to do with its prompt?

Permuting which prompt belongs to which reasonings breaks the dependence and keeps everything else: the scorer, the
lengths, the easy and the hard prompts. Permutations come in as an array; nothing here draws random numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.checks import refuse_no_permutation
from ragen_jax.core.collapse import hit_probability, matched_and_marginal
from ragen_jax.core.columns import class_sizes, other_columns, refuse_sampled_columns
from ragen_jax.core.masking import masked_mean
from ragen_jax.types import Array, CrossScores


class NullTest(NamedTuple):
    """A statistic beside its values under permuted prompts.

    Attributes:
      observed: [], under the true prompts.
      values: [N], under each permutation.
      p_value: [], ``(1 + b) / (1 + N)`` with b permutations whose value is at least the observed one.
    """

    observed: jax.Array
    values: jax.Array
    p_value: jax.Array


def permutation_null(scores: CrossScores, permutations: Array) -> dict[str, NullTest]:
    """Null of the information estimate and of the retrieval accuracy under permuted prompts.

    Under a permutation, the reasonings of prompt i are matched with prompt ``permutation[i]``. Drawn uniformly from all
    permutations, the identity among them, they make the p-values exact when the pairing carries no information and
    the prompts are independent units: each with reasonings of its own. They are not where one reasoning stands in
    several columns, or several turns of one rollout do, since permuting parts what belongs together.

    Args:
      scores: cross scores, [C, G, C].
      permutations: [N, C] int32, each row a permutation of 0 .. C - 1.

    Returns:
      ``mi_sequence_nats`` and ``retrieval_accuracy`` (k = 1, ties as shares), one test each.

    Raises:
      ValueError: sampled columns, or (outside jit) a row that is no permutation or a valid score that is not finite.
    """
    chex.assert_rank([scores.log_probs, permutations], [3, 2])
    refuse_sampled_columns(scores, "a permutation of the prompts")
    columns = scores.column_class.shape[0]
    chex.assert_shape(permutations, (None, columns))
    refuse_no_permutation(permutations)
    permutations = jnp.asarray(permutations, jnp.int32)
    return {
        "mi_sequence_nats": _test(_gain_by_column(scores), permutations),
        "retrieval_accuracy": _test(_hit_by_column(scores), permutations),
    }


def wrong_prompt_mi(scores: CrossScores) -> jax.Array:
    """Information estimate when every reasoning is matched with a prompt of another class, all equally likely.

    The mean over derangements, in closed form: the more negative, the more a wrong prompt costs. It is no chance level,
    since a random permutation keeps some prompts in place. Under sampled columns the drawn ones stand for all.

    Args:
      scores: cross scores, [C, G, S].

    Returns:
      [] nats per sequence; 0 when all columns share one class.
    """
    chex.assert_rank(scores.log_probs, 3)
    weight = other_columns(scores)
    gain = jnp.where(weight > 0, _gain_by_column(scores), 0.0)
    return jnp.sum(jnp.sum(weight * gain, axis=1) / jnp.maximum(jnp.sum(weight, axis=1), 1.0))


def _test(by_column: jax.Array, permutations: jax.Array) -> NullTest:
    """Test of the statistic ``sum_i by_column[i, permutation[i]]``."""
    prompts = jnp.arange(by_column.shape[0])
    # The same gather and sum for the true pairing, so that the identity among the permutations ties with it exactly.
    everything = jnp.concatenate([prompts[None].astype(jnp.int32), permutations])
    values = jnp.sum(by_column[prompts, everything], axis=1)
    observed, values = values[0], values[1:]
    as_large = jnp.sum((values >= observed).astype(jnp.float32))
    return NullTest(observed=observed, values=values, p_value=(1.0 + as_large) / (1.0 + values.shape[0]))


def _gain_by_column(scores: CrossScores) -> jax.Array:
    """[C, S]: what the reasonings of prompt i add to the mean of matched minus marginal if j is called their prompt."""
    _, marginal = matched_and_marginal(scores)
    return _mean_by_column(jnp.asarray(scores.log_probs, jnp.float32) - marginal[:, :, None], scores.valid)


def _hit_by_column(scores: CrossScores) -> jax.Array:
    """[C, C]: what the reasonings of prompt i add to the retrieval accuracy if j is called their prompt."""
    log_probs = jnp.asarray(scores.log_probs, jnp.float32)
    best = log_probs == jnp.max(log_probs, axis=2, keepdims=True)
    own = jnp.broadcast_to(class_sizes(scores), best.shape)
    others = jnp.sum(best.astype(jnp.float32), axis=2, keepdims=True) - own
    hit = hit_probability(others, own, jnp.ones_like(own), k=1)
    return _mean_by_column(jnp.where(best, hit, 0.0), scores.valid)


def _mean_by_column(values: jax.Array, valid: Array) -> jax.Array:
    mask = jnp.broadcast_to(jnp.asarray(valid, bool)[:, :, None], values.shape)
    share = jnp.sum(jnp.asarray(valid, jnp.float32), axis=1) / jnp.maximum(
        jnp.sum(jnp.asarray(valid, jnp.float32)), 1.0
    )
    return masked_mean(values, mask, axis=1) * share[:, None]
