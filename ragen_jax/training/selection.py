"""Which prompts of a batch are worth an update: scores, the filter's verdict and its statistics."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from ragen_jax.config.schema import FilterSection
from ragen_jax.core.filters import select
from ragen_jax.core.grouping import group_variance, is_flat
from ragen_jax.training.build import Components
from ragen_jax.types import Array, FilterResult, RolloutBatch


def choose_prompts(parts: Components, batch: RolloutBatch) -> tuple[FilterResult, dict[str, float]]:
    """Apply the configured filter to the rewards of a batch.

    Returns:
      The verdict [P] and ``filter/...`` metrics; the statistics are those of all prompts, before filtering.
    """
    settings = parts.config.filter
    group = parts.config.rollout.group_size
    rewards = np.asarray(batch.returns) + (np.asarray(batch.penalties) if settings.count_penalty else 0.0)
    valid = np.asarray(batch.valid).reshape(-1, group)
    result, numbers = jax.device_get(_filter(rewards.reshape(-1, group).astype(np.float32), valid, settings))
    metrics = {f"filter/{name}": float(value) for name, value in numbers.items()}
    metrics["filter/groups"] = float(len(valid))
    metrics["filter/kept_count"] = float(result.kept_count)
    metrics["filter/kept_ratio"] = float(result.kept_count) / len(valid)
    metrics["filter/kept_mass"] = float(result.kept_mass)
    metrics["filter/loss_scale"] = float(result.loss_scale)
    return result, metrics


@functools.partial(jax.jit, static_argnums=(2,))
def _filter(rewards: Array, valid: Array, settings: FilterSection) -> tuple[FilterResult, dict[str, jax.Array]]:
    variance = group_variance(rewards, valid)
    std = jnp.sqrt(variance)
    flat = is_flat(rewards, valid)
    alive = valid.any(axis=1)
    result = select(
        variance if settings.score == "reward_variance" else std,
        flat,
        rule=settings.rule,
        value=settings.value,
        include_zero=settings.include_zero,
        slack=settings.slack,
        mass=settings.mass,
        loss_scale=settings.loss_scale,
    )
    keep = result.keep & alive
    spread = variance.std(ddof=1) if len(variance) > 1 else 0.0
    numbers = {
        "reward_variance_mean": variance.mean(),
        "reward_variance_max": variance.max(),
        "reward_std_mean": std.mean(),
        "reward_variance_dispersion": jnp.where(variance.mean() > 0, spread / variance.mean(), 0.0),
        "flat_count": flat.sum(),
        "kept_variance_mean": jnp.where(keep, variance, 0.0).sum() / jnp.maximum(keep.sum(), 1),
    }
    return dataclasses.replace(result, keep=keep, kept_count=keep.sum(dtype=jnp.int32)), numbers
