"""Token losses of policy and critic, and estimators of the KL divergence.

Functions return unreduced [B, T] values; ``core.masking.aggregate`` reduces them. Masked tokens are replaced before
any exponential, so nothing at a masked position can reach a loss or a gradient.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.checks import TOKENS, refuse_non_finite
from ragen_jax.core.masking import aggregate, aggregation_denominator, masked_mean
from ragen_jax.types import Array

LOG_RATIO_LIMIT = 20.0  # |log ratio| before an exponential; exp(20) is far from overflow in float32
K3_LIMIT = 10.0  # largest value of the k3 estimator of one token, nats
KL_ESTIMATORS = ("k1", "abs", "k2", "k3")


def ppo_terms(
    log_probs: Array,
    old_log_probs: Array,
    advantages: Array,
    mask: Array,
    *,
    clip_low: float,
    clip_high: float,
    clip_dual: float,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Clipped PPO surrogate of each token, with two bounds and the dual clip.

    With ratio ``w = exp(log_probs - old_log_probs)``: ``L = max(-A w, -A clip(w, 1 - low, 1 + high))``, and where A < 0
    at most ``-A * clip_dual`` (RAGEN-2 appendix B.2).

    Args:
      log_probs: [B, T] nats, of the policy that is trained.
      old_log_probs: [B, T] nats, at the start of the step.
      advantages: [B, T].
      mask: [B, T] bool, trained tokens.
      clip_low: in [0, 1).
      clip_high: at least 0.
      clip_dual: above 1, or 0 for no dual clip.

    Returns:
      loss [B, T] float32, 0 outside the mask; clipped [B, T] bool, tokens whose ratio was clipped; lower [B, T] bool,
      tokens held by the dual clip.

    Raises:
      ValueError: a clip value outside its range, or (outside jit) a masked-in number that is not finite.

    >>> one = jnp.ones((1, 1))
    >>> loss, _, _ = ppo_terms(jnp.log(2 * one), 0 * one, one, one, clip_low=0.2, clip_high=0.28, clip_dual=3.0)
    >>> round(float(loss[0, 0]), 4)
    -1.28
    """
    chex.assert_rank([log_probs, old_log_probs, advantages, mask], 2)
    chex.assert_equal_shape([log_probs, old_log_probs, advantages, mask])
    if not 0 <= clip_low < 1 or clip_high < 0:
        raise ValueError(f"clip_low={clip_low} must lie in [0, 1) and clip_high={clip_high} must be at least 0")
    if clip_dual != 0 and clip_dual <= 1:
        raise ValueError(f"clip_dual={clip_dual} must be above 1, or 0 to switch it off")
    for name, values in (("log-prob", log_probs), ("old log-prob", old_log_probs), ("advantage", advantages)):
        refuse_non_finite(name, values, mask, axes=TOKENS, fix="repair its source or leave the token out of the mask")
    mask = jnp.asarray(mask, bool)
    advantages = jnp.where(mask, jnp.asarray(advantages, jnp.float32), 0.0)
    log_ratio = _masked_difference(log_probs, old_log_probs, mask)
    ratio = jnp.exp(jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
    free = -advantages * ratio
    held = -advantages * jnp.clip(ratio, 1.0 - clip_low, 1.0 + clip_high)
    clipped = held > free
    loss = jnp.where(clipped, held, free)
    if clip_dual == 0:
        return loss, clipped, jnp.zeros_like(mask)
    bound = -advantages * clip_dual
    lower = (advantages < 0) & (loss > bound)
    return jnp.where(lower, bound, loss), clipped, lower


def ppo_policy_loss(
    log_probs: Array,
    old_log_probs: Array,
    advantages: Array,
    mask: Array,
    *,
    clip_low: float,
    clip_high: float,
    clip_dual: float = 3.0,
    aggregation: str = "token-mean",
    constant_length: float | None = None,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The PPO loss of a whole batch, for notebooks and checks.

    The training step uses :func:`ppo_terms` and ``aggregate`` with a denominator over the optimiser batch instead.

    Args:
      log_probs: [B, T] nats.
      old_log_probs: [B, T] nats.
      advantages: [B, T].
      mask: [B, T] bool.
      clip_low: lower clip of the ratio.
      clip_high: upper clip of the ratio.
      clip_dual: dual clip, 0 = off.
      aggregation: a mode of ``core.masking.aggregate``.
      constant_length: tokens by which "seq-mean-token-sum-norm" divides beside the rows that have tokens; by default
        the padded length T. Times that number of rows it is the value of the released code, which divides by T alone.

    Returns:
      loss [] and metrics, means over the mask: ``clip_fraction``, ``clip_fraction_lower``, ``kl_old_k1`` (nats, mean of
      old minus new log-probs).

    Raises:
      ValueError: clip values or aggregation that cannot be used.
    """
    loss, clipped, lower = ppo_terms(
        log_probs, old_log_probs, advantages, mask, clip_low=clip_low, clip_high=clip_high, clip_dual=clip_dual
    )
    rows = jnp.ones(loss.shape[0], jnp.float32)
    if aggregation == "seq-mean-token-sum-norm" and constant_length is None:
        constant_length = float(loss.shape[1])
    denominator = aggregation_denominator(mask, rows, mode=aggregation, constant_length=constant_length)
    metrics = {
        "clip_fraction": masked_mean(clipped, mask),
        "clip_fraction_lower": masked_mean(lower, mask),
        "kl_old_k1": -masked_mean(_masked_difference(log_probs, old_log_probs, mask), mask),
    }
    return aggregate(loss, mask, rows, mode=aggregation, denominator=denominator), metrics


def kl(log_probs: Array, ref_log_probs: Array, *, estimator: str) -> jax.Array:
    """One-sample estimate of KL(policy || reference) at each token, from tokens that the policy sampled.

    With ``x = log_probs - ref_log_probs``: k1 ``x``; abs ``|x|``; k2 ``x^2 / 2``; k3 ``exp(-x) - 1 + x``. k1 and k3 are
    unbiased values. What they do to the policy is another matter. Expected gradient where the policy is the one that
    sampled, with p the policy, q the reference, and E taken over p:

        estimator   as a loss (x is differentiated)    minus it in the reward (x is a number)
        k1          0: it pulls nowhere                grad KL(p || q)
        abs         grad sum |p - q|                   grad E|x| - grad sum |p - q|
        k2          grad KL(p || q)                    grad E[x^2 / 2] - grad KL(p || q)
        k3          grad KL(q || p)                    grad KL(p || q) - grad KL(q || p)

    The two columns add up to the gradient of E[estimator]. So k2 and k3 belong into a loss, k1 into the reward.

    k3 clips x to [-20, 20] and its own value to 10 nats; beyond that its gradient is 0.

    Args:
      log_probs: [B, T] nats.
      ref_log_probs: [B, T] nats.
      estimator: "k1", "abs", "k2" or "k3".

    Returns:
      [B, T] float32, nats; abs, k2 and k3 are never negative.

    Raises:
      ValueError: unknown estimator, or (outside jit) a log-prob that is not finite.

    >>> [round(float(kl(-jnp.ones((1, 1)), -2 * jnp.ones((1, 1)), estimator=e)[0, 0]), 4) for e in ("k1", "k2", "k3")]
    [1.0, 0.5, 0.3679]
    """
    chex.assert_rank([log_probs, ref_log_probs], 2)
    chex.assert_equal_shape([log_probs, ref_log_probs])
    refuse_non_finite("log-prob", log_probs, axes=TOKENS, fix="repair the scorer, or put 0 where nothing is scored")
    refuse_non_finite("reference log-prob", ref_log_probs, axes=TOKENS, fix="repair the scorer")
    x = jnp.asarray(log_probs, jnp.float32) - jnp.asarray(ref_log_probs, jnp.float32)
    if estimator == "k1":
        return x
    if estimator == "abs":
        return jnp.abs(x)
    if estimator == "k2":
        return 0.5 * jnp.square(x)
    if estimator == "k3":
        x = jnp.clip(x, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
        return jnp.clip(jnp.expm1(-x) + x, 0.0, K3_LIMIT)
    raise ValueError(f"unknown KL estimator {estimator!r}; use one of {', '.join(KL_ESTIMATORS)}")


def value_terms(
    values: Array, old_values: Array, returns: Array, mask: Array, *, value_clip: float
) -> tuple[jax.Array, jax.Array]:
    """Clipped squared error of the critic at each token.

    ``0.5 * max((v - R)^2, (clip(v, v_old - c, v_old + c) - R)^2)``.

    Args:
      values: [B, T], of the critic that is trained.
      old_values: [B, T], at the start of the step.
      returns: [B, T], targets.
      mask: [B, T] bool.
      value_clip: c, reward units; 0 = off.

    Returns:
      loss [B, T] float32, 0 outside the mask; clipped [B, T] bool, tokens whose move was clipped.

    Raises:
      ValueError: negative value_clip.
    """
    chex.assert_rank([values, old_values, returns, mask], 2)
    chex.assert_equal_shape([values, old_values, returns, mask])
    if value_clip < 0:
        raise ValueError(f"value_clip={value_clip} must be at least 0")
    mask = jnp.asarray(mask, bool)
    error = _masked_difference(values, returns, mask)
    free = jnp.square(error)
    if value_clip == 0:
        return 0.5 * free, jnp.zeros_like(mask)
    moved = jnp.clip(_masked_difference(values, old_values, mask), -value_clip, value_clip)
    held = jnp.square(_masked_difference(old_values, returns, mask) + moved)
    clipped = held > free
    return 0.5 * jnp.where(clipped, held, free), clipped


def _masked_difference(first: Array, second: Array, mask: Array) -> jax.Array:
    difference = jnp.asarray(first, jnp.float32) - jnp.asarray(second, jnp.float32)
    return jnp.where(jnp.asarray(mask, bool), difference, 0.0)
