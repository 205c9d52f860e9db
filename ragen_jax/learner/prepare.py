"""From finished episodes and a filter's verdict to what the update reads. Calls ``core`` only."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from ragen_jax.config.schema import AlgorithmSection, RewardSection
from ragen_jax.core.advantages import (
    ADVANTAGES,
    WHITENED,
    AdvantageInputs,
    AdvantageOptions,
    center_over_tokens,
    net_token_weight,
)
from ragen_jax.core.filters.result import trained_rows
from ragen_jax.core.losses import kl
from ragen_jax.core.masking import aggregation_denominator, masked_mean, masked_var, masked_whiten
from ragen_jax.core.rewards import normalize_rewards
from ragen_jax.types import Array, FilterResult, LearnerBatch, RolloutBatch


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Static settings of rewards, advantages and denominators.

    Attributes:
      group_size: G.
      algorithm: estimator, discounts, whitening, KL in the reward, aggregation and normaliser.
      reward: normalisation.
      constant_length: tokens by which "seq-mean-token-sum-norm" divides; unused by the other aggregations.
      scale_advantages: the filter's loss scale goes on the advantages instead of the loss.
    """

    group_size: int
    algorithm: AlgorithmSection
    reward: RewardSection = dataclasses.field(default_factory=RewardSection)
    constant_length: float
    scale_advantages: bool


@dataclasses.dataclass(frozen=True)
class PreparedBatch:
    """A learner batch and how to walk it.

    Attributes:
      batch: all P groups.
      order: [P] int32, kept groups in front, in prompt order.
      kept: number of kept groups.
      metrics: ``advantage/...`` numbers.
    """

    batch: LearnerBatch
    order: np.ndarray
    kept: int
    metrics: dict[str, float]


def on_last_token(amounts: np.ndarray, response_mask: np.ndarray) -> np.ndarray:
    """Amounts [B] on the last response token of their row, [B, T] float32; rows without a response get nothing."""
    placed = np.zeros(response_mask.shape, np.float32)
    rows = np.flatnonzero(response_mask.any(axis=1))
    last = response_mask.shape[1] - 1 - response_mask[:, ::-1].argmax(axis=1)
    placed[rows, last[rows]] = amounts[rows]
    return placed


def learner_rewards(batch: RolloutBatch, settings: PrepareConfig) -> tuple[np.ndarray, np.ndarray]:
    """Rewards that advantages are made of: return plus penalties, normalised as ``reward.normalize`` says.

    Turn rewards keep their places: they are scaled by the row's factor, and what the row's total still lacks (its
    penalties, the shift of the mean, what a clip took) stands on its last response token.

    Args:
      batch: finished episodes, NumPy.
      settings: static settings.

    Returns:
      rewards of rows [B] and of tokens [B, T], float32; the tokens of a row sum to its reward.
    """
    totals = np.asarray(batch.returns) + np.asarray(batch.penalties)
    rows = np.arange(len(totals), dtype=np.int32)
    by_group = settings.reward.grouping == "group"
    normalised, factor = jax.device_get(
        _normalize(
            totals,
            rows // settings.group_size if by_group else np.zeros_like(rows),
            np.asarray(batch.valid),
            num_ids=len(totals) // settings.group_size if by_group else 1,
            method=settings.reward.normalize,
        )
    )
    tokens = np.asarray(batch.token_rewards, np.float32) * factor[:, None]
    rest = np.asarray(batch.penalties) * factor + (normalised - totals * factor)
    return normalised, tokens + on_last_token(rest, np.asarray(batch.response_mask))


_normalize = jax.jit(normalize_rewards, static_argnames=("num_ids", "method"))


@functools.partial(jax.jit, static_argnums=(0,))
def _advantages(
    settings: PrepareConfig,
    rewards: Array,
    valid: Array,
    token_rewards: Array,
    old_log_probs: Array,
    ref_log_probs: Array,
    values: Array,
    response_mask: Array,
    turn_ids: Array,
    kept_rows: Array,
    scale: Array,
) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
    algorithm = settings.algorithm
    kl_rewards = jnp.zeros_like(token_rewards)
    if algorithm.kl_coef and algorithm.kl_target == "reward":
        kl_rewards = -algorithm.kl_coef * kl(old_log_probs, ref_log_probs, estimator=algorithm.kl_estimator)
    inputs = AdvantageInputs(
        rewards=rewards,
        valid=valid,
        token_rewards=token_rewards,
        kl_rewards=kl_rewards,
        values=values,
        response_mask=response_mask,
        turn_ids=turn_ids,
    )
    options = AdvantageOptions(
        gamma=algorithm.gamma,
        lam=algorithm.lam,
        turn_gamma=algorithm.turn_gamma,
        normalize_by_std=algorithm.normalize_by_std,
    )
    advantages, targets = ADVANTAGES[algorithm.advantage](inputs, options)
    trained = response_mask & kept_rows.reshape(-1)[:, None]
    if algorithm.center_tokens:
        advantages = center_over_tokens(advantages, trained, group_size=settings.group_size)
    before = _root_mean_square(advantages, trained)
    if algorithm.whiten and algorithm.advantage in WHITENED:
        over = trained if algorithm.whiten_over == "kept" else inputs.trained
        advantages = masked_whiten(advantages, trained, over=over)
    metrics = {
        "reward/mean": masked_mean(rewards, valid),
        "reward/std": jnp.sqrt(masked_var(rewards, valid, ddof=1)),
        "advantage/rms_before_whitening": before,
        "advantage/rms": _root_mean_square(advantages, trained),
        "advantage/net_token_weight": net_token_weight(advantages, trained),
    }
    if settings.scale_advantages:
        advantages = advantages * scale
    return advantages, targets, metrics


def _root_mean_square(values: jax.Array, mask: Array) -> jax.Array:
    return jnp.sqrt(masked_mean(jnp.square(values), mask))


def prepare(
    batch: RolloutBatch,
    result: FilterResult,
    settings: PrepareConfig,
    *,
    values: np.ndarray | None = None,
    ref_log_probs: np.ndarray | None = None,
) -> PreparedBatch:
    """Advantages, masks and weights of one step.

    Args:
      batch: finished episodes, NumPy.
      result: what the filter kept, [P].
      settings: static settings.
      values: [B, T] critic values, for estimators that need them.
      ref_log_probs: [B, T] log-probs of the reference (nats), when a KL term is used.

    Returns:
      The learner batch with dropped and invalid rows at weight 0, and the walk over the kept groups.
    """
    group = settings.group_size
    mask = np.asarray(batch.response_mask) & np.asarray(batch.valid)[:, None]
    zeros = np.zeros(mask.shape, np.float32)
    values = zeros if values is None else np.asarray(values, np.float32)
    reference = zeros if ref_log_probs is None else np.asarray(ref_log_probs, np.float32)
    rewards, token_rewards = learner_rewards(batch, settings)
    keep = np.asarray(result.keep)
    valid = np.asarray(batch.valid).reshape(-1, group)
    kept_rows = np.asarray(trained_rows(result, valid))
    advantages, targets, metrics = jax.device_get(
        _advantages(
            settings,
            rewards.reshape(-1, group),
            valid,
            token_rewards,
            batch.behaviour_log_probs,
            reference,
            values,
            mask,
            batch.turn_ids,
            kept_rows,
            result.loss_scale,
        )
    )

    def rows(x: Array) -> np.ndarray:
        return np.asarray(x).reshape(-1, group, np.shape(x)[-1])

    learner_batch = LearnerBatch(
        prompt_tokens=np.asarray(batch.prompt_tokens),
        prompt_mask=np.asarray(batch.prompt_mask),
        tokens=rows(batch.tokens),
        attention_mask=rows(batch.attention_mask),
        response_mask=rows(mask),
        old_log_probs=rows(batch.behaviour_log_probs),
        ref_log_probs=rows(reference),
        values=rows(values),
        advantages=rows(advantages),
        returns=rows(targets),
        weights=kept_rows.astype(np.float32),
    )
    order = np.concatenate([np.flatnonzero(keep), np.flatnonzero(~keep)]).astype(np.int32)
    return PreparedBatch(
        batch=learner_batch,
        order=order,
        kept=int(keep.sum()),
        metrics={name: float(value) for name, value in metrics.items()},
    )


def minibatches(kept: np.ndarray, *, prompts: int, size: int, equal_updates: bool) -> list[np.ndarray]:
    """Kept groups, parted into the optimiser batches of one epoch, in order.

    Args:
      kept: indices of the kept groups, at least one.
      prompts: P, groups before the filter.
      size: groups per optimiser batch, 0 = all of them; the last batch may be smaller.
      equal_updates: as many batches as P groups would make, of nearly equal sizes (as many as there are kept groups,
        where they are fewer): the filter changes what is trained, not how often.
    """
    size = size or prompts
    if equal_updates:
        return np.array_split(kept, min(-(-prompts // size), len(kept)))
    return [kept[start : start + size] for start in range(0, len(kept), size)]


_denominator = jax.jit(aggregation_denominator, static_argnames=("mode", "constant_length"))


def denominators(prepared: PreparedBatch, groups: np.ndarray, settings: PrepareConfig) -> tuple[float, float]:
    """What the actor's and the critic's loss of one optimiser batch are divided by.

    ``normalizer="rollout"``: the tokens (rows) of the whole batch before filtering, times this optimiser batch's share
    of the kept groups: a dropped group takes its loss away and does not raise the weight of the others. ``"kept"``: the
    tokens (rows) of these groups. The critic always takes the mean over its own tokens.

    Args:
      prepared: the batch.
      groups: indices of the groups of this optimiser batch.
      settings: static settings.

    Returns:
      (actor, critic) denominators.
    """
    batch = prepared.batch
    mask = np.asarray(batch.response_mask)
    kept_tokens = float((mask[groups] * (np.asarray(batch.weights)[groups] > 0)[..., None]).sum())
    if settings.algorithm.normalizer == "rollout":
        counted, share = np.ones(mask.shape[:2], np.float32), len(groups) / prepared.kept
    else:
        counted, share = np.zeros(mask.shape[:2], np.float32), 1.0
        counted[groups] = np.asarray(batch.weights)[groups]
    constant = settings.constant_length if settings.algorithm.aggregation == "seq-mean-token-sum-norm" else None
    actor = _denominator(
        mask.reshape(-1, mask.shape[-1]),
        counted.reshape(-1),
        mode=settings.algorithm.aggregation,
        constant_length=constant,
    )
    return float(actor) * share, kept_tokens
