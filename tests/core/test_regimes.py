"""Planted policies of every kind are named; the map says when it cannot tell."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest
from scipy import stats

from ragen_jax import core
from ragen_jax.core.regimes import MEASURES, REGIMES, UNCERTAIN
from ragen_jax.types import CrossScores

PROMPTS, GROUP, SYMBOLS, SEEDS = 16, 16, 64, 200
EACH = SYMBOLS // PROMPTS  # symbols that one prompt has to itself

classify_regime = jax.jit(core.classify_regime)


def channel(kind, rng):
    """p(z | x), [P, Z]: which of 64 reasonings a policy of this kind gives under each prompt."""
    p = np.full((PROMPTS, SYMBOLS), 1e-4)
    for prompt in range(PROMPTS):
        own = slice(prompt * EACH, (prompt + 1) * EACH)
        if kind in ("diverse_reasoning", "format_collapse"):
            p[prompt, own] = rng.dirichlet(np.full(EACH, 5.0))
        elif kind == "compressed_reasoning":
            p[prompt, own.start] = 1.0
        elif kind == "template_collapse":
            p[prompt] = rng.dirichlet(np.full(SYMBOLS, 50.0))
        else:
            p[prompt, 0] = 1.0
    return p / p.sum(axis=1, keepdims=True)


# valid replies and success of each kind
SHARES = {
    "diverse_reasoning": (0.97, 0.5),
    "template_collapse": (0.98, 0.2),
    "compressed_reasoning": (0.97, 0.6),
    "low_entropy_collapse": (0.97, 0.1),
    "format_collapse": (0.1, 0.1),
    "converged": (0.99, 0.97),
}


def planted(kind, rng):
    """Cross scores of one batch, and the number of its successes."""
    p = channel(kind, rng)
    symbols = np.stack([rng.choice(SYMBOLS, GROUP, p=row) for row in p])
    valid, success = SHARES[kind]
    return np.log(p).T[symbols].astype(np.float32), rng.random((PROMPTS, GROUP)) < valid, rng.random(256) < success


@jax.jit
@jax.vmap
def verdict_of(log_probs, valid, success):
    scores = CrossScores(
        log_probs=log_probs,
        lengths=np.ones((PROMPTS, GROUP), np.int32),
        valid=valid,
        column_class=np.arange(PROMPTS, dtype=np.int32),
    )
    ceiling = np.log(PROMPTS)
    start = np.log(EACH)  # H(Z|X) of the diverse policy that the run began with, about
    return core.classify_regime(
        mi_share=jax.tree.map(lambda x: x / ceiling, core.batch_mi_interval(scores)),
        entropy_share=jax.tree.map(lambda x: x / start, core.conditional_entropy_interval(scores)),
        validity=core.proportion_interval(valid.sum(), valid.size),
        success=core.proportion_interval(success.sum(), success.size),
    )


def test_confusion_matrix_of_planted_policies():
    for truth, kind in enumerate(REGIMES):
        batches = [planted(kind, np.random.default_rng([truth, seed])) for seed in range(SEEDS)]
        found = np.asarray(verdict_of(*map(np.stack, zip(*batches, strict=True))).regime)
        confusion = np.bincount(np.where(found < 0, len(REGIMES), found), minlength=len(REGIMES) + 1) / SEEDS
        assert confusion[truth] >= 0.95, (kind, dict(zip([*REGIMES, "uncertain"], confusion, strict=True)))


def interval(estimate, error):
    return core.Interval(estimate=estimate, low=estimate - 2 * error, high=estimate + 2 * error, std_error=error)


def at(mi=0.9, entropy=1.0, validity=0.95, success=0.5, error=0.05):
    return classify_regime(
        mi_share=interval(mi, error),
        entropy_share=interval(entropy, error),
        validity=interval(validity, error),
        success=interval(success, error),
    )


@pytest.mark.parametrize(
    ("values", "regime", "driver"),
    [
        ({}, "diverse_reasoning", None),
        ({"mi": 0.1}, "template_collapse", "mutual_information"),
        ({"entropy": 0.1}, "compressed_reasoning", "entropy"),
        ({"mi": 0.2, "entropy": 0.0}, "low_entropy_collapse", "entropy"),
        ({"mi": 0.0, "entropy": 0.2}, "low_entropy_collapse", "mutual_information"),
        ({"mi": 0.0, "entropy": 0.0, "validity": 0.1}, "format_collapse", "validity"),
        ({"mi": 0.3, "entropy": 0.3, "success": 1.0}, "converged", "mutual_information"),
        ({"mi": 0.35, "entropy": 0.35, "success": 1.0}, "converged", "success"),
    ],
)
def test_regime_and_what_drove_it(values, regime, driver):
    verdict = at(**values)
    assert REGIMES[int(verdict.regime)] == regime
    assert (MEASURES[int(verdict.driver)] if int(verdict.driver) >= 0 else None) == driver


def test_an_interval_across_a_threshold_is_uncertain_and_names_the_measure():
    for name, measure in (("mi", "mutual_information"), ("entropy", "entropy"), ("validity", "validity")):
        verdict = at(**{name: 0.52})
        assert int(verdict.regime) == UNCERTAIN and MEASURES[int(verdict.driver)] == measure
    # Success decides only where information and entropy are both low.
    assert int(at(success=0.8).regime) == REGIMES.index("diverse_reasoning")
    verdict = at(mi=0.1, entropy=0.1, success=0.8)
    assert int(verdict.regime) == UNCERTAIN and MEASURES[int(verdict.driver)] == "success"


def test_probabilities_are_products_of_normal_tails():
    for mi, entropy, validity, success in itertools.product((0.4, 0.6), (0.45, 0.55), (0.5, 0.9), (0.7, 0.9)):
        m, h, v, s = (
            stats.norm.cdf((x - t) / 0.1)
            for x, t in zip((mi, entropy, validity, success), (0.5, 0.5, 0.5, 0.8), strict=True)
        )
        low = v * (1 - m) * (1 - h)
        expected = [v * m * h, v * (1 - m) * h, v * m * (1 - h), low * (1 - s), 1 - v, low * s]
        found = at(mi, entropy, validity, success, error=0.1).probabilities
        np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(np.sum(found), 1.0, atol=1e-5)


def test_without_error_the_side_decides():
    assert int(at(mi=0.5, error=0.0).regime) == REGIMES.index("diverse_reasoning")
    assert int(at(mi=0.499, error=0.0).regime) == REGIMES.index("template_collapse")


def test_thresholds_are_arguments():
    sure = interval(0.6, 0.01)
    verdict = core.classify_regime(mi_share=sure, entropy_share=sure, validity=sure, success=sure, low_mi=0.7)
    assert REGIMES[int(verdict.regime)] == "template_collapse"
    with pytest.raises(ValueError, match=r"confidence=0.5"):
        core.classify_regime(mi_share=sure, entropy_share=sure, validity=sure, success=sure, confidence=0.5)


@pytest.mark.parametrize("unknown", ["mi_share", "entropy_share"])
def test_an_unknown_measure_is_no_certainty(unknown):
    sure = {
        name: core.Interval(*np.float32([value, value, value, 0.01]))
        for name, value in (("mi_share", 0.1), ("entropy_share", 1.2), ("validity", 0.98), ("success", 0.2))
    }
    assert core.REGIMES[int(core.classify_regime(**sure).regime)] == "template_collapse"
    nothing = core.Interval(*np.float32([0.0, np.nan, np.nan, np.nan]))
    verdict = core.classify_regime(**sure | {unknown: nothing})
    assert int(verdict.regime) == -1 and core.MEASURES[int(verdict.driver)].startswith(unknown[:2].replace("mi", "mu"))
    np.testing.assert_allclose(np.sum(verdict.probabilities), 1.0, rtol=1e-5)
