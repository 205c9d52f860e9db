"""Validation on a fixed set of distinct prompts."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ragen_jax.core.collapse import Mix, collapse_metrics
from ragen_jax.core.estimators import ESTIMATORS, MAY_BE_UNKNOWN
from ragen_jax.core.null import permutation_null
from ragen_jax.learner.cross_score import cross_score
from ragen_jax.report.statistics import clustered_proportion_interval
from ragen_jax.rollout.assemble import classes, widen
from ragen_jax.rollout.episodes import Episode, RolloutInfo
from ragen_jax.rollout.metrics import rollout_metrics
from ragen_jax.rollout.reasoning_pairs import first_turn_pairs
from ragen_jax.training.build import VALIDATION, Components
from ragen_jax.types import Array, CollapseState, CrossScores, Params, ReasoningPairs

NULL_PERMUTATIONS = 199
_NULL = 1  # spawn key of the permutations, beside those of training.diagnosis


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


@functools.partial(jax.jit, static_argnames=("mix", "std_eps", "ema_decay"))
def measure(
    scores: CrossScores,
    state: CollapseState | None = None,
    *,
    permutations: Array | None = None,
    mix: Mix = "sequence",
    std_eps: float = 1e-3,
    ema_decay: float = 0.9,
) -> tuple[dict[str, jax.Array], CollapseState]:
    """``core.collapse_metrics`` and, beside them, the numbers of every estimator in ``core.ESTIMATORS``.

    With permutations of the columns [N, C] also the null of the MI estimate: its mean and 95 % point under them, and
    the p-value of the estimate.
    """
    metrics, state = collapse_metrics(scores, state, mix=mix, std_eps=std_eps, ema_decay=ema_decay)
    for estimate in ESTIMATORS.values():
        metrics |= estimate(scores)
    if permutations is not None:
        test = permutation_null(scores, permutations)["mi_sequence_nats"]
        metrics |= {
            "null_mi_sequence_nats": test.values.mean(),
            "null_mi_sequence_high_nats": jnp.quantile(test.values, 0.95),
            "null_p_value": test.p_value,
        }
    return metrics, state


def null_permutations(columns: int, *, seed: int, draw: int) -> np.ndarray:
    """Uniform permutations of the columns, [199, C] int32; the identity may be among them.

    Args:
      columns: C.
      seed: of the run.
      draw: which draw of the run: a step, or 0 for its validations.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(draw, _NULL)))
    return np.argsort(rng.random((NULL_PERMUTATIONS, columns)), axis=1).astype(np.int32)


def score_pairs(
    parts: Components,
    params: Params,
    pairs: ReasoningPairs,
    *,
    temperature: float | None = None,
    columns: np.ndarray | None = None,
) -> CrossScores:
    """Cross-score pairs with the run's scorer, at the rollout temperature unless they were sampled at another one.

    Args:
      parts: the run's components.
      params: current policy; not read when the run has a frozen scorer (``collapse.scorer``).
      pairs: contexts and reasonings.
      temperature: of the sampler.
      columns: [C, S] contexts for each prompt, its own first; None for all.
    """
    scoring = parts.scoring if temperature is None else dataclasses.replace(parts.scoring, temperature=temperature)
    scorer = params if parts.scorer is None else parts.scorer
    chunk = parts.config.collapse.reasonings_per_chunk
    return cross_score(scorer, parts.model, scoring, pairs, mesh=parts.mesh, chunk=chunk, columns=columns)


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


def named(metrics: dict[str, jax.Array], family: str) -> dict[str, float]:
    """Device scalars as floats under a family name; an interval that is not known is left out."""
    numbers = {name: float(value) for name, value in jax.device_get(metrics).items()}
    unknown = {name for name in MAY_BE_UNKNOWN if math.isnan(numbers.get(name, 0.0))}
    return {f"{family}/{name}": value for name, value in numbers.items() if name not in unknown}
