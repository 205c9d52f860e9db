"""One learner step: score before filtering, filter, prepare, update."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import jax
import numpy as np

from ragen_jax.learner.prepare import PreparedBatch, denominators, minibatches, prepare
from ragen_jax.learner.score import score, score_values
from ragen_jax.models.sharding import put_rows, replicated
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.metrics import rollout_metrics
from ragen_jax.training.build import Components
from ragen_jax.training.diagnosis import diagnose
from ragen_jax.training.probing import is_due, keep_everything, probe_step
from ragen_jax.training.selection import choose_prompts
from ragen_jax.training.shaping import overlong_of_rows
from ragen_jax.types import FilterResult, RolloutBatch, TrainState


@dataclasses.dataclass(frozen=True)
class StepResult:
    """The next state, what is known about the step, and the rows of its gradient probe (none when not due)."""

    state: TrainState
    metrics: dict[str, float]
    probe_rows: tuple[dict[str, Any], ...] = ()


def learn(parts: Components, state: TrainState, rollout: Rollout) -> StepResult:
    """Take one training step on a finished rollout.

    Args:
      parts: the run's components.
      state: state before the step; its buffers are consumed.
      rollout: P x G episodes. Where they were gathered from several batches, all that is measured, early stopping
        included, is measured on the first of them; only ``filter/kept_count`` and ``filter/loss_scale`` are of the
        groups that are trained.

    Returns:
      State after the step and metrics. The step number advances, also when the filter kept nothing, unless an update
      was not finite: then ``update/finite`` is 0.
    """
    step = int(state.step)
    measured = rollout.unselected
    metrics = rollout_metrics(measured.info)
    if parts.config.reward.overlong_buffer:
        penalties = overlong_of_rows(measured.batch, parts.config, max_turns=parts.pool.config.max_turns)
        metrics["rollout/overlong_penalty"] = float(penalties.sum() / max(np.asarray(measured.batch.valid).sum(), 1))
    started = time.perf_counter()
    state, collapse_numbers = diagnose(parts, state, measured, step=step)
    metrics |= collapse_numbers
    scored = time.perf_counter()
    result, filter_numbers = choose_prompts(parts, state.params, rollout)
    if rollout.first is not None:  # statistics of a batch that was selected would say nothing about the policy
        trained = {name: filter_numbers[name] for name in ("filter/kept_count", "filter/loss_scale")}
        filter_numbers = choose_prompts(parts, state.params, rollout.first)[1] | trained
    metrics |= filter_numbers
    prepared = _prepare(parts, state, rollout.batch, result) if int(result.kept_count) else None
    probe_rows: tuple[dict[str, Any], ...] = ()
    probe_seconds = 0.0
    if is_due(parts, step):
        probing = time.perf_counter()
        valid = np.asarray(rollout.batch.valid).reshape(-1, parts.config.rollout.group_size)
        if valid.any():
            unfiltered = _prepare(parts, state, rollout.batch, keep_everything(result, valid), probed=True)
            probe_numbers, probe_rows = probe_step(
                parts, state, rollout, result, prepared=prepared, unfiltered=unfiltered, step=step
            )
            metrics |= probe_numbers
        probe_seconds = time.perf_counter() - probing
        metrics |= {"gradient_probe/skipped": float(not valid.any()), "time/probe_seconds": probe_seconds}
    if prepared is None:
        metrics |= {"update/count": 0.0, "update/skipped": 1.0}
    else:
        state, update_numbers = _update(parts, state, prepared, result)
        metrics |= prepared.metrics | update_numbers
    metrics["rollout/staleness"] = float(step - int(rollout.batch.policy_version))
    metrics["time/cross_score_seconds"] = scored - started
    metrics["time/update_seconds"] = time.perf_counter() - scored - probe_seconds
    finished = metrics.get("update/finite", 1.0) > 0
    following = jax.device_put(np.int32(step + finished), replicated(parts.mesh))
    return StepResult(state=dataclasses.replace(state, step=following), metrics=metrics, probe_rows=probe_rows)


def _prepare(
    parts: Components, state: TrainState, batch: RolloutBatch, result: FilterResult, *, probed: bool = False
) -> PreparedBatch:
    """What the update reads; for the probe also without a KL term with the log-probs of the reference."""
    config = parts.config
    group = config.rollout.group_size
    rows = batch.tokens.shape
    inputs = put_rows((batch.prompt_tokens, batch.prompt_mask, batch.tokens.reshape(-1, group, rows[1])), parts.mesh)
    values = ref_log_probs = None
    if parts.critic is not None:
        values = score_values(
            state.critic_params,
            parts.critic,
            *inputs,
            parts.scoring_groups,
            config.model.compute_dtype,
            mesh=parts.mesh,
        )
        values = np.asarray(jax.device_get(values)).reshape(rows)
    reference = parts.reference_params(state)
    if reference is not None and (config.algorithm.kl_coef or probed):
        ref_log_probs = score(reference, parts.model, parts.scoring, *inputs, parts.scoring_groups, mesh=parts.mesh)
        ref_log_probs = np.asarray(jax.device_get(ref_log_probs)).reshape(rows)
    return prepare(batch, result, parts.prepare, values=values, ref_log_probs=ref_log_probs)


def _update(
    parts: Components, state: TrainState, prepared: PreparedBatch, result: FilterResult
) -> tuple[TrainState, dict[str, float]]:
    """All optimiser updates of a step: epochs over the mini-batches of kept groups.

    They are handed to the devices without waiting for one another: an update that is not finite is not applied, the
    others of the step are.
    """
    algorithm = parts.config.algorithm
    batch = put_rows(prepared.batch, parts.mesh)
    scale = 1.0 if parts.prepare.scale_advantages else float(result.loss_scale)
    parted = minibatches(
        prepared.order[: prepared.kept],
        prompts=len(prepared.order),
        size=algorithm.minibatch_groups,
        equal_updates=algorithm.equal_updates,
    )
    collected = []
    for _ in range(algorithm.epochs):
        for groups in parted:
            actor, critic = denominators(prepared, groups, parts.prepare)
            order = np.zeros(len(prepared.order), np.int32)
            order[: len(groups)] = groups
            scalars = (order, np.int32(len(groups)), np.float32(actor), np.float32(critic), np.float32(scale))
            state, numbers = parts.update(state, batch, *jax.device_put(scalars, replicated(parts.mesh)))
            collected.append(numbers)
    collected = jax.device_get(collected)
    metrics = {name: float(np.mean([numbers[name] for numbers in collected])) for name in collected[0]}
    del metrics["update/applied"]
    applied = sum(float(numbers["update/applied"]) for numbers in collected)
    metrics["update/finite"] = float(min(numbers["update/finite"] for numbers in collected))
    metrics["policy/first_ratio_gap"] = float(collected[0]["policy/max_ratio_gap"])
    metrics["policy/max_ratio_gap"] = float(max(numbers["policy/max_ratio_gap"] for numbers in collected))
    return state, metrics | {"update/count": applied, "update/skipped": float(applied == 0)}
