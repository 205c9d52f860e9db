"""The update: gradients accumulated over micro-batches of groups, then one optimiser step.

The number of groups is a run-time value: one compiled program serves every kept count, and dropped groups cost
nothing. Losses are divided by denominators computed once over the optimiser batch, so the result does not depend on
micro-batches or devices. Where a micro-batch has fewer groups than there are devices, the devices share the rows of a
group, and each runs its prompt.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax.sharding import Mesh

from ragen_jax.config.schema import AlgorithmSection
from ragen_jax.core.losses import kl, ppo_terms, value_terms
from ragen_jax.core.masking import aggregate
from ragen_jax.learner.optimizer import apply_changes
from ragen_jax.learner.score import ScoreConfig, group_values, response_log_probs
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.lora import trainable, with_trainable
from ragen_jax.models.sharding import activations_on, group_parts, replicated, row_sharding, row_shards, shardings
from ragen_jax.types import Array, LearnerBatch, ObjectiveTerms, Params, TrainState


@dataclasses.dataclass(frozen=True, kw_only=True)
class UpdateConfig:
    """Static settings of the update program.

    Attributes:
      model: policy network.
      critic: critic network, or None.
      scoring: vocabulary, temperature and dtype.
      algorithm: clips, aggregation and coefficients.
      micro_groups: groups per gradient call.
    """

    model: ModelConfig
    critic: ModelConfig | None
    scoring: ScoreConfig
    algorithm: AlgorithmSection
    micro_groups: int


@struct.dataclass
class UpdateSums:
    """Sums over the trained tokens of an update, to be divided by ``tokens``; each [] float32."""

    tokens: Array
    entropy: Array
    kl: Array
    clipped: Array
    clipped_dual: Array
    log_ratio: Array
    max_ratio_gap: Array
    clipped_value: Array


def actor_terms(
    params: Params, settings: UpdateConfig, batch: LearnerBatch, denominator: Array
) -> tuple[ObjectiveTerms, UpdateSums]:
    """Terms of the policy loss on some groups, each already divided by the optimiser batch's denominator.

    Args:
      params: policy parameters.
      settings: static settings.
      batch: m groups.
      denominator: [] from ``core.masking.aggregation_denominator``.

    Returns:
      Terms (task, KL, entropy) and the sums behind the logged means. The KL term is 0 where the KL is in the reward.
    """
    log_probs, entropy = response_log_probs(
        params, settings.model, settings.scoring, batch.prompt_tokens, batch.prompt_mask, batch.tokens, remat=True
    )
    width = batch.response_mask.shape[-1]
    log_probs, entropy, old, ref, advantages, mask = (
        jnp.reshape(x, (-1, width))
        for x in (log_probs, entropy, batch.old_log_probs, batch.ref_log_probs, batch.advantages, batch.response_mask)
    )
    weights = batch.weights.reshape(-1)
    reduce = functools.partial(
        aggregate, mask=mask, weights=weights, mode=settings.algorithm.aggregation, denominator=denominator
    )
    loss, clipped, clipped_dual = ppo_terms(
        log_probs,
        old,
        advantages,
        mask,
        clip_low=settings.algorithm.clip_low,
        clip_high=settings.algorithm.clip_high,
        clip_dual=settings.algorithm.clip_dual,
    )
    divergence = (
        kl(log_probs, ref, estimator=settings.algorithm.kl_estimator)
        if settings.algorithm.kl_coef
        else jnp.zeros_like(log_probs)
    )
    loss_coefficient = settings.algorithm.kl_coef if settings.algorithm.kl_target == "loss" else 0.0
    terms = ObjectiveTerms(
        task=reduce(loss),
        kl=loss_coefficient * reduce(divergence),
        entropy=-settings.algorithm.entropy_coef * reduce(entropy),
        value=jnp.zeros(()),
    )
    live = mask * (weights > 0)[:, None]
    log_ratio = jnp.where(live > 0, log_probs - old, 0.0)
    sums = UpdateSums(
        tokens=live.sum(),
        entropy=(entropy * live).sum(),
        kl=(divergence * live).sum(),
        clipped=(clipped * live).sum(),
        clipped_dual=(clipped_dual * live).sum(),
        log_ratio=log_ratio.sum(),
        max_ratio_gap=jnp.abs(jnp.expm1(log_ratio)).max(),
        clipped_value=jnp.zeros(()),
    )
    return terms, jax.lax.stop_gradient(sums)


def critic_term(
    params: Params, settings: UpdateConfig, batch: LearnerBatch, denominator: Array
) -> tuple[jax.Array, jax.Array]:
    """Critic loss on some groups (token mean) and the number of clipped tokens, both []."""
    assert settings.critic is not None
    values = group_values(
        params,
        settings.critic,
        batch.prompt_tokens,
        batch.prompt_mask,
        batch.tokens,
        dtype=settings.scoring.dtype,
        remat=True,
    )
    width = batch.response_mask.shape[-1]
    values, old, returns, mask = (
        jnp.reshape(x, (-1, width)) for x in (values, batch.values, batch.returns, batch.response_mask)
    )
    weights = (batch.weights.reshape(-1) > 0).astype(jnp.float32)
    loss, clipped = value_terms(values, old, returns, mask, value_clip=settings.algorithm.value_clip)
    term = aggregate(loss, mask=mask, weights=weights, mode="token-mean", denominator=denominator)
    return term, (clipped * mask * weights[:, None]).sum()


def split_groups(batch: LearnerBatch, parts: int) -> LearnerBatch:
    """Each of m groups of G rows as ``parts`` groups of G / parts rows with the same prompt."""

    def split(name: str, x: Array) -> Array:
        if name in ("prompt_tokens", "prompt_mask"):
            return jnp.repeat(x, parts, axis=0)
        return jnp.reshape(x, (x.shape[0] * parts, x.shape[1] // parts, *x.shape[2:]))

    fields = [field.name for field in dataclasses.fields(batch)]
    return LearnerBatch(**{name: split(name, getattr(batch, name)) for name in fields})


def accumulate(
    state: TrainState,
    settings: UpdateConfig,
    batch: LearnerBatch,
    order: Array,
    count: Array,
    denominator: Array,
    critic_denominator: Array,
    loss_scale: Array,
    *,
    mesh: Mesh,
) -> tuple[tuple[Params, Any], ObjectiveTerms, UpdateSums]:
    """Gradients of the loss over the groups ``order[:count]``, ``micro_groups`` at a time.

    Args:
      state: parameters of actor and critic.
      settings: static settings.
      batch: all P groups.
      order: [P] int32, the groups of this optimiser batch in front.
      count: [] int32, how many of them.
      denominator: [] of the actor's aggregation.
      critic_denominator: [] trained tokens of the optimiser batch.
      loss_scale: [] factor on the whole actor loss.
      mesh: devices.

    Returns:
      (actor gradient of what is trained, critic gradient or None), summed terms, summed statistics.
    """
    micro = settings.micro_groups
    parts = group_parts(micro, group_size=batch.tokens.shape[1], shards=row_shards(mesh))
    trained = trainable(state.params)

    def actor_loss(trained: Params, part: LearnerBatch) -> tuple[jax.Array, tuple[ObjectiveTerms, UpdateSums]]:
        terms, sums = actor_terms(with_trainable(state.params, trained), settings, part, denominator)
        terms = jax.tree.map(lambda term: term * loss_scale, terms)
        return terms.actor, (terms, sums)

    def critic_loss(params: Params, part: LearnerBatch) -> tuple[jax.Array, jax.Array]:
        return critic_term(params, settings, part, critic_denominator)

    def body(index: Array, carry: tuple) -> tuple:
        gradients, terms, sums = carry
        position = index * micro + jnp.arange(micro)
        groups = order[jnp.minimum(position, order.shape[0] - 1)]
        part = jax.tree.map(lambda x: x[groups], batch)
        part = dataclasses.replace(part, weights=part.weights * (position < count)[:, None])
        part = jax.lax.with_sharding_constraint(split_groups(part, parts), row_sharding(mesh))
        actor_gradient, (part_terms, part_sums) = jax.grad(actor_loss, has_aux=True)(trained, part)
        critic_gradient = None
        if settings.critic is not None:
            (value, clipped), critic_gradient = jax.value_and_grad(critic_loss, has_aux=True)(state.critic_params, part)
            part_terms = dataclasses.replace(part_terms, value=value)
            part_sums = dataclasses.replace(part_sums, clipped_value=clipped)
        gap = jnp.maximum(sums.max_ratio_gap, part_sums.max_ratio_gap)
        gradients = jax.tree.map(
            lambda total, more: total + more.astype(jnp.float32), gradients, (actor_gradient, critic_gradient)
        )
        sums = dataclasses.replace(jax.tree.map(jnp.add, sums, part_sums), max_ratio_gap=gap)
        return gradients, jax.tree.map(jnp.add, terms, part_terms), sums

    zero = jnp.zeros((), jnp.float32)
    start = (
        jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), (trained, state.critic_params)),
        ObjectiveTerms(task=zero, kl=zero, entropy=zero, value=zero),
        UpdateSums(*(zero,) * len(dataclasses.fields(UpdateSums))),
    )
    return jax.lax.fori_loop(0, (count + micro - 1) // micro, body, start)


def _descend(
    optimizer: optax.GradientTransformation, gradient: Params, current: tuple[Any, Any], *, where: jax.Array
) -> tuple[Any, Any]:
    """Parameters and optimiser state after one step, or as they were where the condition is false."""
    changes, opt_state = optimizer.update(gradient, current[1], current[0])
    following = (apply_changes(current[0], changes), opt_state)
    return jax.tree.map(lambda new, old: jnp.where(where, new, old), following, current)


def build_update(
    settings: UpdateConfig,
    actor_optimizer: optax.GradientTransformation,
    critic_optimizer: optax.GradientTransformation | None,
    state: TrainState,
    *,
    mesh: Mesh,
) -> Callable[..., tuple[TrainState, dict[str, jax.Array]]]:
    """Compile the update for one state layout.

    Args:
      settings: static settings.
      actor_optimizer: of the policy.
      critic_optimizer: of the critic, or None.
      state: a state (or its shapes) of the layout that the update will see.
      mesh: devices.

    Returns:
      ``update(state, batch, order, count, denominator, critic_denominator, loss_scale) -> (state, metrics)``. The
      state's buffers are reused. If the loss, a ratio or a gradient is not finite, the state comes back unchanged and
      ``update/finite`` is 0. A network whose gradient is exactly zero (nothing to learn) keeps its parameters and its
      optimiser state, which would otherwise drift on momentum; ``update/applied`` is 0 when that is so for all.
    """
    layout = shardings(state, mesh)

    def update(
        state: TrainState,
        batch: LearnerBatch,
        order: Array,
        count: Array,
        denominator: Array,
        critic_denominator: Array,
        loss_scale: Array,
    ) -> tuple[TrainState, dict[str, jax.Array]]:
        with activations_on(mesh):
            (actor_gradient, critic_gradient), terms, sums = accumulate(
                state, settings, batch, order, count, denominator, critic_denominator, loss_scale, mesh=mesh
            )
        norm = optax.tree.norm(actor_gradient)
        finite = jnp.isfinite(norm) & jnp.isfinite(terms.actor) & jnp.isfinite(sums.log_ratio)
        applied = norm > 0
        trained, opt_state = _descend(
            actor_optimizer, actor_gradient, (trainable(state.params), state.opt_state), where=applied
        )
        new = dataclasses.replace(state, params=with_trainable(state.params, trained), opt_state=opt_state)
        tokens = jnp.maximum(sums.tokens, 1.0)
        metrics = {
            "loss/task": terms.task,
            "loss/kl": terms.kl,
            "loss/entropy": terms.entropy,
            "policy/entropy_token_nats": sums.entropy / tokens,
            "policy/approx_kl_token_nats": -sums.log_ratio / tokens,
            "policy/clipped_share": sums.clipped / tokens,
            "policy/clipped_dual_share": sums.clipped_dual / tokens,
            "policy/max_ratio_gap": sums.max_ratio_gap,
            "gradient/actor_norm": norm,
        }
        if settings.algorithm.kl_coef:
            metrics[f"policy/reference_{settings.algorithm.kl_estimator}_token_nats"] = sums.kl / tokens
        if critic_optimizer is not None:
            critic_norm = optax.tree.norm(critic_gradient)
            finite = finite & jnp.isfinite(critic_norm) & jnp.isfinite(terms.value)
            applied = applied | (critic_norm > 0)
            critic_params, critic_opt_state = _descend(
                critic_optimizer, critic_gradient, (state.critic_params, state.critic_opt_state), where=critic_norm > 0
            )
            new = dataclasses.replace(new, critic_params=critic_params, critic_opt_state=critic_opt_state)
            metrics["loss/value"] = terms.value
            metrics["gradient/critic_norm"] = critic_norm
            metrics["critic/clipped_share"] = sums.clipped_value / tokens
        metrics["update/finite"] = finite.astype(jnp.float32)
        metrics["update/applied"] = (applied & finite).astype(jnp.float32)
        return jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, state), metrics

    rows, whole = row_sharding(mesh), replicated(mesh)
    return jax.jit(
        update,
        in_shardings=(layout, rows, whole, whole, whole, whole, whole),
        out_shardings=(layout, whole),
        donate_argnums=(0,),
    )
