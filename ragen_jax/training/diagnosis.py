"""Does the reasoning of a batch still depend on its input? Cross-scoring and its metrics, before any filtering."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from ragen_jax.models.sharding import replicated
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.reasoning_pairs import first_turn_pairs, trajectory_pairs
from ragen_jax.training.build import Components
from ragen_jax.training.evaluate import measure, named, score_pairs
from ragen_jax.types import TrainState


def diagnose(
    parts: Components, state: TrainState, rollout: Rollout, *, step: int
) -> tuple[TrainState, dict[str, float]]:
    """Measure collapse on a batch.

    Args:
      parts: the run's components.
      state: state before the step; its moving average goes on.
      rollout: P x G episodes.
      step: number of the step, from 0; decides whether it is due, and the draws.

    Returns:
      The state with the next moving average, and ``collapse/...`` metrics (none when not due).
    """
    settings = parts.config.collapse
    if not settings.every or step % settings.every:
        return state, {}
    bucket = parts.config.rollout.max_new_tokens
    pairs = first_turn_pairs(rollout.batch, rollout.info, bucket=bucket)
    scores = score_pairs(parts, state.params, pairs)
    numbers, collapse = measure(
        scores, state.collapse, mix=settings.mix, std_eps=settings.std_eps, ema_decay=settings.ema_decay
    )
    metrics = named(numbers, "collapse/first_turn")
    if settings.trajectory:
        draws = trajectory_pairs(
            rollout.batch,
            rollout.info,
            draws=settings.trajectory_samples,
            rng=np.random.default_rng(np.random.SeedSequence(parts.config.seed, spawn_key=(step,))),
            prompt_bucket=parts.config.rollout.prompt_bucket,
            bucket=bucket,
        )
        numbers, _ = measure(score_pairs(parts, state.params, draws), mix=settings.mix, std_eps=settings.std_eps)
        metrics |= named(numbers, "collapse/trajectory")
    return dataclasses.replace(state, collapse=jax.device_put(collapse, replicated(parts.mesh))), metrics
