"""Validation on a fixed set of distinct prompts."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from ragen_jax.report.statistics import clustered_proportion_interval
from ragen_jax.rollout.assemble import classes, widen
from ragen_jax.rollout.episodes import Episode, RolloutInfo
from ragen_jax.rollout.metrics import rollout_metrics
from ragen_jax.rollout.reasoning_pairs import first_turn_pairs
from ragen_jax.training.build import VALIDATION, Components
from ragen_jax.training.measure import measure, named, null_permutations, score_pairs
from ragen_jax.types import Params, ReasoningPairs


@dataclasses.dataclass(frozen=True)
class Validation:
    """Outcome of one validation.

    Attributes:
      metrics: ``validation/...`` numbers; the collapse numbers come from all prompts at once (ceiling ln prompts).
      episodes: every validation episode.
    """

    metrics: dict[str, float]
    episodes: tuple[Episode, ...]


def validate_policy(parts: Components, params: Params, *, step: int) -> Validation:
    """Sample every validation prompt and measure success and, if asked for, mutual information.

    The same prompts and the same sampling keys are used at every step, so two validations differ by the policy only.

    Args:
      parts: the run's components.
      params: policy parameters.
      step: learner step, for the record of the sampler.

    Returns:
      Metrics and episodes.
    """
    config = parts.config
    policy = parts.sampler(params, version=step, validation=True)
    seeds, chunk = parts.validation_seeds.seeds, parts.validation_pool.groups
    rollouts = [
        parts.collect(
            policy, parts.validation_pool, list(seeds[start : start + chunk]), seed=(config.seed, VALIDATION, start)
        )
        for start in range(0, len(seeds), chunk)
    ]
    episodes = tuple(episode for rollout in rollouts for episode in rollout.info.episodes)
    numbers = rollout_metrics(RolloutInfo(episodes=episodes, group_size=config.validation.samples))
    metrics = {f"validation/{name.removeprefix('rollout/')}": value for name, value in numbers.items()}
    metrics |= success_interval(episodes)
    metrics["validation/episodes"] = float(sum(episode.error is None for episode in episodes))
    metrics["validation/distinct_prompts"] = float(parts.validation_seeds.distinct)
    if config.validation.collapse_samples:
        bucket = config.rollout.max_new_tokens
        pairs = [first_turn_pairs(rollout.batch, rollout.info, bucket=bucket) for rollout in rollouts]
        joined = join_pairs(pairs, samples=config.validation.collapse_samples)
        scores = score_pairs(parts, params, joined, temperature=config.validation.temperature)
        permutations = null_permutations(len(scores.column_class), seed=config.seed, draw=0)
        collapse = config.collapse
        numbers, _ = measure(scores, permutations=permutations, mix=collapse.mix, std_eps=collapse.std_eps)
        metrics |= named(numbers, "validation/collapse")
    return Validation(metrics=metrics, episodes=episodes)


def success_interval(episodes: Sequence[Episode]) -> dict[str, float]:
    """95 % interval of the success rate, clustered by prompt, since rollouts of one prompt are not independent.

    Args:
      episodes: records; those whose environment failed are left out.

    Returns:
      ``validation/success_low`` and ``validation/success_high``; nothing without an episode that counts.
    """
    counts = successes_by_prompt(episodes).values()
    if not counts:
        return {}
    low, high = clustered_proportion_interval([won for won, _ in counts], [played for _, played in counts])
    return {"validation/success_low": low, "validation/success_high": high}


def successes_by_prompt(episodes: Sequence[Episode]) -> dict[str, tuple[int, int]]:
    """Successes and episodes of every distinct prompt, failed environments left out."""
    outcomes: dict[str, list[bool]] = collections.defaultdict(list)
    for episode in episodes:
        if episode.error is None:
            outcomes[episode.prompt].append(episode.success)
    return {prompt: (sum(won), len(won)) for prompt, won in outcomes.items()}


def join_pairs(pairs: list[ReasoningPairs], *, samples: int) -> ReasoningPairs:
    """Pairs of several batches as one set of columns, the first ``samples`` rollouts of each prompt."""
    width = max(p.prompt_tokens.shape[1] for p in pairs)
    tokens = np.concatenate([widen(p.prompt_tokens, width, empty=0, left=True) for p in pairs])
    mask = np.concatenate([widen(p.prompt_mask, width, empty=0, left=True) for p in pairs])
    return ReasoningPairs(
        prompt_tokens=tokens,
        prompt_mask=mask,
        reasoning_tokens=np.concatenate([p.reasoning_tokens[:, :samples] for p in pairs]),
        reasoning_mask=np.concatenate([p.reasoning_mask[:, :samples] for p in pairs]),
        column_class=classes([row[keep].tolist() for row, keep in zip(tokens, mask, strict=True)]),
    )
