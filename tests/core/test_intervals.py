from __future__ import annotations

import jax
import numpy as np
import pytest

from ragen_jax import core
from ragen_jax.types import CrossScores

PROMPTS, GROUP, SYMBOLS, REPETITIONS = 16, 16, 12, 1000


def make(log_probs, valid=None):
    columns, group, _ = log_probs.shape
    return CrossScores(
        log_probs=log_probs,
        lengths=np.ones((columns, group), np.int32),
        valid=np.ones((columns, group), bool) if valid is None else valid,
        column_class=np.arange(columns, dtype=np.int32),
    )


def channel(rng, prompts, concentration):
    return rng.dirichlet(np.full(SYMBOLS, concentration), prompts)


def information(p):
    """Exact information of a channel whose input is uniform over its rows, nats."""
    return float((p * np.log(p / p.mean(axis=0))).sum(axis=1).mean())


def sample(rng, p, group):
    """Cross scores [C, G, C] of reasonings of one symbol each."""
    symbols = np.stack([rng.choice(SYMBOLS, group, p=row) for row in p])
    return np.log(p).T[symbols].astype(np.float32)


@pytest.mark.parametrize("concentration", [0.5, 5.0])
def test_batch_interval_is_unbiased_and_covers(concentration):
    rng = np.random.default_rng(0)
    p = channel(rng, PROMPTS, concentration)
    truth = information(p)
    draws = np.stack([sample(rng, p, GROUP) for _ in range(REPETITIONS)])
    interval = jax.jit(jax.vmap(lambda x: core.batch_mi_interval(make(x))))(draws)
    estimates = np.asarray(interval.estimate, np.float64)
    error = estimates.std(ddof=1)
    assert abs(estimates.mean() - truth) < 3 * error / np.sqrt(REPETITIONS)
    np.testing.assert_allclose(np.mean(interval.std_error), error, rtol=0.1)
    covered = (np.asarray(interval.low) <= truth) & (truth <= np.asarray(interval.high))
    assert 0.93 <= covered.mean() <= 0.97


def test_jackknife_covers_the_mean_over_batches_of_this_size():
    rng = np.random.default_rng(1)
    draws, truths = [], []
    for _ in range(REPETITIONS):
        p = channel(rng, PROMPTS, 0.5)
        truths.append(information(p))
        draws.append(sample(rng, p, 4))
    interval = jax.jit(jax.vmap(lambda x: core.prompt_jackknife_mi(make(x))))(np.stack(draws))
    target = np.mean(truths)
    covered = (np.asarray(interval.low) <= target) & (target <= np.asarray(interval.high))
    assert 0.92 <= covered.mean() <= 0.98
    np.testing.assert_allclose(np.mean(interval.std_error), np.std(interval.estimate), rtol=0.1)


def test_jackknife_agrees_with_leaving_out_by_hand():
    rng = np.random.default_rng(2)
    log_probs = rng.normal(size=(5, 3, 5)).astype(np.float32)
    valid = rng.random((5, 3)) < 0.8
    interval = core.prompt_jackknife_mi(make(log_probs, valid))
    replicates = []
    for c in range(5):
        kept = [i for i in range(5) if i != c]
        metrics, _ = core.collapse_metrics(make(log_probs[kept][:, :, kept], valid[kept]))
        replicates.append(float(metrics["mi_sequence_nats"]))
    expected = np.sqrt(4 / 5 * np.square(np.subtract(replicates, np.mean(replicates))).sum())
    np.testing.assert_allclose(interval.std_error, expected, rtol=1e-4)
    whole, _ = core.collapse_metrics(make(log_probs, valid))
    np.testing.assert_allclose(interval.estimate, whole["mi_sequence_nats"], rtol=1e-5)


def test_rows_without_a_score_do_not_narrow_the_batch_interval():
    rng = np.random.default_rng(3)
    log_probs = rng.normal(size=(4, 6, 4)).astype(np.float32)
    valid = np.zeros((4, 6), bool)
    valid[:, :3] = True
    half = core.batch_mi_interval(make(log_probs, valid))
    alone = core.batch_mi_interval(make(log_probs[:, :3]))
    np.testing.assert_allclose(np.array(half), np.array(alone), rtol=1e-5)


def test_conditional_entropy_interval_is_unbiased_and_covers():
    rng = np.random.default_rng(5)
    p = channel(rng, PROMPTS, 2.0)
    truth = float(-(p * np.log(p)).sum(axis=1).mean()) / 4
    draws = np.stack([sample(rng, p, GROUP) for _ in range(REPETITIONS)])

    def estimate(log_probs):
        return core.conditional_entropy_interval(
            make(log_probs).replace(lengths=np.full((PROMPTS, GROUP), 4, np.int32))
        )

    interval = jax.jit(jax.vmap(estimate))(draws)
    covered = (np.asarray(interval.low) <= truth) & (truth <= np.asarray(interval.high))
    assert 0.93 <= covered.mean() <= 0.97
    np.testing.assert_allclose(np.mean(interval.estimate), truth, rtol=5e-3)


def test_a_proportion_is_never_certain():
    interval = core.proportion_interval(np.float32(16), np.float32(16))
    np.testing.assert_allclose(interval.estimate, 1.0)
    np.testing.assert_allclose(interval.std_error, np.sqrt((17 / 18) * (1 / 18) / 16), rtol=1e-5)
    nothing = core.proportion_interval(np.float32(0), np.float32(0))
    assert (float(nothing.estimate), float(nothing.std_error)) == (0.0, 0.5)
    rng = np.random.default_rng(6)
    hits = rng.binomial(256, 0.3, 1000).astype(np.float32)
    found = jax.vmap(core.proportion_interval)(hits, np.full(1000, 256, np.float32))
    covered = (np.asarray(found.low) <= 0.3) & (np.asarray(found.high) >= 0.3)
    assert 0.93 <= covered.mean() <= 0.97


def test_bootstrap_takes_its_indices_from_the_caller():
    values = np.array([0.0, 1.0, 2.0, 3.0], np.float32)
    indices = np.random.default_rng(4).integers(0, 4, (2000, 4))
    interval = core.bootstrap_interval(values, indices)
    means = values[indices].mean(axis=1)
    np.testing.assert_allclose([interval.low, interval.high], np.quantile(means, [0.025, 0.975]), rtol=1e-5)
    np.testing.assert_allclose(interval.estimate, 1.5)
    same = core.bootstrap_interval(values, np.zeros((3, 4), np.int32))
    assert (float(same.low), float(same.high)) == (0.0, 0.0)


def test_refusals_name_the_value():
    with pytest.raises(ValueError, match="2 prompts"):
        core.prompt_jackknife_mi(make(np.zeros((2, 1, 2), np.float32)))
    with pytest.raises(ValueError, match=r"confidence=1.5"):
        core.bootstrap_interval(np.zeros(2, np.float32), np.zeros((3, 2), np.int32), confidence=1.5)
