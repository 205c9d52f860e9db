"""Statements about mutual information: appendices I, L and M, and which regulariser moves it."""

from __future__ import annotations

from collections.abc import Callable

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

    def information(x: jax.Array) -> jax.Array:
        return mutual_information(jax.nn.softmax(x))

    def entropy(x: jax.Array) -> jax.Array:
        return -jnp.mean(jnp.sum(jax.nn.softmax(x) * jax.nn.log_softmax(x), axis=-1))

    def pull(reference: jax.Array) -> Callable[[jax.Array], jax.Array]:
        return lambda x: -mean_divergence(jax.nn.softmax(x), jax.nn.softmax(reference))

    def score_form(x: jax.Array) -> jax.Array:
        log_p = jax.nn.log_softmax(x)
        gain = log_p - jax.nn.logsumexp(log_p, axis=0) + jnp.log(prompts)
        return jnp.mean(jnp.sum(jax.lax.stop_gradient(jnp.exp(log_p) * gain) * log_p, axis=-1))

    def fixed_samples(x: jax.Array) -> jax.Array:
        log_p = jax.nn.log_softmax(x)
        gain = log_p - jax.nn.logsumexp(log_p, axis=0) + jnp.log(prompts)
        return jnp.mean(jnp.sum(jax.lax.stop_gradient(jnp.exp(log_p)) * gain, axis=-1))

    def k1_loss(x: jax.Array, reference: jax.Array) -> jax.Array:
        log_p = jax.nn.log_softmax(x)
        samples = jax.lax.stop_gradient(jnp.exp(log_p))
        return jnp.mean(jnp.sum(samples * (log_p - jax.nn.log_softmax(reference)), axis=-1))

    def slopes(objective: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
        return lambda x: jnp.vdot(jax.grad(information)(x), jax.grad(objective)(x))

    def flow(objective: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 2000, lambda _, y: y + 2.0 * jax.grad(objective)(y), x)

    def run(reference: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Slope of I along the pull, and I after the flow over I before, for every draw."""
        target = np.zeros((1, 1, 1)) if reference is None else reference
        per_draw = np.broadcast_to(target, (count, *target.shape[1:]))

        def one(x: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
            objective = entropy if reference is None else pull(jnp.broadcast_to(target, x.shape))
            return slopes(objective)(x), information(flow(objective, x)) / information(x)

        slope, ratio = jax.jit(jax.vmap(one))(logits, per_draw)
        return np.asarray(slope), np.asarray(ratio)

    template_gap = jax.vmap(
        lambda x, q: (
            mean_divergence(jax.nn.softmax(x), jax.nn.softmax(jnp.broadcast_to(q, x.shape)))
            - information(x)
            - mean_divergence(jnp.mean(jax.nn.softmax(x), axis=0, keepdims=True), jax.nn.softmax(q))
        )
    )(logits, collapsed)
    uniform = jax.vmap(lambda x: jax.grad(entropy)(x) - jax.grad(pull(jnp.zeros_like(x)))(x))(logits)
    score = jax.vmap(lambda x: jax.grad(score_form)(x) - jax.grad(information)(x))(logits)
    fixed = jax.vmap(jax.grad(fixed_samples))(logits)
    k1 = jax.vmap(jax.grad(k1_loss))(logits, np.broadcast_to(collapsed, logits.shape))
    how = f"{count} policies of {prompts} prompts, exact"
    findings = [
        identity("KL to a template", "E KL(p || q) = I + KL(p(z) || q)", how, np.asarray(template_gap), "q without x"),
        identity("entropy is such a KL", "grad H(Z|X) = -grad E KL(p || uniform)", how, np.asarray(uniform), ""),
        identity("gradient of I", "grad I = E[log(p / m) s]", how, np.asarray(score), "the probe's direction"),
        identity("fixed samples", "E grad(matched - marginal) = 0", how, np.asarray(fixed), "z held fixed: only noise"),
        identity("k1 as a loss", "E grad k1 = 0", how, np.asarray(k1), "z held fixed: only noise"),
    ]
    arms = (
        ("entropy bonus", None, "I falls at first order"),
        ("KL to a template", collapsed, "I falls at first order"),
        ("KL to an informed policy", informed, "I rises at first order"),
    )
    for name, reference, statement in arms:
        slope, ratio = run(reference)
        against = slope > 0 if "falls" in statement else slope < 0
        note = f"share as stated; after 2,000 steps I is {np.median(ratio):.2g} times what it was (median)"
        share = float(1 - against.mean())
        findings.append(Finding(f"flow: {name}", statement, how, MEASURED, count, int(against.sum()), share, note))
    return findings
