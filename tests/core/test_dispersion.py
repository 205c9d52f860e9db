from __future__ import annotations

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core

compiled = jax.jit(core.variance_dispersion)


@given(hnp.arrays(np.float32, 6, elements=st.integers(0, 40).map(lambda n: n / 8)))
def test_agrees_with_leaving_out_by_hand(variances):
    def ratio(x):
        x = x.astype(np.float64)
        return x.std(ddof=1) / x.mean() if x.any() else 0.0

    interval = compiled(variances)
    replicates = [ratio(np.delete(variances, c)) for c in range(6)]
    error = np.sqrt(5 / 6 * np.square(np.subtract(replicates, np.mean(replicates))).sum())
    np.testing.assert_allclose(interval.estimate, ratio(variances), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(interval.std_error, error, rtol=1e-3, atol=1e-5)


def test_scale_cancels():
    variances = np.array([0.1, 0.4, 0.2, 0.9], np.float32)
    np.testing.assert_allclose(
        np.array(core.variance_dispersion(100 * variances)), np.array(core.variance_dispersion(variances)), rtol=1e-5
    )


def test_flat_batches_have_none():
    assert np.array(core.variance_dispersion(np.zeros(8, np.float32))).tolist() == [0.0] * 4


def test_two_prompts_are_refused():
    with pytest.raises(ValueError, match="2 prompts"):
        core.variance_dispersion(np.ones(2, np.float32))


def variances(rng, kind, prompts=128):
    """Unbiased variances of groups of 16 from prompts of three kinds."""
    if kind == "few teach":  # one prompt in eight can be won and lost
        rates = np.where(rng.random(prompts) < 1 / 8, 0.5, 0.0)
        return (rng.random((prompts, 16)) < rates[:, None]).astype(np.float32).var(axis=1, ddof=1)
    if kind == "alike":
        return rng.normal(1.0, 1.0, (prompts, 64)).var(axis=1, ddof=1).astype(np.float32)
    return rng.gamma(2.0, 0.1, prompts).astype(np.float32)  # dispersion about 0.7, where nothing was measured


@pytest.mark.parametrize(("kind", "verdict"), [("few teach", "helps"), ("alike", "hurts"), ("in between", "undecided")])
def test_preflight_verdict_of_planted_prompts(kind, verdict):
    found = [core.preflight_verdict(variances(np.random.default_rng(seed), kind)).verdict for seed in range(20)]
    assert found.count(verdict) == 20


def test_a_verdict_needs_the_whole_interval_beyond_the_measured_points():
    rng = np.random.default_rng(0)
    for scale in np.linspace(0.1, 2.5, 25):
        found = core.preflight_verdict(rng.gamma(1 / scale**2, 1.0, 64).astype(np.float32))
        low, high = float(found.dispersion.low), float(found.dispersion.high)
        expected = "helps" if low >= 1.16 else "hurts" if high <= 0.33 else "undecided"
        assert found.verdict == expected


def test_without_variance_nothing_is_decided():
    assert core.preflight_verdict(np.zeros(64, np.float32)).verdict == "undecided"


def test_preflight_refusals():
    with pytest.raises(ValueError, match="63 prompts"):
        core.preflight_verdict(np.ones(63, np.float32))
    for value in (np.nan, -0.5):
        broken = np.ones(64, np.float32)
        broken[5] = value
        with pytest.raises(ValueError, match=f"prompt 5 is {value}"):
            core.preflight_verdict(broken)


def test_the_interval_of_the_dispersion_covers():
    truth = np.sqrt(1 / 4.0)  # std / mean of a gamma distribution of shape 4
    draws = np.random.default_rng(1).gamma(4.0, 1.0, (1000, 128)).astype(np.float32)
    found = jax.jit(jax.vmap(core.variance_dispersion))(draws)
    covered = (np.asarray(found.low) <= truth) & (truth <= np.asarray(found.high))
    assert 0.9 <= covered.mean() <= 0.97
