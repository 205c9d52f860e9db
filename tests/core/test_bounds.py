"""Exact quantities of finite policies against the oracle, and a search for counter-examples to what is claimed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.core import bounds
from ragen_jax.core.bounds import mutual_information, prompt_facts
from tests.oracles import theory

SEEDS = st.integers(0, 2**32 - 1)
SEARCH = settings(max_examples=25, deadline=None)


def prompt(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, scores, means, noise variances: any sizes, any scale, noise of any shape."""
    rng = np.random.default_rng(seed)
    responses, width = rng.integers(2, 7), rng.integers(1, 5)
    p = rng.dirichlet(np.full(responses, np.exp(rng.uniform(-1, 2))))
    features = rng.normal(size=(responses, width)) * np.exp(rng.uniform(-2, 2, (responses, 1)))
    means = rng.normal(size=responses) * np.exp(rng.uniform(-4, 2))
    noises = np.exp(rng.uniform(-8, 3, responses))
    return p, features - p @ features, means, noises


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@given(SEEDS)
@SEARCH
def test_facts_equal_the_oracle(seed: int):
    arrays = prompt(seed)
    found, expected = prompt_facts(*arrays), theory.facts(*arrays)
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-9, atol=1e-12, err_msg=name)


@given(SEEDS, st.integers(1, 32))
@SEARCH
def test_no_counter_example_to_the_bounds(seed: int, group: int):
    facts = prompt_facts(*prompt(seed))
    slack = 1 + 1e-9
    assert facts.gradient_norm <= bounds.gradient_bound(facts) * slack
    assert facts.gradient_norm <= jnp.sqrt(facts.signal_variance * facts.score_square) * slack
    assert bounds.snr_exact(facts, group_size=group) <= bounds.snr_bound(facts, group_size=group) * slack
    assert bounds.snr_bound_printed(facts, group_size=group) * slack >= np.sqrt(group)
    assert bounds.grpo_floor(facts, group_size=group) <= bounds.grpo_error(facts, group_size=group) * slack
    regulariser = 0.3
    dominance = regulariser / (regulariser + facts.gradient_norm)
    assert bounds.dominance_bound(facts, regulariser) <= dominance * slack


@given(SEEDS)
@SEARCH
def test_no_counter_example_under_equal_noise(seed: int):
    p, s, means, noises = prompt(seed)
    facts = prompt_facts(p, s, means, np.full_like(noises, noises[0]))
    for bound in (bounds.snr_bound_plain, bounds.snr_bound_printed):
        assert bounds.snr_exact(facts, group_size=8) <= bound(facts, group_size=8) * (1 + 1e-9)
    np.testing.assert_allclose(facts.effective_noise, facts.noise_variance, rtol=1e-9)


def test_plain_sigma_fails_with_rewards_of_zero_and_one():
    """Noise of 0/1 rewards is mu (1 - mu), so it is not the same for every response; sigma_eff is what holds."""
    rng = np.random.default_rng(0)
    p, means = rng.dirichlet(np.ones(4), 300), rng.beta(0.3, 0.3, (300, 4))
    features = rng.normal(size=(300, 4, 2)) * np.exp(rng.uniform(-1, 1, (300, 4, 1)))
    scores = features - np.einsum("nz,nzd->nd", p, features)[:, None]
    facts = prompt_facts(p, scores, means, means * (1 - means))
    exact, error = bounds.snr_exact(facts, group_size=8), bounds.grpo_error(facts, group_size=8)
    assert (exact > 1.1 * bounds.snr_bound_plain(facts, group_size=8)).any()
    assert (bounds.grpo_floor_plain(facts, group_size=8) > 1.1 * error).any()
    assert (exact <= bounds.snr_bound(facts, group_size=8) * (1 + 1e-9)).all()
    assert (bounds.grpo_floor(facts, group_size=8) <= error * (1 + 1e-9)).all()


def test_the_printed_bound_fails_where_the_noise_has_no_score():
    p, s = np.array([0.45, 0.45, 0.1]), np.array([[1.0], [-1.0], [0.0]])
    facts = prompt_facts(p, s, np.array([1.0, -1.0, 0.0]), np.array([0.0, 0.0, 10.0]))
    np.testing.assert_allclose(bounds.snr_exact(facts, group_size=1), 3.0)  # A s is 1, or 0 with probability 0.1
    np.testing.assert_allclose(bounds.snr_bound_printed(facts, group_size=1), np.sqrt(1.9))


def test_two_responses_reach_the_gradient_bound():
    p = np.array([0.3, 0.7])
    facts = prompt_facts(p, (np.eye(2) - p)[:, :1], np.array([1.0, 0.0]), np.zeros(2))
    np.testing.assert_allclose(facts.gradient_norm, bounds.gradient_bound(facts))
    facts = prompt_facts(p, (np.eye(2) - p)[:, :1], np.array([1.0, 0.0]), np.ones(2))
    assert facts.gradient_norm < 0.6 * bounds.gradient_bound(facts)


def test_snr_grows_with_the_signal():
    p, s, means, noises = prompt(7)
    values = [float(bounds.snr_exact(prompt_facts(p, s, k * means, noises), group_size=8)) for k in (0.1, 1.0, 10.0)]
    assert values == sorted(values) and values[2] > 2 * values[0]


@given(SEEDS)
@SEARCH
def test_mutual_information_and_its_bounds(seed: int):
    rng = np.random.default_rng(seed)
    prompts, responses = rng.integers(2, 6), rng.integers(2, 7)
    channel, other = (rng.dirichlet(np.full(responses, 0.4), size=prompts) + 1e-6 for _ in range(2))
    channel, other = channel / channel.sum(1, keepdims=True), other / other.sum(1, keepdims=True)
    information = float(mutual_information(channel))
    np.testing.assert_allclose(information, theory.mutual_information(channel), rtol=1e-9, atol=1e-12)
    assert -1e-12 <= information <= np.log(prompts) + 1e-12
    template, alpha = rng.dirichlet(np.ones(responses)), rng.uniform()
    mixed = mutual_information(bounds.mixed_with_template(channel, template, alpha))
    assert mixed <= (1 - alpha) * information + 1e-12
    divergence = bounds.mean_divergence(channel, other)
    change = abs(information - float(mutual_information(other)))
    assert change <= bounds.mi_change_bound(divergence, prompts=prompts) + 1e-12


def test_a_policy_at_the_ends_of_mutual_information():
    assert mutual_information(jnp.eye(4)) == pytest.approx(np.log(4))
    assert mutual_information(jnp.full((4, 3), 1 / 3)) == pytest.approx(0, abs=1e-15)
    assert bounds.mi_change_bound(jnp.array(0.0), prompts=8) == 0
    assert bounds.mi_change_bound(jnp.array(50.0), prompts=8) == pytest.approx(np.log(8))


def test_the_error_of_a_mean_counts_the_kept_only():
    noise, keep = np.array([4.0, 2.0, 100.0]), np.array([True, True, False])
    assert bounds.mean_estimate_error(noise, keep) == 1.5
    assert bounds.mean_estimate_error(noise, np.zeros(3, bool)) == 0
