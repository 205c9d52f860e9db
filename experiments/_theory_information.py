"""Statements about mutual information: appendices I, L and M, and which regulariser moves it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from experiments._theory_draws import draw_channels
from experiments._theory_finding import FAILS, HOLDS, MEASURED, Finding, identity, inequality
from ragen_jax.core import bounds
from ragen_jax.core.bounds import mean_divergence, mutual_information


def template_mixing(rng: np.random.Generator, draws: int) -> list[Finding]:
    """Appendix I."""
    left, right = [], []
    for prompts, responses in ((2, 2), (3, 4), (8, 6), (16, 12)):
        channel = draw_channels(rng, count=draws // 4, prompts=prompts, responses=responses)
        template = rng.dirichlet(np.full(responses, 0.5), size=len(channel))
        alpha = rng.uniform(size=len(channel))
        left.append(np.asarray(mutual_information(bounds.mixed_with_template(channel, template, alpha))))
        right.append((1 - alpha) * np.asarray(mutual_information(channel)))
    how = "random policies and templates, exact sums"
    return [inequality("I mixing", "I_alpha <= (1 - alpha) I", how, left, right, "left / right", HOLDS)]


def closeness(rng: np.random.Generator, draws: int) -> list[Finding]:
    """Appendix L."""
    changes, allowed, slopes = [], [], []
    for prompts, responses in ((2, 2), (3, 4), (8, 6), (16, 12)):
        first = draw_channels(rng, count=draws // 4, prompts=prompts, responses=responses)
        other = draw_channels(rng, count=draws // 4, prompts=prompts, responses=responses)
        near = np.exp(rng.uniform(-8, 0, (len(first), 1, 1)))  # nearer, and KL is lost in rounding
        second = (1 - near) * first + near * other
        changes.append(np.abs(np.asarray(mutual_information(second) - mutual_information(first))))
        allowed.append(np.asarray(bounds.mi_change_bound(mean_divergence(second, first), prompts=prompts)))
        tiny = 0.999 * first + 0.001 * other
        divergence = np.asarray(mean_divergence(tiny, first))
        slopes.append(np.abs(np.asarray(mutual_information(tiny) - mutual_information(first))) / divergence)
    slope = np.concatenate(slopes)
    return [
        inequality(
            "L closeness",
            "|I - I_0| <= d ln P + h(d), d = sqrt(KL / 2)",
            "pairs of policies, near and far, exact sums",
            changes,
            allowed,
            "left / right",
            HOLDS,
        ),
        Finding(
            "L linear in KL",
            "|I - I_0| <= 10 KL",
            "policies 0.1 % apart",
            FAILS,
            len(slope),
            int((slope > 10).sum()),
            float(slope.max()),
            "largest |I - I_0| / KL: I moves with the first power of a step, KL with the second",
        ),
    ]


def attribution(rng: np.random.Generator, draws: int) -> list[Finding]:
    """Which regulariser moves I, and where to: at first order, then by a long flow; every prompt has its own logits."""
    count, prompts, responses = max(draws // 4, 50), 4, 6
    logits = np.log(draw_channels(rng, count=count, prompts=prompts, responses=responses))
    collapsed = np.log(draw_channels(rng, count=count, prompts=1, responses=responses))
    informed = np.log(0.02 / responses + 0.98 * np.eye(responses)[None, :prompts])
    how = f"{count} policies of {prompts} prompts, exact"
    return [
        *_identities(jnp.asarray(logits), jnp.asarray(collapsed), how),
        _flow("entropy bonus", "I falls at first order", how, logits, None),
        _flow("KL to a template", "I falls at first order", how, logits, collapsed),
        _flow("KL to an informed policy", "I rises at first order", how, logits, informed),
    ]


def _information(x: jax.Array) -> jax.Array:
    """I of the policies with logits [P, Z]."""
    return mutual_information(jax.nn.softmax(x))


def _entropy(x: jax.Array) -> jax.Array:
    """H(Z|X)."""
    return -jnp.mean(jnp.sum(jax.nn.softmax(x) * jax.nn.log_softmax(x), axis=-1))


def _divergence(x: jax.Array, reference: jax.Array) -> jax.Array:
    """E KL(p || q) to the policies with the logits ``reference`` [P, Z] or [1, Z]."""
    return mean_divergence(jax.nn.softmax(x), jax.nn.softmax(reference))


def _log_gain(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log p [P, Z], and log(p / m) with the marginal m over the prompts."""
    log_p = jax.nn.log_softmax(x)
    return log_p, log_p - jax.nn.logsumexp(log_p, axis=0) + jnp.log(len(x))


def _score_form(x: jax.Array) -> jax.Array:
    """Its gradient is E[log(p / m) s]."""
    log_p, gain = _log_gain(x)
    return jnp.mean(jnp.sum(jax.lax.stop_gradient(jnp.exp(log_p) * gain) * log_p, axis=-1))


def _fixed_samples(x: jax.Array) -> jax.Array:
    """E[log(p / m)] over responses that do not move with the policy."""
    log_p, gain = _log_gain(x)
    return jnp.mean(jnp.sum(jax.lax.stop_gradient(jnp.exp(log_p)) * gain, axis=-1))


def _k1_loss(x: jax.Array, reference: jax.Array) -> jax.Array:
    """E[log p - log q] over responses that do not move with the policy."""
    log_p = jax.nn.log_softmax(x)
    samples = jax.lax.stop_gradient(jnp.exp(log_p))
    return jnp.mean(jnp.sum(samples * (log_p - jax.nn.log_softmax(reference)), axis=-1))


def _identities(logits: jax.Array, collapsed: jax.Array, how: str) -> list[Finding]:
    """What the gradients of entropy, KL and I have to do with one another; logits [N, P, Z], templates [N, 1, Z]."""

    def marginal_divergence(x: jax.Array, q: jax.Array) -> jax.Array:
        marginal = jnp.mean(jax.nn.softmax(x), axis=0, keepdims=True)
        return mean_divergence(marginal, jax.nn.softmax(q))

    def template_gap(x: jax.Array, q: jax.Array) -> jax.Array:
        return _divergence(x, jnp.broadcast_to(q, x.shape)) - _information(x) - marginal_divergence(x, q)

    def uniform_gap(x: jax.Array) -> jax.Array:
        return jax.grad(_entropy)(x) + jax.grad(_divergence)(x, jnp.zeros_like(x))

    def score_gap(x: jax.Array) -> jax.Array:
        return jax.grad(_score_form)(x) - jax.grad(_information)(x)

    template, uniform = jax.vmap(template_gap)(logits, collapsed), jax.vmap(uniform_gap)(logits)
    score, fixed = jax.vmap(score_gap)(logits), jax.vmap(jax.grad(_fixed_samples))(logits)
    k1 = jax.vmap(jax.grad(_k1_loss))(logits, jnp.broadcast_to(collapsed, logits.shape))
    return [
        identity("KL to a template", "E KL(p || q) = I + KL(p(z) || q)", how, np.asarray(template), "q without x"),
        identity("entropy is such a KL", "grad H(Z|X) = -grad E KL(p || uniform)", how, np.asarray(uniform), ""),
        identity("gradient of I", "grad I = E[log(p / m) s]", how, np.asarray(score), "the probe's direction"),
        identity("fixed samples", "E grad(matched - marginal) = 0", how, np.asarray(fixed), "z held fixed: only noise"),
        identity("k1 as a loss", "E grad k1 = 0", how, np.asarray(k1), "z held fixed: only noise"),
    ]


def _flow(name: str, statement: str, how: str, logits: np.ndarray, reference: np.ndarray | None) -> Finding:
    """Slope of I along a regulariser (the entropy, or minus the KL to ``reference``), and I after 2,000 steps of it."""
    target = np.zeros((1, 1, 1)) if reference is None else reference

    def one(x: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
        def objective(y: jax.Array) -> jax.Array:
            return _entropy(y) if reference is None else -_divergence(y, jnp.broadcast_to(target, y.shape))

        slope = jnp.vdot(jax.grad(_information)(x), jax.grad(objective)(x))
        end = jax.lax.fori_loop(0, 2000, lambda _, y: y + 2.0 * jax.grad(objective)(y), x)
        return slope, _information(end) / _information(x)

    slopes, ratios = jax.jit(jax.vmap(one))(logits, np.broadcast_to(target, (len(logits), *target.shape[1:])))
    against = np.asarray(slopes > 0 if "falls" in statement else slopes < 0)
    note = f"share as stated; after 2,000 steps I is {np.median(ratios):.2g} times what it was (median)"
    share = float(1 - against.mean())
    return Finding(f"flow: {name}", statement, how, MEASURED, len(logits), int(against.sum()), share, note)
