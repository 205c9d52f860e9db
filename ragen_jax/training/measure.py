"""From pairs of contexts and reasonings to numbers: cross-scores, collapse metrics, their null."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from ragen_jax.core.collapse import Mix, collapse_metrics
from ragen_jax.core.estimators import ESTIMATORS, MAY_BE_UNKNOWN
from ragen_jax.core.null import permutation_null
from ragen_jax.learner.cross_score import cross_score
from ragen_jax.training.build import Components
from ragen_jax.training.draws import Stream, generator
from ragen_jax.types import Array, CollapseState, CrossScores, Params, ReasoningPairs

NULL_PERMUTATIONS = 199


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
    rng = generator(seed, Stream.NULL, draw)
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


def named(metrics: dict[str, jax.Array], family: str) -> dict[str, float]:
    """Device scalars as floats under a family name; an interval that is not known is left out."""
    numbers = {name: float(value) for name, value in jax.device_get(metrics).items()}
    unknown = {name for name in MAY_BE_UNKNOWN if math.isnan(numbers.get(name, 0.0))}
    return {f"{family}/{name}": value for name, value in numbers.items() if name not in unknown}
