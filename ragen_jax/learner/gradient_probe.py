"""Which term of the loss pulls how hard, and where: gradients of task, KL and entropy, prompt by prompt.

The probe differentiates the terms of the update itself (``actor_terms``), so its sum over the kept prompts is the
gradient of the update. It reads parameters and batch and changes neither.

Memory: beside the parameters at most ``PARAMETER_BUFFERS`` float32 buffers of their shape, whatever the number of
prompts (four of the current prompt and one in the making; four each of the current bucket, of all prompts and of the
kept ones; one direction), and what one backward pass over half a group needs.

Every gradient is on the scale of the update: ``g_i = K * (contribution of prompt i)`` with K kept prompts, so that the
update is the mean of the kept g_i. A bucket's gradient is the mean of g_i over ``m`` of its prompts, the first m in
batch order (which says nothing about their variance), with m the size of the smallest bucket: sampling noise falls with
the number of prompts, so norms compare only at equal counts.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.sharding import Mesh

from ragen_jax.core.advantages import leave_one_out
from ragen_jax.core.collapse import matched_and_marginal
from ragen_jax.core.snr import gradient_account, rv_buckets
from ragen_jax.learner.cross_score import cross_score
from ragen_jax.learner.score import ScoreConfig, response_log_probs
from ragen_jax.learner.update import UpdateConfig, actor_terms
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.sharding import replicated, shardings
from ragen_jax.types import Array, LearnerBatch, ObjectiveTerms, Params, ReasoningPairs

PARAMETER_BUFFERS = 18


@struct.dataclass
class TermGradients:
    """Gradients of the terms of the loss, each shaped like the parameters.

    Attributes:
      task: of the policy surrogate.
      difference: contribution of the first half of every group to it, minus that of the second half.
      kl: of the KL term at coefficient 1.
      entropy: of the entropy term at coefficient 1.
    """

    task: Params
    difference: Params
    kl: Params
    entropy: Params

    def total(self, *, kl_coef: float, entropy_coef: float) -> Params:
        """Gradient of the whole actor loss."""
        return jax.tree.map(
            lambda task, kl, entropy: task + kl_coef * kl + entropy_coef * entropy, self.task, self.kl, self.entropy
        )


@dataclasses.dataclass(frozen=True)
class ProbeReport:
    """What a probe found.

    Attributes:
      metrics: ``<set>/<name>`` numbers of the buckets (``bucket_1`` has the lowest variance), of ``all`` prompts and of
        the kept ones (``update``).
      rows: one row per prompt, plain numbers; None for what is not finite.
      update: gradients summed over the kept prompts, as the update sees them; None when nothing is kept.
    """

    metrics: dict[str, float]
    rows: list[dict[str, Any]]
    update: TermGradients | None


def probe(
    params: Params,
    settings: UpdateConfig,
    batch: LearnerBatch,
    *,
    keep: np.ndarray,
    variances: np.ndarray,
    denominator: float,
    loss_scale: float,
    mesh: Mesh,
    buckets: int | None = None,
    edges: tuple[float, ...] | None = None,
    pairs: ReasoningPairs | None = None,
    chunk: int = 64,
) -> ProbeReport:
    """Account for the gradient of a batch, prompt by prompt.

    Args:
      params: policy parameters; read only.
      settings: of the update. Its coefficients weigh the regularisers; their gradients at coefficient 1 are reported
        besides (``kl_unit_norm``, ``entropy_unit_norm``). The KL is that of the loss; where the loss has none, it is
        k2, whose expected gradient is that of KL(policy || reference).
      batch: P groups, NumPy, with an even G of at least 4, reference log-probs and the weights of all valid rows.
      keep: [P] bool, prompts of the update.
      variances: [P] reward variances, which make the buckets.
      denominator: of the update's aggregation.
      loss_scale: factor on the whole actor loss.
      mesh: devices; those of the data axis repeat the work, since one prompt is differentiated at a time.
      buckets: equal-count buckets, or
      edges: inner edges; exactly one of the two.
      pairs: contexts and reasonings whose mutual information gives the direction; None for no direction.
      chunk: see ``cross_score``, which scores them.

    Returns:
      Metrics, rows and the kept sum.

    Raises:
      ValueError: a group that does not split into two halves of at least 2, or buckets that make no sense.
    """
    group = batch.tokens.shape[1]
    if group < 4 or group % 2:
        raise ValueError(f"groups of {group} rollouts do not split into two halves of at least 2; use 4, 6, 8, ...")
    alive = np.flatnonzero(np.asarray(batch.weights).any(axis=1))
    if not len(alive):
        return ProbeReport(metrics={}, rows=[], update=None)
    algorithm = settings.algorithm
    kl_in_loss = algorithm.kl_coef > 0 and algorithm.kl_target == "loss"
    unit = dataclasses.replace(
        settings,
        algorithm=dataclasses.replace(
            algorithm,
            kl_coef=1.0,
            kl_target="loss",
            kl_estimator=algorithm.kl_estimator if kl_in_loss else "k2",
            entropy_coef=1.0,
        ),
    )
    bucket_of = np.asarray(rv_buckets(np.asarray(variances)[alive], count=buckets, edges=edges))
    members = {int(name): alive[bucket_of == name].tolist() for name in np.unique(bucket_of)}
    equal = min(len(indices) for indices in members.values())
    kept = int(np.sum(np.asarray(keep)[alive]))
    scale = float(kept or len(alive))  # from contributions to gradients on the scale of the update
    direction = None if pairs is None else mutual_information_gradient(params, settings, pairs, mesh=mesh, chunk=chunk)
    coefficients = (algorithm.kl_coef if kl_in_loss else 0.0, algorithm.entropy_coef)

    everything, update = _no_gradients(params, mesh), _no_gradients(params, mesh)
    metrics: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    for name, indices in members.items():
        bucket = _no_gradients(params, mesh)
        for place, index in enumerate(indices):
            halves = [_half(batch, index, half) for half in (slice(0, group // 2), slice(group // 2, group))]
            inputs = jax.device_put((halves, np.float32(denominator), np.float32(loss_scale)), replicated(mesh))
            gradients = _prompt_gradients(params, unit, *inputs)
            everything = _add(everything, gradients)
            if keep[index]:
                update = _add(update, gradients)
            if place < equal:
                bucket = _add(bucket, gradients)
            numbers = _numbers(_gram(gradients, direction), scale, coefficients, mi=direction is not None)
            del gradients  # before those of the next prompt are made
            facts = {"prompt": index, "bucket": name + 1, "kept": bool(keep[index])}
            rows.append(facts | {"reward_variance": float(variances[index])} | _finite(numbers))
        numbers = _numbers(_gram(bucket, direction), scale / equal, coefficients, mi=direction is not None)
        del bucket
        metrics |= _named(f"bucket_{name + 1}", numbers, variances[indices]) | {f"bucket_{name + 1}/averaged": equal}
    sets = {"all": (everything, alive.tolist())}
    if kept:
        sets["update"] = (update, [index for index in alive.tolist() if keep[index]])
    for label, (gradients, indices) in sets.items():
        numbers = _numbers(_gram(gradients, direction), scale / len(indices), coefficients, mi=direction is not None)
        metrics |= _named(label, numbers, variances[indices])
    rows.sort(key=lambda row: row["prompt"])
    return ProbeReport(metrics=metrics, rows=rows, update=update if kept else None)


def mutual_information_gradient(
    params: Params, settings: UpdateConfig, pairs: ReasoningPairs, *, mesh: Mesh, chunk: int = 64
) -> Params:
    r"""Gradient of minus the mutual information between the prompts and the reasoning of the policy.

    For prompts x_1..x_C with equal weight and the mixture ``m(z) = mean_j p(z|x_j)``:

        grad I = (1/C) sum_i E_{z ~ p(.|x_i)} [ log(p(z|x_i) / m(z)) * grad log p(z|x_i) ]

    The expectation is over the policy's own reasoning, so it is a score-function gradient: the gain
    ``matched - marginal`` weighs each reasoning's own log-prob. Differentiating ``mean(matched - marginal)`` with the
    reasonings held fixed would not do: its expectation is ``E[grad log p] - E[grad log m] = 0``. The mean gain of the
    prompt's other reasonings is the baseline.

    Args:
      params: policy parameters.
      settings: of the update; network and scoring are read.
      pairs: C contexts and their reasonings, NumPy.
      mesh: devices.
      chunk: see ``cross_score``.

    Returns:
      The gradient, float32 and shaped like the parameters, in nats per sequence; zeros when fewer than two reasonings
      of every prompt can be scored.
    """
    scores = cross_score(params, settings.model, settings.scoring, pairs, mesh=mesh, chunk=chunk)
    matched, marginal = matched_and_marginal(scores)
    weights = _gain_weights(jnp.asarray(matched) - jnp.asarray(marginal), jnp.asarray(scores.valid))
    total = _zeros(params, mesh)
    for index in range(len(pairs.prompt_tokens)):
        part = (
            pairs.prompt_tokens[index][None],
            pairs.prompt_mask[index][None],
            pairs.reasoning_tokens[index][None],
            pairs.reasoning_mask[index][None],
            np.asarray(weights[index])[None],
        )
        total = _add_weighted_scores(
            total, params, settings.model, settings.scoring, *jax.device_put(part, replicated(mesh))
        )
    return total


@jax.jit
def _gain_weights(gain: Array, valid: Array) -> jax.Array:
    """Weights [C, G] of the log-probs: gain minus the mean of the others' gains, as a mean over prompts."""
    count = jnp.sum(valid.astype(jnp.float32), axis=1, keepdims=True)
    prompts = jnp.maximum(jnp.sum((count > 1).astype(jnp.float32)), 1.0)
    return leave_one_out(gain, valid) / jnp.maximum(count, 1.0) / prompts


@functools.partial(jax.jit, static_argnums=(2, 3), donate_argnums=(0,))
def _add_weighted_scores(
    total: Params,
    params: Params,
    model: ModelConfig,
    scoring: ScoreConfig,
    prompt_tokens: Array,
    prompt_mask: Array,
    tokens: Array,
    mask: Array,
    weights: Array,
) -> Params:
    """``total`` minus the gradient of the weighted sum of sequence log-probs of one prompt."""

    def loss(p: Params) -> jax.Array:
        log_probs, _ = response_log_probs(p, model, scoring, prompt_tokens, prompt_mask, tokens, remat=True)
        return -jnp.sum(jnp.where(mask, log_probs, 0.0).sum(-1) * weights)

    return jax.tree.map(jnp.add, total, _in_float32(jax.grad(loss)(params)))


def _half(batch: LearnerBatch, index: int, rollouts: slice) -> LearnerBatch:
    """One group with a part of its rollouts, still with its group axis."""
    prompt_level = ("prompt_tokens", "prompt_mask")
    return LearnerBatch(
        **{
            field.name: np.asarray(getattr(batch, field.name))[index][None]
            if field.name in prompt_level
            else np.asarray(getattr(batch, field.name))[index, rollouts][None]
            for field in dataclasses.fields(LearnerBatch)
        }
    )


def _prompt_gradients(
    params: Params, settings: UpdateConfig, halves: list[LearnerBatch], denominator: Array, loss_scale: Array
) -> TermGradients:
    """Contributions of one prompt; each term of each half is differentiated on its own."""

    def both(term: str) -> list[Params]:
        names = (field.name for field in dataclasses.fields(ObjectiveTerms))
        unit = ObjectiveTerms(*(jnp.float32(name == term) for name in names))
        return [_term_gradient(params, settings, half, unit, denominator, loss_scale) for half in halves]

    task, difference = _sum_and_difference(*both("task"))
    return TermGradients(task=task, difference=difference, kl=_add(*both("kl")), entropy=_add(*both("entropy")))


@functools.partial(jax.jit, static_argnums=(1,))
def _term_gradient(
    params: Params,
    settings: UpdateConfig,
    batch: LearnerBatch,
    unit: ObjectiveTerms,
    denominator: Array,
    loss_scale: Array,
) -> Params:
    """Gradient of the terms of the loss, weighed by ``unit``."""

    def loss(p: Params) -> jax.Array:
        terms, _ = actor_terms(p, settings, batch, denominator)
        weighted = jax.tree.map(jnp.multiply, unit, terms)
        return jnp.asarray(loss_scale * weighted.actor)

    return _in_float32(jax.grad(loss)(params))


def _in_float32(gradient: Params) -> Params:
    """Sums over many prompts, and differences, are taken in float32, as in the update."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), gradient)


@functools.partial(jax.jit, donate_argnums=(0, 1))
def _sum_and_difference(first: Params, second: Params) -> tuple[Params, Params]:
    return jax.tree.map(jnp.add, first, second), jax.tree.map(jnp.subtract, first, second)


@functools.partial(jax.jit, donate_argnums=(0,))
def _add(total: Params | TermGradients, part: Params | TermGradients) -> Params | TermGradients:
    return jax.tree.map(jnp.add, total, part)


def _zeros(params: Params, mesh: Mesh) -> Params:
    """Float32 zeros shaped and laid out like the parameters."""
    return jax.tree.map(
        lambda x, where: jax.device_put(np.zeros(x.shape, np.float32), where), params, shardings(params, mesh)
    )


def _no_gradients(params: Params, mesh: Mesh) -> TermGradients:
    return TermGradients(*(_zeros(params, mesh) for _ in range(4)))


@jax.jit
def _gram(gradients: TermGradients, direction: Params | None) -> jax.Array:
    """Inner products [5, 5] in the order of ``core.snr.SOURCES``; a missing direction is a zero vector."""
    vectors = [gradients.task, gradients.difference, gradients.kl, gradients.entropy]
    vectors += [] if direction is None else [direction]
    inner = jnp.zeros((5, 5), jnp.float32)
    for i, first in enumerate(vectors):
        for j, second in enumerate(vectors[: i + 1]):
            products = jax.tree.map(lambda a, b: jnp.sum(a.astype(jnp.float32) * b.astype(jnp.float32)), first, second)
            value = sum(jax.tree.leaves(products), start=jnp.zeros(()))
            inner = inner.at[i, j].set(value).at[j, i].set(value)
    return inner


_account = jax.jit(gradient_account, static_argnames=("kl_coef", "entropy_coef"))


def _numbers(gram: jax.Array, scale: float, coefficients: tuple[float, float], *, mi: bool) -> dict[str, float]:
    """The account of gradients times ``scale``; the direction, which has a scale of its own, stays as it is."""
    factors = np.array([scale] * 4 + [1.0], np.float32)
    kl_coef, entropy_coef = coefficients
    numbers = jax.device_get(_account(gram * np.outer(factors, factors), kl_coef=kl_coef, entropy_coef=entropy_coef))
    named = {name.replace("direction", "mi"): float(value) for name, value in numbers.items()}
    return named if mi else {name: value for name, value in named.items() if "mi" not in name.split("_")}


def _named(label: str, numbers: dict[str, float], variances: np.ndarray) -> dict[str, float]:
    facts = {"prompts": float(len(variances)), "reward_variance_mean": float(np.mean(variances))}
    return {f"{label}/{name}": value for name, value in (facts | numbers).items()}


def _finite(numbers: dict[str, float]) -> dict[str, float | None]:
    return {name: value if np.isfinite(value) else None for name, value in numbers.items()}
