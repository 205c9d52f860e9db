"""Truncation without sorting, against a sort; draws against their distribution."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.sampling.logits import draw, truncate

ROUNDING = 3e-6  # of a float32 sum over a vocabulary, as a share of it


def softmax(logits: np.ndarray) -> np.ndarray:
    return np.asarray(jax.nn.softmax(jnp.asarray(logits, jnp.float32), axis=-1))


def kept_by(probabilities: np.ndarray, *, top_p: float = 1.0, top_k: int = 0) -> np.ndarray:
    """Which tokens survive, [V]; the survivors must be unchanged."""
    got = np.asarray(truncate(jnp.asarray(probabilities)[None], top_p=top_p, top_k=top_k))[0]
    kept = got > 0
    np.testing.assert_array_equal(got[kept], probabilities[kept])
    return kept


def largest(probabilities: np.ndarray, count: int) -> np.ndarray:
    """The oracle of top-k: all tokens of positive probability that are at least the ``count``-th in a sorted list."""
    cut = np.sort(probabilities)[-min(count, len(probabilities))]
    return (probabilities >= cut) & (probabilities > 0)


def check_nucleus(probabilities: np.ndarray, kept: np.ndarray, top_p: float) -> None:
    """The kept tokens are the likeliest and hold ``top_p``; without those at the cut they would not."""
    exact = probabilities.astype(np.float64)
    total, cut = exact.sum(), probabilities[kept].min()
    np.testing.assert_array_equal(kept, (probabilities >= cut) & (probabilities > 0))
    assert exact[kept].sum() >= (top_p - ROUNDING) * total
    assert exact[probabilities > cut].sum() < (top_p + ROUNDING) * total


def distribution(shape: str, size: int, seed: int) -> np.ndarray:
    """Float32 probabilities [size]."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(size)
    if shape == "flat":
        return softmax(np.zeros(size))
    if shape == "tied":
        return softmax(rng.integers(0, 4, size))
    if shape == "peaked":
        return softmax(np.where(np.arange(size) == seed % size, 0.0, 0.01 * normal - 17))
    return softmax(normal * {"even": 0.5, "usual": 3.0, "wide": 20.0}[shape])


SHAPES = ["flat", "tied", "peaked", "even", "usual", "wide"]


@given(st.sampled_from(SHAPES), st.sampled_from([1, 2, 50, 1000]), st.integers(0, 10**6), st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_top_k_equals_a_sort(shape: str, size: int, seed: int, top_k: int) -> None:
    probabilities = distribution(shape, size, seed)
    np.testing.assert_array_equal(kept_by(probabilities, top_k=top_k), largest(probabilities, top_k))


@given(st.sampled_from(SHAPES), st.sampled_from([1, 2, 50, 1000]), st.integers(0, 10**6), st.floats(1e-3, 0.9999))
@settings(max_examples=25, deadline=None)
def test_top_p_is_the_smallest_nucleus(shape: str, size: int, seed: int, top_p: float) -> None:
    probabilities = distribution(shape, size, seed)
    check_nucleus(probabilities, kept_by(probabilities, top_p=top_p), top_p)


@pytest.mark.parametrize("shape", SHAPES)
def test_truncation_of_a_large_vocabulary(shape: str) -> None:
    probabilities = distribution(shape, 151_936, seed=3)
    for top_k in (1, 50, 500):
        np.testing.assert_array_equal(kept_by(probabilities, top_k=top_k), largest(probabilities, top_k))
    for top_p in (0.5, 0.9, 0.9999):
        check_nucleus(probabilities, kept_by(probabilities, top_p=top_p), top_p)


def test_top_k_on_a_peaked_distribution_keeps_k_and_no_more() -> None:
    logits = np.full(151_936, -17.0)
    logits[0] = 0.0
    logits[1:60] += 0.01 * np.arange(59)
    kept = kept_by(softmax(logits), top_k=50)
    assert set(np.flatnonzero(kept)) == {0, *range(11, 60)}


def test_top_p_is_a_share_of_what_top_k_left() -> None:
    probabilities = np.array([0.4, 0.3, 0.2, 0.1], np.float32)
    assert kept_by(probabilities, top_p=0.75).tolist() == [True, True, True, False]
    assert kept_by(probabilities, top_p=0.75, top_k=3).tolist() == [True, True, False, False]


def test_rows_are_cut_apart_and_more_than_all_tokens_can_be_asked_for() -> None:
    rows = np.stack([distribution("usual", 40, 1), distribution("flat", 40, 2)])
    got = np.asarray(truncate(jnp.asarray(rows), top_p=0.5, top_k=0))
    assert 0 < (got[0] > 0).sum() < 40
    assert (got[1] > 0).all()  # all tie
    np.testing.assert_array_equal(np.asarray(truncate(jnp.asarray(rows), top_p=1.0, top_k=41)), rows)


def test_draws_follow_the_distribution_and_never_hit_a_zero() -> None:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(70, 0.5)).astype(np.float32)
    weights[::3] = 0
    weights /= weights.sum()
    uniforms = rng.random(60_000).astype(np.float32)
    tokens = np.asarray(draw(jnp.broadcast_to(weights, (60_000, 70)), jnp.asarray(uniforms)))
    counts = np.bincount(tokens, minlength=70)
    assert (counts[weights == 0] == 0).all()
    alive = weights * 60_000 > 5
    chi = ((counts - weights * 60_000) ** 2 / np.maximum(weights * 60_000, 1e-9))[alive].sum()
    assert chi < alive.sum() + 4 * np.sqrt(2 * alive.sum())
    edge = np.asarray(draw(jnp.broadcast_to(weights, (2, 70)), jnp.array([0.0, np.float32(1) - 1e-7])))
    assert (weights[edge] > 0).all()
