"""How sure is an estimate? Intervals that name what they are about.

Tokens and rollouts of one prompt are not independent draws of prompts, so there are two intervals for the information
estimate: one about the batch at hand, one about the population its prompts came from.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.checks import GROUPS, refuse_non_finite
from ragen_jax.core.collapse import column_sampling_std_error, matched_and_marginal
from ragen_jax.core.columns import gain_over_mixture, one_column_per_class, refuse_sampled_columns
from ragen_jax.core.grouping import group_mean
from ragen_jax.core.masking import full_mask, masked_mean
from ragen_jax.types import Array, CrossScores

NORMAL_95 = 1.959963984540054  # two-sided 95 % point of the normal distribution


class Interval(NamedTuple):
    """An estimate and its 95 % interval, each [] float32 in the unit of the estimate; NaN where nothing is known."""

    estimate: jax.Array
    low: jax.Array
    high: jax.Array
    std_error: jax.Array


def stratified_interval(values: Array, valid: Array | None = None) -> Interval:
    """Interval of a mean over rollouts for *these* prompts: what more rollouts of the same prompts converge to.

    Prompts are strata: with n_i of n valid rollouts under prompt i and s_i^2 the unbiased variance of the values among
    them, the squared standard error is ``sum_i (n_i / n)^2 s_i^2 / n_i``. A prompt with one valid rollout takes the
    pooled variance.

    Args:
      values: [P, G], one per rollout.
      valid: [P, G] bool, all rollouts by default.

    Returns:
      Interval in the unit of the values. When no prompt has two valid rollouts there is nothing to tell the spread
      from: its ends and its standard error are NaN.

    Raises:
      ValueError: no prompt or no rollout, or (outside jit) a valid value that is not finite.
    """
    chex.assert_rank(values, 2)
    refuse_non_finite("value", values, valid, axes=GROUPS, fix="mark the rollout as not valid")
    valid = full_mask(values, valid)
    count = jnp.sum(valid.astype(jnp.float32), axis=1)
    centred = jnp.where(valid, values - group_mean(values, valid)[:, None], 0.0)
    squares = jnp.sum(jnp.square(centred), axis=1)
    several = count > 1
    pooled = jnp.sum(squares) / jnp.maximum(jnp.sum(jnp.where(several, count - 1.0, 0.0)), 1.0)
    variance = jnp.where(several, squares / jnp.maximum(count - 1.0, 1.0), pooled)
    std_error = jnp.sqrt(jnp.sum(count * variance)) / jnp.maximum(jnp.sum(count), 1.0)
    return _around(masked_mean(values, valid), jnp.where(several.any(), std_error, jnp.nan))


def batch_mi_interval(scores: CrossScores) -> Interval:
    """Interval for the information of *these* prompts, from the spread of matched minus marginal within prompts.

    See :func:`stratified_interval`. Under sampled columns the error of that draw is added
    (:func:`ragen_jax.core.collapse.column_sampling_std_error`).

    Args:
      scores: cross scores, [C, G, S].

    Returns:
      Interval in nats per sequence; its ends are NaN when no prompt has two scored rollouts.
    """
    matched, marginal = matched_and_marginal(scores)
    interval = stratified_interval(matched - marginal, scores.valid)
    if scores.columns is None:
        return interval
    return _around(interval.estimate, jnp.hypot(interval.std_error, column_sampling_std_error(scores)))


def conditional_entropy_interval(scores: CrossScores) -> Interval:
    """Interval for H(Z|X) per token for *these* prompts: the mean of minus matched over length.

    See :func:`stratified_interval`.

    Args:
      scores: cross scores, [C, G, S].

    Returns:
      Interval in nats per token; its ends are NaN when no prompt has two scored rollouts.
    """
    matched, _ = matched_and_marginal(scores)
    length = jnp.maximum(jnp.asarray(scores.lengths, jnp.float32), 1.0)
    return stratified_interval(-matched / length, scores.valid)


def proportion_interval(hits: Array, count: Array) -> Interval:
    """Interval of a share of independent trials, with a standard error that is never 0.

    The error is that of ``(hits + 1) / (count + 2)``, the mean of the share under a uniform prior: sixteen successes in
    sixteen trials are no proof of certainty.

    Args:
      hits: [], number of trials with the property.
      count: [], trials.

    Returns:
      Interval without unit; estimate 0 and a standard error of 1/2 without a trial.
    """
    hits, count = jnp.asarray(hits, jnp.float32), jnp.asarray(count, jnp.float32)
    chex.assert_rank([hits, count], [0, 0])
    smoothed = (hits + 1.0) / (count + 2.0)
    std_error = jnp.sqrt(smoothed * (1.0 - smoothed) / jnp.maximum(count, 1.0))
    return _around(hits / jnp.maximum(count, 1.0), std_error)


def prompt_jackknife_mi(scores: CrossScores) -> Interval:
    """Interval for the expected information of a batch of C prompts drawn from the same population.

    The estimate is recomputed C times, each time without one prompt, its reasonings and its column; a class that occurs
    m times then weighs m - 1. The target depends on C, as the ceiling ln C does: it is the mean of the estimate over
    batches of this size, not a limit for many prompts.

    Args:
      scores: cross scores, [C, G, C].

    Returns:
      Interval in nats per sequence.

    Raises:
      ValueError: fewer than three prompts.
    """
    chex.assert_rank(scores.log_probs, 3)
    refuse_sampled_columns(scores, "leaving prompts out")
    columns = scores.column_class.shape[0]
    if columns < 3:
        raise ValueError(f"{columns} prompts are too few to leave one out; use at least 3")
    valid = jnp.asarray(scores.valid, bool)
    matched, marginal = matched_and_marginal(scores)
    log_probs = one_column_per_class(scores)
    prompts = jnp.arange(columns)

    def without(left_out: jax.Array) -> jax.Array:
        kept = prompts != left_out
        gain = gain_over_mixture(log_probs, matched, kept.astype(jnp.float32)[None])
        return masked_mean(gain, valid & kept[:, None])

    replicates = jax.lax.map(without, prompts)
    return jackknife(masked_mean(matched - marginal, valid), replicates)


def jackknife(estimate: Array, replicates: Array) -> Interval:
    """Interval from leave-one-out values: squared standard error ``(n - 1) / n * sum_c (r_c - mean)^2``.

    Args:
      estimate: [], from all units.
      replicates: [n], each without one unit.

    Returns:
      Interval in the unit of the estimate.
    """
    chex.assert_rank([estimate, replicates], [0, 1])
    count = replicates.shape[0]
    spread = jnp.sum(jnp.square(replicates - jnp.mean(replicates)))
    return _around(jnp.asarray(estimate, jnp.float32), jnp.sqrt((count - 1) / count * spread))


def bootstrap_interval(values: Array, indices: Array, *, confidence: float = 0.95) -> Interval:
    """Percentile interval of a mean, from resampling indices that the caller drew.

    Args:
      values: [n], independent units such as prompts or seeds.
      indices: [R, n] int32, each row n draws with replacement from 0 .. n - 1.
      confidence: coverage, in (0, 1).

    Returns:
      Interval in the unit of the values.

    Raises:
      ValueError: confidence outside (0, 1).
    """
    chex.assert_rank([values, indices], [1, 2])
    chex.assert_shape(indices, (None, values.shape[0]))
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} must lie in (0, 1)")
    values = jnp.asarray(values, jnp.float32)
    means = jnp.mean(values[jnp.asarray(indices, jnp.int32)], axis=1)
    tail = (1.0 - confidence) / 2.0
    low, high = jnp.quantile(means, jnp.array([tail, 1.0 - tail], jnp.float32))
    return Interval(estimate=jnp.mean(values), low=low, high=high, std_error=jnp.std(means))


def _around(estimate: jax.Array, std_error: jax.Array) -> Interval:
    half = NORMAL_95 * std_error
    return Interval(estimate=estimate, low=estimate - half, high=estimate + half, std_error=std_error)
