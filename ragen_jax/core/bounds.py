"""Both sides of the statements of RAGEN-2 appendices H, I, J, K, L and N, on policies that can be enumerated.

A prompt is a finite policy: Z responses with probabilities p(z), scores s(z) = grad log p(z), mean rewards mu(z) and
noise variances sigma^2(z); a reward is ``mu(z) + noise``. All functions take leading batch axes and keep the dtype of
their input. ``docs/theory.md`` says which statement holds, under what assumption, and which does not.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy

from ragen_jax.types import Array


class PromptFacts(NamedTuple):
    """Exact quantities of one prompt; each [...], squared reward units unless said otherwise.

    Attributes:
      gradient: [..., D], ``g = E[(R - b) s]`` with the exact baseline ``b = E[R]``.
      signal_variance: ``Var(mu)`` over responses.
      noise_variance: ``E[sigma^2]``.
      reward_variance: ``RV = Var(mu) + E[sigma^2]``.
      score_square: ``E|s|^2``.
      effective_noise: ``sigma_eff^2 = E[sigma^2 |s|^2] / E|s|^2``, the noise where the scores are.
      sample_variance: ``E|A s|^2 - |g|^2``, variance of the gradient estimate from one rollout.
    """

    gradient: jax.Array
    signal_variance: jax.Array
    noise_variance: jax.Array
    reward_variance: jax.Array
    score_square: jax.Array
    effective_noise: jax.Array
    sample_variance: jax.Array

    @property
    def gradient_norm(self) -> jax.Array:
        """``|g|``, [...]."""
        return jnp.sqrt(jnp.sum(jnp.square(self.gradient), axis=-1))


def prompt_facts(probabilities: Array, scores: Array, mean_rewards: Array, noise_variances: Array) -> PromptFacts:
    """Enumerate one prompt.

    Args:
      probabilities: [..., Z], sum 1.
      scores: [..., Z, D], mean 0 under the probabilities.
      mean_rewards: [..., Z].
      noise_variances: [..., Z].

    Returns:
      The facts, each [...].
    """
    chex.assert_equal_shape([probabilities, mean_rewards, noise_variances])
    chex.assert_rank(scores, jnp.ndim(probabilities) + 1)
    p, s, mu, noise = (jnp.asarray(x) for x in (probabilities, scores, mean_rewards, noise_variances))
    centred = mu - jnp.sum(p * mu, axis=-1, keepdims=True)
    square = jnp.sum(jnp.square(s), axis=-1)
    gradient = jnp.sum((p * centred)[..., None] * s, axis=-2)
    signal = jnp.sum(p * jnp.square(centred), axis=-1)
    noise_mean = jnp.sum(p * noise, axis=-1)
    score_square = jnp.sum(p * square, axis=-1)
    second_moment = jnp.sum(p * (jnp.square(centred) + noise) * square, axis=-1)
    return PromptFacts(
        gradient=gradient,
        signal_variance=signal,
        noise_variance=noise_mean,
        reward_variance=signal + noise_mean,
        score_square=score_square,
        effective_noise=jnp.sum(p * noise * square, axis=-1) / score_square,
        sample_variance=second_moment - jnp.sum(jnp.square(gradient), axis=-1),
    )


def gradient_bound(facts: PromptFacts) -> jax.Array:
    """``|g| <= sqrt(RV) sqrt(E|s|^2)`` (appendix H.3), [...]. Var(mu) in the place of RV bounds it too."""
    return jnp.sqrt(facts.reward_variance * facts.score_square)


def snr_exact(facts: PromptFacts, *, group_size: int) -> jax.Array:
    """``|g| / sqrt(E|g_hat - g|^2)`` of the mean over G rollouts with the exact baseline, [...]."""
    return facts.gradient_norm * jnp.sqrt(group_size / facts.sample_variance)


def snr_bound_printed(facts: PromptFacts, *, group_size: int) -> jax.Array:
    """``sqrt(G RV) / sigma`` (appendix H.4), [...]. RV contains sigma^2, so it is never below sqrt(G)."""
    return jnp.sqrt(group_size * facts.reward_variance / facts.noise_variance)


def snr_bound(facts: PromptFacts, *, group_size: int) -> jax.Array:
    """``sqrt(G Var(mu)) / sigma_eff``, [...]: holds for any noise and falls to 0 with the signal."""
    return jnp.sqrt(group_size * facts.signal_variance / facts.effective_noise)


def snr_bound_plain(facts: PromptFacts, *, group_size: int) -> jax.Array:
    """``sqrt(G Var(mu)) / sigma``, [...]: holds only when the noise is the same for every response."""
    return jnp.sqrt(group_size * facts.signal_variance / facts.noise_variance)


def grpo_error(facts: PromptFacts, *, group_size: int) -> jax.Array:
    """Mean squared error of the mean over G rollouts of ``A s / sqrt(RV)``, exact baseline and RV, [...]."""
    return facts.sample_variance / (facts.reward_variance * group_size)


def grpo_floor(facts: PromptFacts, *, group_size: int) -> jax.Array:
    """``(1/G) (sigma_eff^2 / RV) E|s|^2``, [...]: a floor of :func:`grpo_error` for any noise (appendix N)."""
    return facts.effective_noise / facts.reward_variance * facts.score_square / group_size


def grpo_floor_plain(facts: PromptFacts, *, group_size: int) -> jax.Array:
    """The floor with ``E[sigma^2]`` as printed, [...]: holds only when the noise is the same for every response."""
    return facts.noise_variance / facts.reward_variance * facts.score_square / group_size


def dominance_bound(facts: PromptFacts, regulariser_norm: Array) -> jax.Array:
    """``|g_reg| / (|g_reg| + sqrt(RV) sqrt(E|s|^2))``, [...]: floor of the dominance ratio (appendix K.2)."""
    regulariser = jnp.asarray(regulariser_norm)
    return regulariser / (regulariser + gradient_bound(facts))


def mean_estimate_error(noise: Array, keep: Array) -> jax.Array:
    """``sum_kept v_i / k^2``: squared error of the mean of k independent prompt estimates (appendix J.2).

    Args:
      noise: [..., P] variances v_i of the prompts' estimates.
      keep: [..., P] bool, chosen without a look at the estimates.

    Returns:
      [...] error about the mean gradient of the kept prompts; 0 when nothing is kept.
    """
    mask = jnp.asarray(keep, jnp.asarray(noise).dtype)
    count = jnp.sum(mask, axis=-1)
    return jnp.sum(mask * noise, axis=-1) / jnp.square(jnp.maximum(count, 1))


def mutual_information(channel: Array) -> jax.Array:
    """``I(X; Z)`` of P equally likely prompts, exact.

    Args:
      channel: [..., P, Z] probabilities p(z|x).

    Returns:
      [...] nats, in [0, ln P].

    >>> float(mutual_information(jnp.array([[0.5, 0.5], [0.5, 0.5]])))
    0.0
    """
    return mean_divergence(channel, jnp.mean(jnp.asarray(channel), axis=-2, keepdims=True))


def mean_divergence(channel: Array, reference: Array) -> jax.Array:
    """``E_x KL(p(.|x) || q(.|x))`` of equally likely prompts, [...] nats; both [..., P, Z], or one q for all."""
    p, q = jnp.asarray(channel), jnp.asarray(reference)
    return jnp.mean(jnp.sum(xlogy(p, p) - xlogy(p, jnp.broadcast_to(q, p.shape)), axis=-1), axis=-1)


def mixed_with_template(channel: Array, template: Array, alpha: Array) -> jax.Array:
    """``(1 - alpha) p(z|x) + alpha q(z)`` (appendix I).

    Args:
      channel: [..., P, Z].
      template: [..., Z], the same for every prompt.
      alpha: [...] in [0, 1].

    Returns:
      [..., P, Z].
    """
    share = jnp.asarray(alpha)[..., None, None]
    return (1 - share) * jnp.asarray(channel) + share * jnp.asarray(template)[..., None, :]


def mi_change_bound(divergence: Array, *, prompts: int) -> jax.Array:
    """Largest change of I(X; Z) when the policies are ``divergence`` apart (what appendix L can mean).

    ``|I - I_0| <= delta ln P + h(delta)`` with ``delta = sqrt(E_x KL / 2)`` (Pinsker) and the binary entropy h, for
    equally likely prompts; at most ln P. It is of the order sqrt(KL): no bound linear in the divergence exists.

    Args:
      divergence: [...] ``E_x KL`` in nats, in either direction.
      prompts: P.

    Returns:
      [...] nats.
    """
    largest = prompts / (1 + prompts)  # the bound grows up to here
    delta = jnp.minimum(jnp.sqrt(jnp.maximum(jnp.asarray(divergence), 0) / 2), largest)  # rounding may go below 0
    entropy = -xlogy(delta, delta) - xlogy(1 - delta, 1 - delta)
    return jnp.minimum(delta * jnp.log(prompts) + entropy, jnp.log(prompts))
