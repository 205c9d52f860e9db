"""Statements about gradients, their noise and their sum: appendices H, J, K and N."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from experiments._theory_draws import (
    NOISES,
    draw_bystanders,
    draw_prompts,
    enumerate_bernoulli_groups,
    enumerate_groups,
    estimates,
    softmax,
)
from experiments._theory_finding import FAILS, HOLDS, MEASURED, Finding, identity, inequality
from ragen_jax.core import bounds
from ragen_jax.core.bounds import PromptFacts, prompt_facts

GROUP = 8


def _facts(rng: np.random.Generator, draws: int, noises: tuple[str, ...]) -> list[PromptFacts]:
    sets = [(noise, draws // len(noises)) for noise in noises]
    found = [prompt_facts(*prompts) for noise, count in sets for prompts in draw_prompts(rng, count=count, noise=noise)]
    return [jax.tree.map(np.asarray, facts) for facts in found]


def gradient_bound(rng: np.random.Generator, draws: int) -> list[Finding]:
    """Appendix H.3."""
    facts = _facts(rng, draws, NOISES)
    norms, right = [f.gradient_norm for f in facts], [np.asarray(bounds.gradient_bound(f)) for f in facts]
    sharper = [np.sqrt(f.signal_variance * f.score_square) for f in facts]
    how = "random log-linear policies, exact sums"
    return [
        inequality("H.3 gradient", "|g| <= sqrt(RV E|s|^2)", how, norms, right, "left / right", HOLDS),
        inequality("H.3 sharper", "|g| <= sqrt(Var(mu) E|s|^2)", how, norms, sharper, "noise adds nothing", HOLDS),
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
        inequality("H.4 printed", "SNR <= sqrt(G RV) / sigma", f"{how}, equal noise", exact, printed, "", HOLDS),
        inequality(
            "H.4 printed is blind",
            "sqrt(G RV) / sigma >= sqrt(G)",
            "the same draws",
            root,
            printed,
            f"the exact SNR is below 0.1 in {weak:.0%} of them, the bound never below {np.sqrt(GROUP):.2f}",
            HOLDS,
        ),
        inequality(
            "H.4 printed, unequal noise",
            "SNR <= sqrt(G RV) / sigma",
            f"{how}, noise only on a response whose score is nearly 0",
            *both(bystander, bounds.snr_bound_printed),
            "SNR / bound of the worst case",
            FAILS,
        ),
        inequality(
            "H.4 sharp",
            "SNR <= sqrt(G Var(mu)) / sigma_eff",
            f"{how}, any noise",
            *both(every, bounds.snr_bound),
            "left / right",
            HOLDS,
        ),
        inequality(
            "H.4 plain sigma",
            "SNR <= sqrt(G Var(mu)) / sigma",
            f"{how}, 0/1 rewards",
            *both(bernoulli, bounds.snr_bound_plain),
            "SNR / bound of the worst case",
            FAILS,
        ),
        inequality(
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
        inequality(
            "N floor",
            "error >= (1/G) sigma_eff^2 / RV E|s|^2",
            how,
            *pair(every, bounds.grpo_floor),
            "floor / error",
            HOLDS,
        ),
        inequality(
            "N floor, plain sigma",
            "error >= (1/G) sigma^2 / RV E|s|^2",
            f"{how}, 0/1 rewards",
            *pair(bernoulli, bounds.grpo_floor_plain),
            "floor / error of the worst case",
            FAILS,
        ),
        inequality(
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
    return inequality(
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
        identity("closed forms", "E g_hat = g, Var = sample_variance / G", f"{how}, G=3", np.array(errors), "exact b"),
        identity("group-mean baseline", "E g_hat = (1 - 1/G) g", f"{how}, G=3", np.array(shrinks), "shrinks, no bias"),
        identity(
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
        inequality(
            "K.2 dominance",
            "ratio >= |g_reg| / (|g_reg| + sqrt(RV E|s|^2))",
            "random |g_reg|, exact sums",
            floors,
            ratios,
            "right / left",
            HOLDS,
        ),
        inequality(
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
    deviations = _kept_mean_deviations(rng)
    found = _halved_batches(rng, draws)

    def share(claim: str, statement: str, method: str, expected: str, count: int, note: str) -> Finding:
        return Finding(claim, statement, method, expected, found.total, found.total - count, count / found.total, note)

    return [
        identity(
            "J.2 error",
            "error = sum_kept v_i / k^2",
            "all outcomes of two kept prompts, chosen beforehand",
            deviations,
            "only the kept prompts' noise counts",
        ),
        share(
            "J.2 consequence",
            "dropping the low-RV half lowers the error of the mean gradient",
            "batches of 8 prompts, A = R - b",
            FAILS,
            found.lower,
            "share of batches in which it does: low RV means low noise too, and the mean has fewer terms",
        ),
        share(
            "J.2 consequence, normalised",
            "the same with A = (R - b) / sqrt(RV)",
            "the same batches",
            FAILS,
            found.lower_normalised,
            "share of batches in which it does",
        ),
        share(
            "J.2 what it may do",
            "dropping the low-RV half raises |mean gradient| / rms error",
            "the same batches",
            MEASURED,
            found.better,
            "share of batches in which it does, for unrelated prompts",
        ),
    ]


def _kept_mean_deviations(rng: np.random.Generator) -> np.ndarray:
    """Exact error of the mean over two kept prompts of three, less what the formula says, [20]."""
    deviations = []
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
    return np.array(deviations)


class Halved(NamedTuple):
    """Batches of 8 prompts whose half with the lower reward variance is dropped: in how many that helps.

    Attributes:
      lower: the error of the mean gradient falls.
      lower_normalised: the same where advantages are divided by the standard deviation.
      better: the length of the mean gradient over its error rises.
      total: batches.
    """

    lower: int
    lower_normalised: int
    better: int
    total: int


def _halved_batches(rng: np.random.Generator, draws: int) -> Halved:
    lower, lower_normalised, better, total = 0, 0, 0, 0
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
    return Halved(lower, lower_normalised, better, total)


def drift(rng: np.random.Generator, draws: int) -> list[Finding]:
    """Appendix H.5: rewards that are noise only, plain gradient steps on a softmax over four responses."""
    runs, steps, rate = max(draws, 500), 256, 0.05
    theta, moved = np.zeros((runs, 4)), []
    predicted = np.zeros(runs)
    for _ in range(steps):
        p = softmax(theta)
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
