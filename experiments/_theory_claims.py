"""The statements of the theory, one function each: what is claimed, how it was checked, what came out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments._theory_draws import (
    NOISES,
    draw_bystanders,
    draw_channels,
    draw_prompts,
    enumerate_bernoulli_groups,
    enumerate_groups,
    estimates,
)
from ragen_jax.core import bounds
from ragen_jax.core.bounds import PromptFacts, mean_divergence, mutual_information, prompt_facts

ROUNDING = 1e-9  # relative, for float64
GROUP = 8
HOLDS, FAILS, MEASURED = "holds", "fails", "measured"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the table.

    Attributes:
      claim: short name.
      statement: the inequality or identity.
      method: how it was checked.
      expected: "holds" (a violation is an error), "fails" (a counter-example must be found) or "measured".
      draws: cases looked at.
      violations: cases in which the statement was false.
      tightest: of an inequality the largest left / right among the cases that hold, of an identity the largest
        deviation, of a failure the worst case; what it is stands in ``note``.
      note: in words.
    """

    claim: str
    statement: str
    method: str
    expected: str
    draws: int
    violations: int
    tightest: float
    note: str

    @property
    def as_expected(self) -> bool:
        """False when a statement that must hold was violated, or no counter-example was found where one exists."""
        return self.expected == MEASURED or (self.violations > 0) == (self.expected == FAILS)


def _facts(rng: np.random.Generator, draws: int, noises: tuple[str, ...]) -> list[PromptFacts]:
    sets = [(noise, draws // len(noises)) for noise in noises]
    found = [prompt_facts(*prompts) for noise, count in sets for prompts in draw_prompts(rng, count=count, noise=noise)]
    return [jax.tree.map(np.asarray, facts) for facts in found]


def _inequality(
    claim: str, statement: str, method: str, low: list[Any], high: list[Any], note: str, expected: str
) -> Finding:
    """``low <= high`` up to rounding."""
    small, large = np.concatenate([np.ravel(x) for x in low]), np.concatenate([np.ravel(x) for x in high])
    wrong = ~(small <= large * (1 + ROUNDING) + 1e-14)  # NaN counts as a violation
    ratio = small / np.maximum(large, 1e-300)
    tightest = float(ratio.max()) if expected == FAILS else float(ratio[~wrong].max(initial=0.0))
    return Finding(claim, statement, method, expected, len(small), int(wrong.sum()), tightest, note)


def _identity(claim: str, statement: str, method: str, deviations: np.ndarray, note: str) -> Finding:
    size = np.abs(deviations)
    return Finding(claim, statement, method, HOLDS, size.size, int((~(size <= 1e-9)).sum()), float(size.max()), note)


def gradient_bound(rng: np.random.Generator, draws: int) -> list[Finding]:
    """Appendix H.3."""
    facts = _facts(rng, draws, NOISES)
    norms, right = [f.gradient_norm for f in facts], [np.asarray(bounds.gradient_bound(f)) for f in facts]
    sharper = [np.sqrt(f.signal_variance * f.score_square) for f in facts]
    how = "random log-linear policies, exact sums"
    return [
        _inequality("H.3 gradient", "|g| <= sqrt(RV E|s|^2)", how, norms, right, "left / right", HOLDS),
        _inequality("H.3 sharper", "|g| <= sqrt(Var(mu) E|s|^2)", how, norms, sharper, "noise adds nothing", HOLDS),
    ]


def snr_bounds(rng: np.random.Generator, draws: int) -> list[Finding]:
    """Appendix H.4, as printed and as it holds."""
    equal, every = _facts(rng, draws, ("equal",)), _facts(rng, draws, NOISES)
    bernoulli, bystander = _facts(rng, draws, ("bernoulli",)), [prompt_facts(*draw_bystanders(rng, count=draws))]

    def both(facts: list[PromptFacts], bound: Callable) -> tuple[list[np.ndarray], list[np.ndarray]]:
        exact = [np.asarray(bounds.snr_exact(f, group_size=GROUP)) for f in facts]
        return exact, [np.asarray(bound(f, group_size=GROUP)) for f in facts]

    exact, printed = both(equal, bounds.snr_bound_printed)
    root = [np.full_like(x, np.sqrt(GROUP)) for x in printed]
    how, weak = f"exact SNR of G={GROUP} rollouts", float(np.mean(np.concatenate(exact) < 0.1))
    return [
        _inequality("H.4 printed", "SNR <= sqrt(G RV) / sigma", f"{how}, equal noise", exact, printed, "", HOLDS),
        _inequality(
            "H.4 printed is blind",
            "sqrt(G RV) / sigma >= sqrt(G)",
            "the same draws",
            root,
            printed,
            f"the exact SNR is below 0.1 in {weak:.0%} of them, the bound never below {np.sqrt(GROUP):.2f}",
            HOLDS,
        ),
        _inequality(
            "H.4 printed, unequal noise",
            "SNR <= sqrt(G RV) / sigma",
            f"{how}, noise only on a response whose score is nearly 0",
            *both(bystander, bounds.snr_bound_printed),
            "SNR / bound of the worst case",
            FAILS,
        ),
        _inequality(
            "H.4 sharp",
            "SNR <= sqrt(G Var(mu)) / sigma_eff",
            f"{how}, any noise",
            *both(every, bounds.snr_bound),
            "left / right",
            HOLDS,
        ),
        _inequality(
            "H.4 plain sigma",
            "SNR <= sqrt(G Var(mu)) / sigma",
            f"{how}, 0/1 rewards",
            *both(bernoulli, bounds.snr_bound_plain),
            "SNR / bound of the worst case",
            FAILS,
        ),
        _inequality(
            "H.4 equal noise",
            "SNR <= sqrt(G Var(mu)) / sigma",
            f"{how}, equal noise",
            *both(equal, bounds.snr_bound_plain),
            "left / right",
            HOLDS,
        ),
    ]


def grpo_floor(rng: np.random.Generator, draws: int) -> list[Finding]:
    """Appendix N."""
    every, equal = _facts(rng, draws, NOISES), _facts(rng, draws, ("equal",))
    bernoulli = _facts(rng, draws, ("bernoulli",))

    def pair(facts: list[PromptFacts], floor: Callable) -> tuple[list[np.ndarray], list[np.ndarray]]:
        floors = [np.asarray(floor(f, group_size=GROUP)) for f in facts]
        return floors, [np.asarray(bounds.grpo_error(f, group_size=GROUP)) for f in facts]

    shares = [np.asarray(f.effective_noise / f.reward_variance) for f in equal]
    how = "exact error with exact baseline and RV"
    return [
        _inequality(
            "N floor",
            "error >= (1/G) sigma_eff^2 / RV E|s|^2",
            how,
            *pair(every, bounds.grpo_floor),
            "floor / error",
            HOLDS,
        ),
        _inequality(
            "N floor, plain sigma",
            "error >= (1/G) sigma^2 / RV E|s|^2",
            f"{how}, 0/1 rewards",
            *pair(bernoulli, bounds.grpo_floor_plain),
            "floor / error of the worst case",
            FAILS,
        ),
        _inequality(
            "N floor is bounded",
            "sigma^2 / RV <= 1",
            "equal noise",
            shares,
            [np.ones_like(x) for x in shares],
            "RV contains sigma^2: the floor cannot grow as 1 / RV",
            HOLDS,
        ),
        _grpo_with_group_statistics(rng),
    ]


def _grpo_with_group_statistics(rng: np.random.Generator) -> Finding:
    """The estimator as trained: mean and unbiased standard deviation of its own group, every outcome enumerated."""
    floors, errors = [], []
    for _ in range(60):
        p, mu = rng.dirichlet(np.ones(3)), rng.beta(0.3, 0.3, 3)
        s = np.eye(3) - p
        outcomes = enumerate_bernoulli_groups(p, s, mu, group=4)
        centred = outcomes.rewards - outcomes.rewards.mean(axis=1, keepdims=True)
        std = outcomes.rewards.std(axis=1, ddof=1, keepdims=True)
        _, variance = estimates(outcomes, np.divide(centred, std, out=np.zeros_like(centred), where=std > 0))
        facts = prompt_facts(p, s, mu, mu * (1 - mu))
        floors.append(np.asarray(bounds.grpo_floor(facts, group_size=4)))
        errors.append(np.array(variance))
    return _inequality(
        "N floor, group statistics",
        "variance >= (1/G) sigma_eff^2 / RV E|s|^2",
        "all outcomes of G=4, 0/1 rewards, mean and std of the group",
        floors,
        errors,
        "flat groups give exactly 0: the floor does not hold for GRPO as it is trained",
        FAILS,
    )


def enumeration(rng: np.random.Generator, draws: int) -> list[Finding]:
    """The closed forms against every outcome, and what the group mean as baseline changes."""
    errors, shrinks, flats = [], [], []
    for _ in range(max(draws // 40, 10)):
        p, mu, noise = rng.dirichlet(np.ones(3)), rng.normal(size=3), np.exp(rng.uniform(-4, 1, 3))
        s = np.eye(3) - p
        facts = prompt_facts(p, s, mu, noise)
        outcomes = enumerate_groups(p, s, mu, noise, group=3)
        mean, variance = estimates(outcomes, outcomes.rewards - p @ mu)
        errors += [*(mean - np.asarray(facts.gradient)), variance - float(facts.sample_variance) / 3]
        centred = outcomes.rewards - outcomes.rewards.mean(axis=1, keepdims=True)
        shrinks += [*(estimates(outcomes, centred)[0] - (1 - 1 / 3) * np.asarray(facts.gradient))]
        success = rng.beta(0.5, 0.5, 3)
        outcomes = enumerate_bernoulli_groups(p, s, success, group=4)
        centred = outcomes.rewards - outcomes.rewards.mean(axis=1, keepdims=True)
        kept = outcomes.rewards.std(axis=1) > 0
        values = (centred[..., None] * outcomes.scores).mean(axis=1)
        chance = outcomes.weights[kept].sum()
        given_kept = outcomes.weights[kept] @ values[kept] / chance
        gradient = np.asarray(prompt_facts(p, s, success, success * (1 - success)).gradient)
        flats += [*(given_kept - (1 - 1 / 4) * gradient / chance)]
    how = "all outcomes of a group"
    return [
        _identity("closed forms", "E g_hat = g, Var = sample_variance / G", f"{how}, G=3", np.array(errors), "exact b"),
        _identity("group-mean baseline", "E g_hat = (1 - 1/G) g", f"{how}, G=3", np.array(shrinks), "shrinks, no bias"),
        _identity(
            "J selection by the same rewards",
            "E[g_hat | not flat] = (1 - 1/G) g / P(not flat)",
            f"{how}, G=4, 0/1 rewards",
            np.array(flats),
            "a filter on the batch's own rewards weighs prompts by 1 / P(kept): biased, in length only",
        ),
    ]


def dominance(rng: np.random.Generator, draws: int) -> list[Finding]:
    """Appendix K.2."""
    floors, ratios, faint = [], [], []
    for facts in _facts(rng, draws, NOISES):
        regulariser = np.exp(rng.uniform(-6, 3, facts.gradient_norm.shape))
        floors.append(np.asarray(bounds.dominance_bound(facts, regulariser)))
        ratios.append(regulariser / (facts.gradient_norm + regulariser))
        faint.append(1e-9 * facts.gradient_norm / (1e-9 * facts.gradient_norm + 1.0))
    return [
        _inequality(
            "K.2 dominance",
            "ratio >= |g_reg| / (|g_reg| + sqrt(RV E|s|^2))",
            "random |g_reg|, exact sums",
            floors,
            ratios,
            "right / left",
            HOLDS,
        ),
        _inequality(
            "K.2 limit",
            "ratio -> 1 as rewards are scaled to 0",
            "rewards times 1e-9",
            faint,
            [np.full_like(x, 1e-6) for x in faint],
            "1 - ratio, in units of 1e-6",
            HOLDS,
        ),
    ]


def filtered_error(rng: np.random.Generator, draws: int) -> list[Finding]:
    """Appendix J.2: errors of means over kept prompts, and whether dropping low-variance prompts lowers them."""
    deviations, lower, lower_normalised, better, total = [], 0, 0, 0, 0
    for _ in range(20):
        prompts = [(rng.dirichlet(np.ones(2)), rng.normal(size=2), np.exp(rng.uniform(-3, 1, 2))) for _ in range(3)]
        variances = [float(prompt_facts(p, np.eye(2) - p, mu, v).sample_variance) for p, mu, v in prompts]
        singles = [enumerate_groups(p, np.eye(2) - p, mu, v, group=1) for p, mu, v in prompts[:2]]
        values = [
            (o.rewards - p @ mu)[..., None] * o.scores for o, (p, mu, _) in zip(singles, prompts[:2], strict=True)
        ]
        mean = (values[0][:, None, 0] + values[1][None, :, 0]) / 2
        weights = singles[0].weights[:, None] * singles[1].weights[None]
        centre = (weights[..., None] * mean).sum(axis=(0, 1))
        error = float((weights * ((mean - centre) ** 2).sum(axis=-1)).sum())
        expected = float(bounds.mean_estimate_error(np.array(variances), np.array([True, True, False])))
        deviations.append(error - expected)
    for facts in _facts(rng, draws, NOISES):
        size = len(facts.reward_variance) // 8 * 8
        variance = facts.reward_variance[:size].reshape(-1, 8)
        noise = facts.sample_variance[:size].reshape(-1, 8) / GROUP
        gradient = facts.gradient[:size].reshape(*variance.shape, -1)
        keep = variance >= np.sort(variance, axis=1)[:, 4:5]
        masks = (keep, np.ones_like(keep))
        filtered, unfiltered = (np.asarray(bounds.mean_estimate_error(noise, mask)) for mask in masks)
        normalised = [np.asarray(bounds.mean_estimate_error(noise / variance, mask)) for mask in masks]
        signal = [np.linalg.norm((gradient * mask[..., None]).sum(1), axis=1) / mask.sum(1) for mask in masks]
        lower += int((filtered < unfiltered).sum())
        lower_normalised += int((normalised[0] < normalised[1]).sum())
        better += int((signal[0] / np.sqrt(filtered) > signal[1] / np.sqrt(unfiltered)).sum())
        total += len(variance)
    return [
        _identity(
            "J.2 error",
            "error = sum_kept v_i / k^2",
            "all outcomes of two kept prompts, chosen beforehand",
            np.array(deviations),
            "only the kept prompts' noise counts",
        ),
        Finding(
            "J.2 consequence",
            "dropping the low-RV half lowers the error of the mean gradient",
            "batches of 8 prompts, A = R - b",
            FAILS,
            total,
            total - lower,
            lower / total,
            "share of batches in which it does: low RV means low noise too, and the mean has fewer terms",
        ),
        Finding(
            "J.2 consequence, normalised",
            "the same with A = (R - b) / sqrt(RV)",
            "the same batches",
            FAILS,
            total,
            total - lower_normalised,
            lower_normalised / total,
            "share of batches in which it does",
        ),
        Finding(
            "J.2 what it may do",
            "dropping the low-RV half raises |mean gradient| / rms error",
            "the same batches",
            MEASURED,
            total,
            total - better,
            better / total,
            "share of batches in which it does, for unrelated prompts",
        ),
    ]


def drift(rng: np.random.Generator, draws: int) -> list[Finding]:
    """Appendix H.5: rewards that are noise only, plain gradient steps on a softmax over four responses."""
    runs, steps, rate = max(draws, 500), 256, 0.05
    theta, moved = np.zeros((runs, 4)), []
    predicted = np.zeros(runs)
    for _ in range(steps):
        p = np.exp(theta - theta.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        response = (p.cumsum(1) < rng.random((runs, 1))).sum(1).clip(max=3)
        score = np.eye(4)[response] - p
        theta = theta + rate * rng.normal(size=(runs, 1)) * score
        predicted += rate**2 * (score**2).sum(1)
        moved.append((theta**2).sum(1))
    squares = np.array(moved)
    gap = squares[-1] - predicted
    error = gap.std() / np.sqrt(runs)
    times = np.arange(1, steps + 1)
    slope = float(np.polyfit(np.log(times), 0.5 * np.log(squares.mean(axis=1)), 1)[0])
    z = abs(float(gap.mean() / error))
    return [
        Finding(
            "H.5 drift",
            "E|theta_T - theta_0|^2 = sum of mean squared steps",
            f"{runs} runs of {steps} steps",
            HOLDS,
            runs,
            int(z > 4),
            z,
            f"deviation in standard errors; the rms distance grows as T^{slope:.3f}, its square is linear in T",
        )
    ]


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
    return [_inequality("I mixing", "I_alpha <= (1 - alpha) I", how, left, right, "left / right", HOLDS)]


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
        _inequality(
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

    identity = jax.vmap(
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
        _identity("KL to a template", "E KL(p || q) = I + KL(p(z) || q)", how, np.asarray(identity), "q without x"),
        _identity("entropy is such a KL", "grad H(Z|X) = -grad E KL(p || uniform)", how, np.asarray(uniform), ""),
        _identity("gradient of I", "grad I = E[log(p / m) s]", how, np.asarray(score), "the probe's direction"),
        _identity(
            "fixed samples", "E grad(matched - marginal) = 0", how, np.asarray(fixed), "z held fixed: only noise"
        ),
        _identity("k1 as a loss", "E grad k1 = 0", how, np.asarray(k1), "z held fixed: only noise"),
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


CHECKS: tuple[Callable[[np.random.Generator, int], list[Finding]], ...] = (
    gradient_bound,
    snr_bounds,
    enumeration,
    grpo_floor,
    dominance,
    template_mixing,
    filtered_error,
    drift,
    closeness,
    attribution,
)
