from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ragen_jax import core


def oracle(logits, token, temperature):
    scaled = np.asarray(logits, np.float64) / temperature
    log_probs = scaled - scaled.max() - np.log(np.exp(scaled - scaled.max()).sum())
    return log_probs[token], -(np.exp(log_probs) * log_probs).sum()


@pytest.mark.parametrize(("temperature", "expected"), [(0.5, -0.01815), (1.0, -0.12693)])
def test_c10_temperature_divides_the_logits(temperature, expected):
    log_prob, _ = core.log_probs_and_entropy(np.array([2.0, 0.0]), np.array(0), temperature=temperature)
    np.testing.assert_allclose(log_prob, expected, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 50.0, 1e4])
def test_agrees_with_float64(scale):
    rng = np.random.default_rng(0)
    logits = (scale * rng.normal(size=(2, 3, 11))).astype(np.float32)
    tokens = rng.integers(0, 11, (2, 3))
    log_probs, entropy = core.log_probs_and_entropy(logits, tokens, temperature=0.7)
    for index in np.ndindex(2, 3):
        expected = oracle(logits[index], tokens[index], 0.7)
        np.testing.assert_allclose(log_probs[index], expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(entropy[index], expected[1], rtol=1e-4, atol=1e-6)


def test_unused_vocabulary_rows_get_no_probability_and_no_gradient():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(4, 6)).astype(np.float32)
    tokens = np.array([0, 1, 2, 3])
    padded = np.concatenate([logits, np.full((4, 3), 100.0, np.float32)], axis=1)
    whole = core.log_probs_and_entropy(padded, tokens, temperature=1.0, vocab_size=6)
    plain = core.log_probs_and_entropy(logits, tokens, temperature=1.0)
    np.testing.assert_allclose(whole, plain, rtol=1e-6)

    def loss(x):
        log_probs, entropy = core.log_probs_and_entropy(x, tokens, temperature=1.0, vocab_size=6)
        return jnp.sum(log_probs) + jnp.sum(entropy)

    gradient = np.asarray(jax.grad(loss)(padded))
    assert np.isfinite(gradient).all()
    assert not gradient[:, 6:].any()
    np.testing.assert_allclose(gradient[:, :6], jax.grad(loss)(logits), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("wanted", [(1.0, 0.0), (0.0, 1.0), (-0.7, 0.3)])
def test_gradients_are_those_of_the_formula(wanted: tuple[float, float]):
    """d log p_token = e - p and dH = -p (log p + H), divided by the temperature; here from -sum p log p itself."""
    rng = np.random.default_rng(3)
    logits, tokens = rng.normal(size=(5, 7)), rng.integers(0, 7, 5)

    def value(x: np.ndarray) -> float:
        rows = [oracle(row, token, 0.7) for row, token in zip(x, tokens, strict=True)]
        return sum(wanted[0] * log_prob + wanted[1] * entropy for log_prob, entropy in rows)

    def loss(x: jnp.ndarray) -> jnp.ndarray:
        log_probs, entropy = core.log_probs_and_entropy(x, tokens, temperature=0.7)
        return wanted[0] * log_probs.sum() + wanted[1] * entropy.sum()

    gradient = jax.grad(loss)(logits.astype(np.float32))
    for place in np.ndindex(logits.shape):
        step = np.zeros(logits.shape)
        step[place] = 1e-5
        slope = (value(logits + step) - value(logits - step)) / 2e-5
        np.testing.assert_allclose(gradient[place], slope, atol=1e-5)


def test_half_precision_logits_are_reduced_in_float32():
    logits = jnp.asarray(np.random.default_rng(2).normal(size=(2, 500)), jnp.bfloat16)
    log_probs, entropy = core.log_probs_and_entropy(logits, np.array([1, 2]), temperature=1.0)
    assert log_probs.dtype == entropy.dtype == jnp.float32
    for row in range(2):
        expected = oracle(np.asarray(logits[row], np.float64), row + 1, 1.0)
        np.testing.assert_allclose([log_probs[row], entropy[row]], expected, rtol=1e-5)


def test_refusals_name_the_value():
    with pytest.raises(ValueError, match="temperature=0"):
        core.log_probs_and_entropy(np.zeros(3), np.array(0), temperature=0)
    with pytest.raises(ValueError, match=r"vocab_size=4 .* 3 rows"):
        core.log_probs_and_entropy(np.zeros(3), np.array(0), temperature=1.0, vocab_size=4)
