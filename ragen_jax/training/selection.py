"""Which prompts of a batch are worth an update: scores, the filter's verdict and its statistics."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from ragen_jax.config.schema import FilterSection
from ragen_jax.core.checks import check_rewards
from ragen_jax.core.dispersion import variance_dispersion
from ragen_jax.core.filters import READINGS, best_and_worst, needs_non_negative, select, top_p_by_reading
from ragen_jax.core.filters.result import build_result, check_scores, trained_rows
from ragen_jax.core.grouping import group_variance, is_flat
from ragen_jax.core.scores import ScoreInputs, group_scores
from ragen_jax.rollout.episodes import Rollout, RolloutInfo
from ragen_jax.training.build import Components
from ragen_jax.training.score_inputs import score_inputs
from ragen_jax.types import Array, FilterResult, Params

READING_RHO = 0.9  # at which the readings of top-p are compared when the run's own rule is another
FEWEST_PROMPTS = 3  # with fewer, the dispersion of the variances has no interval


def choose_prompts(parts: Components, params: Params, rollout: Rollout) -> tuple[FilterResult, dict[str, float]]:
    """Apply the configured filter to a batch.

    Args:
      parts: the run's components.
      params: current policy; read by scores of entropy only.
      rollout: P x G episodes.

    Returns:
      The verdict, ``keep`` [P] and ``row_keep`` [P, G], and ``filter/...`` metrics; the statistics are those of all
      prompts, before filtering.

    Raises:
      ValueError: a reward that is not finite, or a negative score under a rule that reads scores as mass.
    """
    settings = parts.config.filter
    inputs = score_inputs(parts, params, rollout)
    check_rewards(inputs.rewards, inputs.valid)
    result, numbers = jax.device_get(_filter(inputs, settings))
    check_scores(result.scores, non_negative=needs_non_negative(settings.rule, settings.mass))
    metrics = {f"filter/{name}": float(value) for name, value in numbers.items()}
    metrics["filter/groups"] = float(len(result.keep))
    metrics["filter/kept_count"] = float(result.kept_count)
    metrics["filter/kept_ratio"] = float(result.kept_count) / len(result.keep)
    metrics["filter/kept_mass"] = float(result.kept_mass)
    metrics["filter/loss_scale"] = float(result.loss_scale)
    return result, metrics | _format_shares(result, np.asarray(inputs.valid), rollout.info)


@functools.partial(jax.jit, static_argnums=(1,))
def _filter(inputs: ScoreInputs, settings: FilterSection) -> tuple[FilterResult, dict[str, Array]]:
    rewards, valid = inputs.rewards, inputs.valid
    flat = is_flat(rewards, valid)
    scores = group_scores(settings.score, inputs)
    chosen = select(
        scores,
        flat,
        rule=settings.rule,
        value=settings.value,
        include_zero=settings.include_zero,
        slack=settings.slack,
        mass=settings.mass,
        loss_scale=settings.loss_scale,
    )
    # A prompt whose rollouts all failed has nothing to train on, whatever the rule says.
    keep = jnp.asarray(chosen.keep) & valid.any(axis=1)
    result = build_result(keep, scores, loss_scale=settings.loss_scale, rho=settings.value)
    if settings.best_and_worst:
        number = settings.best_and_worst
        rows = best_and_worst(rewards, best=number, worst=number, valid=valid)
        result = dataclasses.replace(result, row_keep=rows)
    return result, _statistics(inputs, settings, flat, keep)


def _statistics(inputs: ScoreInputs, settings: FilterSection, flat: jax.Array, keep: jax.Array) -> dict[str, Array]:
    variance = group_variance(inputs.rewards, inputs.valid)
    numbers: dict[str, Array] = {
        "reward_variance_mean": variance.mean(),
        "reward_variance_max": variance.max(),
        "reward_std_mean": jnp.sqrt(variance).mean(),
        "flat_count": flat.sum(),
        "kept_variance_mean": jnp.where(keep, variance, 0.0).sum() / jnp.maximum(keep.sum(), 1),
    }
    if len(variance) >= FEWEST_PROMPTS:
        dispersion = variance_dispersion(variance)
        numbers |= {
            "reward_variance_dispersion": dispersion.estimate,
            "reward_variance_dispersion_low": dispersion.low,
            "reward_variance_dispersion_high": dispersion.high,
        }
    rho = settings.value if settings.rule == "top_p" else READING_RHO
    for reading in READINGS:
        kept = top_p_by_reading(inputs.rewards, reading=reading, rho=rho, valid=inputs.valid)
        numbers[f"kept_count_{reading}"] = kept.kept_count
    return numbers


def _format_shares(result: FilterResult, valid: np.ndarray, info: RolloutInfo) -> dict[str, float]:
    """Share of well-formed replies among the rollouts that are trained, and among the valid others.

    A filter on the task reward drops groups whose only spread is the format; then this is where it shows.
    """
    kept = np.asarray(trained_rows(result, valid))
    shares = {}
    for name, rows in (("kept", kept), ("dropped", valid & ~kept)):
        turns = [turn for row in np.flatnonzero(rows) for turn in info.episodes[row].turns]
        if turns:
            shares[f"filter/{name}_valid_format"] = float(np.mean([turn.well_formed for turn in turns]))
    return shares
