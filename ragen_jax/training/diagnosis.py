"""Does the reasoning of a batch still depend on its input? Cross-scoring and its metrics, before any filtering."""

from __future__ import annotations

import dataclasses

import jax

from ragen_jax.models.sharding import replicated
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.reasoning_pairs import (
    draw_columns,
    draw_rollouts,
    first_turn_pairs,
    trajectory_pairs,
    turn_uniform_pairs,
)
from ragen_jax.training.build import Components
from ragen_jax.training.draws import Stream, generator
from ragen_jax.training.measure import measure, named, null_permutations, score_pairs
from ragen_jax.types import CollapseState, Params, ReasoningPairs, TrainState


def diagnose(
    parts: Components, state: TrainState, rollout: Rollout, *, step: int
) -> tuple[TrainState, dict[str, float]]:
    """Measure collapse on a batch.

    Args:
      parts: the run's components.
      state: state before the step; its moving averages go on.
      rollout: P x G episodes.
      step: number of the step, from 0; decides whether it is due, and the draws.

    Returns:
      The state with the next moving averages, and ``collapse/...`` metrics (none when not due).
    """
    settings, seed = parts.config.collapse, parts.config.seed
    if not settings.every or step % settings.every:
        return state, {}
    bucket = parts.config.rollout.max_new_tokens
    pairs = first_turn_pairs(rollout.batch, rollout.info, bucket=bucket)
    if settings.rollouts:
        pairs = draw_rollouts(pairs, sample=settings.rollouts, rng=generator(seed, Stream.ROLLOUTS, step))
    metrics, collapse = _measured(parts, state.params, pairs, "first_turn", state.collapse, step=step)
    turns = dict(state.collapse_turns)
    draws = {
        "draws": settings.trajectory_samples,
        "prompt_bucket": parts.config.rollout.prompt_bucket,
        "bucket": bucket,
    }
    if settings.trajectory:
        pairs = trajectory_pairs(rollout.batch, rollout.info, rng=generator(seed, Stream.TRAJECTORIES, step), **draws)
        numbers, turns["trajectory"] = _measured(
            parts, state.params, pairs, "trajectory", turns["trajectory"], step=step
        )
        metrics |= numbers
    if settings.turn_uniform:
        pairs = turn_uniform_pairs(rollout.batch, rollout.info, rng=generator(seed, Stream.TURNS, step), **draws)
        numbers, turns["turn_uniform"] = _measured(
            parts, state.params, pairs, "turn_uniform", turns["turn_uniform"], step=step
        )
        metrics |= numbers
    collapse, turns = jax.device_put((collapse, turns), replicated(parts.mesh))
    return dataclasses.replace(state, collapse=collapse, collapse_turns=turns), metrics


def _measured(
    parts: Components,
    params: Params,
    pairs: ReasoningPairs,
    family: str,
    collapse: CollapseState,
    *,
    step: int,
) -> tuple[dict[str, float], CollapseState]:
    """Metrics of one family and its next moving averages.

    A null needs all columns, so there is none under sampled ones. And it needs prompts as independent units: draws of
    turns put one reasoning, or several turns of one rollout, in several columns.
    """
    settings, seed = parts.config.collapse, parts.config.seed
    count = len(pairs.column_class)
    columns = permutations = None
    if 0 < settings.columns < count:
        columns = draw_columns(pairs.column_class, sample=settings.columns, rng=generator(seed, Stream.COLUMNS, step))
    elif family == "first_turn":
        permutations = null_permutations(count, seed=seed, draw=step)
    numbers, collapse = measure(
        score_pairs(parts, params, pairs, columns=columns),
        collapse,
        permutations=permutations,
        mix=settings.mix,
        std_eps=settings.std_eps,
        ema_decay=settings.ema_decay,
    )
    return named(numbers, f"collapse/{family}"), collapse
