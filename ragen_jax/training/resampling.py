"""The batch of a step: sampled once, or until the filter keeps something, or until it keeps enough."""

from __future__ import annotations

import dataclasses

import numpy as np

from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.gather import gather_groups
from ragen_jax.training.build import Components
from ragen_jax.training.selection import choose_prompts
from ragen_jax.types import Params


@dataclasses.dataclass(frozen=True)
class SampledBatch:
    """What the actor made for a step.

    Attributes:
      rollout: the batch to train on.
      attempts: batches that were sampled for it.
      tokens: tokens that were sampled for it, all attempts together.
      invalid_share: largest share of failed rows that an attempt had.
    """

    rollout: Rollout
    attempts: int
    tokens: int
    invalid_share: float


def sample_batch(parts: Components, params: Params, *, step: int, version: int) -> SampledBatch:
    """Sample the batch of a step, every attempt from fresh prompts; it depends on (config, step, parameters) only.

    Without ``filter.refill``: the first attempt of which the filter keeps something, or the last one. With it: kept
    groups are gathered over the attempts until P of them stand (dynamic sampling); what is missing after the last
    attempt is filled up with dropped groups, which the filter drops again, so that no shape changes.

    An attempt in which too many environments failed ends the search and comes back as it is; it is for the caller to
    stop the run.

    Args:
      parts: the run's components.
      params: parameters to sample from.
      step: number of the step, from 0.
      version: learner step that made the parameters.
    """
    settings, prompts = parts.config.filter, parts.config.rollout.prompts
    policy = parts.sampler(params, version=version)
    rollouts: list[Rollout] = []
    shares: list[float] = []
    kept: list[tuple[int, int]] = []
    dropped: list[tuple[int, int]] = []
    for attempt in range(settings.max_attempts):
        rollout = parts.training_rollout(policy, step, attempt)
        rollouts.append(rollout)
        shares.append(float(np.mean(~np.asarray(rollout.batch.valid))))
        failed = shares[-1] > parts.config.env.max_invalid_share
        if failed or settings.max_attempts == 1:
            break
        for group, keep in enumerate(choose_prompts(parts, params, rollout)[0].keep):
            (kept if keep else dropped).append((attempt, group))
        if len(kept) >= (prompts if settings.refill else 1):
            break
    result = rollouts[-1]
    if settings.refill and not failed and len(rollouts) > 1:
        chosen = (kept + dropped)[:prompts]
        result = gather_groups(rollouts, chosen, pad_id=parts.chat.tokenizer.pad_id)
        result = dataclasses.replace(result, first=rollouts[0])
    tokens = sum(int(np.asarray(rollout.batch.response_mask).sum()) for rollout in rollouts)
    return SampledBatch(rollout=result, attempts=len(rollouts), tokens=tokens, invalid_share=max(shares))
