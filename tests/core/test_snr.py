"""Buckets by reward variance and the numbers that come out of a Gram matrix."""

from __future__ import annotations

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.core.snr import dominance_ratio, gradient_account, rv_buckets, signal_to_noise

VARIANCES = st.lists(st.sampled_from([0.0, 0.0, 0.1, 0.25, 0.5, 1.0, 3.0]), min_size=1, max_size=17)


@given(VARIANCES, st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_equal_count_buckets_ascend_and_the_remainder_is_in_the_last(variances: list[float], count: int):
    ids = np.asarray(rv_buckets(jnp.array(variances), count=count))
    buckets = min(count, len(variances))
    sizes = np.bincount(ids)
    assert len(sizes) == buckets and (sizes[:-1] == len(variances) // buckets).all()
    values = np.array(variances)
    for low, high in zip(range(buckets - 1), range(1, buckets), strict=True):
        assert values[ids == low].max() <= values[ids == high].min()


def test_equal_values_keep_their_order():
    assert rv_buckets(jnp.ones(5), count=2).tolist() == [0, 0, 1, 1, 1]


def test_an_edge_belongs_to_the_bucket_above_it():
    assert rv_buckets(jnp.array([-1.0, 0.99, 1.0, 2.0, 9.0]), edges=(1.0, 2.0)).tolist() == [0, 0, 1, 2, 2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "give one"),
        ({"count": 2, "edges": (1.0,)}, "give one"),
        ({"count": 0}, "count=0"),
        ({"edges": ()}, "at least one"),
        ({"edges": (1.0, 1.0)}, "ascending"),
    ],
)
def test_buckets_that_make_no_sense_are_refused(arguments: dict, words: str):
    with pytest.raises(ValueError, match=words):
        rv_buckets(jnp.ones(3), **arguments)


def test_buckets_equal_the_recorded_ones(golden_dir: Path):
    cases = json.loads((golden_dir / "gradient_buckets.json").read_text())
    assert len(cases) >= 5
    for case in cases:
        ids = np.array(case["group_ids"])
        rule = {"edges": (1, 2, 3, 4, 5)} if case["mode"] == "fixed_rv" else {"count": case["bucket_count"]}
        ours = np.asarray(rv_buckets(jnp.array(case["group_std"]), **rule))
        theirs = {name: set(bucket["group_ids"]) for name, bucket in case["buckets"].items() if name != "all"}
        assert {f"bucket_{name + 1}": set(ids[ours == name].tolist()) for name in np.unique(ours)} == theirs


def oracle(vectors: np.ndarray, kl_coef: float, entropy_coef: float) -> dict[str, float]:
    """The account from the vectors themselves, float64."""
    first, second, kl, entropy, direction = vectors
    task, regulariser = first + second, kl_coef * kl + entropy_coef * entropy
    total = task + regulariser
    norm = np.linalg.norm

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / (norm(a) * norm(b)))

    signal_sq, noise_sq = (2 * first) @ (2 * second), norm(2 * first - 2 * second) ** 2 / 4
    signal = np.sqrt(max(signal_sq, 0.0))
    return {
        "task_norm": norm(task),
        "kl_norm": kl_coef * norm(kl),
        "entropy_norm": entropy_coef * norm(entropy),
        "regulariser_norm": norm(regulariser),
        "total_norm": norm(total),
        "kl_unit_norm": norm(kl),
        "entropy_unit_norm": norm(entropy),
        "direction_norm": norm(direction),
        "signal_sq": signal_sq,
        "noise_sq": noise_sq,
        "signal_norm": signal,
        "noise_norm": np.sqrt(noise_sq),
        "snr": signal / (np.sqrt(noise_sq) + norm(regulariser)),
        "task_snr": signal / np.sqrt(noise_sq),
        "dominance": norm(regulariser) / (norm(task) + norm(regulariser)),
        "cos_task_kl": cosine(task, kl),
        "cos_task_entropy": cosine(task, entropy),
        "cos_kl_entropy": cosine(kl, entropy),
        "cos_task_regulariser": cosine(task, regulariser),
        "cos_task_direction": cosine(task, direction),
        "cos_kl_direction": cosine(kl, direction),
        "cos_entropy_direction": cosine(entropy, direction),
        "cos_total_direction": cosine(total, direction),
    }


@given(st.integers(0, 10_000), st.floats(0.01, 2.0), st.floats(0.01, 2.0))
@settings(max_examples=25, deadline=None)
def test_the_account_equals_that_of_the_vectors(seed: int, kl_coef: float, entropy_coef: float):
    vectors = np.random.default_rng(seed).normal(size=(5, 12))
    first, second, *others = vectors
    given = np.stack([first + second, first - second, *others])
    numbers = gradient_account((given @ given.T).astype(np.float32), kl_coef=kl_coef, entropy_coef=entropy_coef)
    expected = oracle(vectors, kl_coef, entropy_coef)
    assert set(numbers) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(numbers[name], value, rtol=1e-4, atol=2e-4, err_msg=name)
    np.testing.assert_allclose(numbers["signal_sq"] + numbers["noise_sq"], numbers["task_norm"] ** 2, rtol=1e-4)


def test_nothing_gives_zeros_and_no_nan():
    numbers = gradient_account(jnp.zeros((5, 5)), kl_coef=0.1, entropy_coef=0.1)
    assert all(float(value) == 0 for value in numbers.values())


def test_without_a_task_gradient_the_regulariser_is_everything():
    vectors = np.array([[0, 0], [0, 0], [1, 0], [0, 2], [0, 0]], np.float32)
    numbers = gradient_account(vectors @ vectors.T, kl_coef=3.0, entropy_coef=2.0)
    assert float(numbers["dominance"]) == 1 and float(numbers["snr"]) == 0
    assert float(numbers["regulariser_norm"]) == 5  # of the sum (3, 4), not 3 + 4


def test_ratios_at_their_ends():
    assert float(dominance_ratio(jnp.array(1.0), jnp.array(0.0))) == 0
    assert float(dominance_ratio(jnp.array(0.0), jnp.array(0.0))) == 0
    assert np.isinf(signal_to_noise(jnp.array(1.0), jnp.array(0.0), jnp.array(0.0)))


def test_halves_estimate_signal_and_noise_without_bias():
    """One prompt, three actions, G = 8, group-mean baseline: means over 20,000 groups against exact values."""
    rng = np.random.default_rng(0)
    p, mean = np.array([0.5, 0.3, 0.2]), np.array([1.0, 0.2, 0.0])
    scores = np.eye(3) - p  # of softmax logits
    group, repeats = 8, 20_000
    actions = rng.choice(3, p=p, size=(repeats, group))
    rewards = mean[actions] + 0.5 * rng.normal(size=actions.shape)
    advantages = rewards - rewards.mean(axis=1, keepdims=True)
    parts = advantages[..., None] * scores[actions] / group
    first, second = parts[:, : group // 2].sum(axis=1), parts[:, group // 2 :].sum(axis=1)
    signal_sq = 4 * (first * second).sum(axis=1)
    noise_sq = ((first - second) ** 2).sum(axis=1)
    true = (p * (mean - p @ mean)) @ scores
    expected = ((1 - 1 / group) ** 2 + 1 / group**2) * (true @ true)
    error = signal_sq.std() / np.sqrt(repeats)
    assert abs(signal_sq.mean() - expected) < 4 * error
    estimates = first + second
    variance = ((estimates - (1 - 1 / group) * true) ** 2).sum(axis=1).mean()
    assert abs(noise_sq.mean() - variance) < 4 * noise_sq.std() / np.sqrt(repeats) + (true @ true) / group**2
