"""Gradient accounting of a step: what the probe reads, what is logged and what goes into ``gradient_probe.jsonl``."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import numpy as np

from ragen_jax.core.grouping import group_variance
from ragen_jax.learner.gradient_probe import ProbeReport, probe
from ragen_jax.learner.prepare import PreparedBatch, denominators
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.reasoning_pairs import first_turn_pairs
from ragen_jax.training.build import Components
from ragen_jax.training.draws import Stream, generator
from ragen_jax.training.score_inputs import filter_rewards
from ragen_jax.types import FilterResult, LearnerBatch, ReasoningPairs, TrainState

_LOGGED = (
    "prompts",
    "reward_variance_mean",
    "task_norm",
    "kl_unit_norm",
    "entropy_unit_norm",
    "regulariser_norm",
    "total_norm",
    "signal_norm",
    "noise_norm",
    "snr",
    "dominance",
    "cos_task_regulariser",
    "cos_task_mi",
    "cos_kl_mi",
    "cos_entropy_mi",
    "cos_total_mi",
)


def is_due(parts: Components, step: int) -> bool:
    """Whether a step, counted from 0, is probed."""
    every = parts.config.probe.every
    return every > 0 and step % every == 0


def keep_everything(result: FilterResult, batch_valid: np.ndarray) -> FilterResult:
    """The verdict of a filter that drops nothing but prompts without a valid row [P, G]; the loss scale stays."""
    keep = np.asarray(batch_valid.any(axis=1))
    return dataclasses.replace(result, keep=keep, kept_count=np.asarray(keep.sum(), np.int32), row_keep=None)


def probe_step(
    parts: Components,
    state: TrainState,
    rollout: Rollout,
    result: FilterResult,
    *,
    prepared: PreparedBatch | None,
    unfiltered: PreparedBatch,
    step: int,
) -> tuple[dict[str, float], tuple[dict[str, Any], ...]]:
    """Account for the gradient of a step before it is taken.

    Kept prompts are read as the update reads them; dropped ones as they would be without the filter, over the same
    denominator. With several mini-batches or epochs the account is that of one update on all kept prompts.

    Args:
      parts: the run's components.
      state: state before the update; read only.
      rollout: the batch.
      result: what the filter kept.
      prepared: the batch of the update, None when nothing is kept.
      unfiltered: the same batch with every prompt kept.
      step: number of the step, from 0.

    Returns:
      ``gradient_probe/<set>/<name>`` metrics, and the rows of ``gradient_probe.jsonl``: one per set of prompts and one
      per prompt.
    """
    settings, config = parts.config.probe, parts.config
    keep = np.asarray(result.keep)
    valid = np.asarray(rollout.batch.valid).reshape(-1, config.rollout.group_size)
    counted = unfiltered if prepared is None else prepared
    report = probe(
        state.params,
        dataclasses.replace(parts.updating, critic=None),
        unfiltered.batch if prepared is None else _merged(prepared.batch, unfiltered.batch, keep),
        keep=keep,
        variances=np.asarray(group_variance(filter_rewards(config, rollout.batch), valid)),
        denominator=denominators(counted, counted.order[: counted.kept], parts.prepare)[0],
        loss_scale=1.0 if parts.prepare.scale_advantages or prepared is None else float(result.loss_scale),
        mesh=parts.mesh,
        buckets=None if settings.edges else settings.buckets,
        edges=settings.edges or None,
        pairs=_pairs(parts, rollout, step=step) if settings.mi_columns else None,
        chunk=config.collapse.reasonings_per_chunk,
    )
    metrics = {name: value for name, value in report.metrics.items() if name.rpartition("/")[2] in _LOGGED}
    return {f"gradient_probe/{name}": value for name, value in metrics.items()}, _rows(report)


def _merged(kept: LearnerBatch, everything: LearnerBatch, keep: np.ndarray) -> LearnerBatch:
    """Kept groups as the update sees them, the others as they would be; reference log-probs are the probe's own."""

    def choose(a: Any, b: Any) -> np.ndarray:
        return np.where(keep.reshape(-1, *(1,) * (np.ndim(a) - 1)), a, b)

    return dataclasses.replace(jax.tree.map(choose, kept, everything), ref_log_probs=everything.ref_log_probs)


def _pairs(parts: Components, rollout: Rollout, *, step: int) -> ReasoningPairs:
    """First-turn contexts and reasonings of ``probe.mi_columns`` prompts, drawn without replacement."""
    pairs = first_turn_pairs(rollout.batch, rollout.info, bucket=parts.config.rollout.max_new_tokens)
    rng = generator(parts.config.seed, Stream.PROBE, step)
    chosen = np.sort(rng.choice(len(pairs.column_class), size=parts.config.probe.mi_columns, replace=False))
    return jax.tree.map(lambda x: np.asarray(x)[chosen], pairs)


def _rows(report: ProbeReport) -> tuple[dict[str, Any], ...]:
    split = [(name.split("/"), value) for name, value in report.metrics.items()]
    sets = [
        {"set": label} | {name: value if np.isfinite(value) else None for (_, name), value in numbers}
        for label, numbers in itertools.groupby(split, key=lambda item: item[0][0])
    ]
    return (*sets, *({"set": "prompt"} | row for row in report.rows))
