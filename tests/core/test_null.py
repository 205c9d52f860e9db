from __future__ import annotations

import itertools
import math

import jax
import numpy as np
import pytest

from ragen_jax import core
from ragen_jax.types import CrossScores

null_of = jax.jit(core.permutation_null)


def make(log_probs, valid=None, column_class=None):
    columns, group, _ = log_probs.shape
    return CrossScores(
        log_probs=np.asarray(log_probs, np.float32),
        lengths=np.full((columns, group), 3, np.int32),
        valid=np.ones((columns, group), bool) if valid is None else valid,
        column_class=np.arange(columns, dtype=np.int32) if column_class is None else np.asarray(column_class, np.int32),
    )


def permutations(columns, count, seed):
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(columns) for _ in range(count)])


def test_values_are_the_metrics_of_relabelled_prompts():
    rng = np.random.default_rng(0)
    log_probs = rng.integers(-6, 0, (4, 3, 4)).astype(np.float32)
    valid = rng.random((4, 3)) < 0.7
    orders = permutations(4, 6, 1)
    tests = null_of(make(log_probs, valid), orders)
    observed, _ = core.collapse_metrics(make(log_probs, valid))
    for name in ("mi_sequence_nats", "retrieval_accuracy"):
        np.testing.assert_allclose(tests[name].observed, observed[name], rtol=1e-5, atol=1e-6)
        for order, value in zip(orders, tests[name].values, strict=True):
            # Column order[i] becomes column i: the reasonings of prompt i now stand beside prompt order[i].
            relabelled, _ = core.collapse_metrics(make(log_probs[:, :, order], valid))
            np.testing.assert_allclose(value, relabelled[name], rtol=1e-5, atol=1e-6)


def test_a_planted_pairing_is_found_and_the_identity_counts_as_a_tie():
    log_probs = np.where(np.eye(6, dtype=bool), -1.0, -9.0)[:, None, :]
    orders = np.concatenate([permutations(6, 98, 2), np.arange(6)[None]])
    identities = int((orders == np.arange(6)).all(axis=1).sum())
    for test in null_of(make(log_probs), orders).values():
        np.testing.assert_allclose(test.p_value, (1 + identities) / 100, rtol=1e-6)


def test_identical_columns_have_p_value_one():
    log_probs = np.repeat(np.random.default_rng(3).normal(size=(5, 2, 1)), 5, axis=2)
    for test in null_of(make(log_probs), permutations(5, 20, 4)).values():
        assert float(test.p_value) == 1.0


def test_without_dependence_the_null_rejects_at_its_nominal_rate():
    rng = np.random.default_rng(5)
    repetitions, columns = 600, 8
    log_probs = rng.normal(size=(repetitions, columns, 4, columns)).astype(np.float32)
    orders = np.stack([permutations(columns, 99, seed) for seed in range(repetitions)])
    run = jax.jit(jax.vmap(lambda x, order: core.permutation_null(make_traced(x), order)["mi_sequence_nats"].p_value))
    rejected = np.asarray(run(log_probs, orders)) <= 0.05
    spread = 3 * math.sqrt(0.05 * 0.95 / repetitions)
    assert abs(rejected.mean() - 0.05) < spread


def make_traced(log_probs):
    columns, group, _ = log_probs.shape
    return CrossScores(
        log_probs=log_probs,
        lengths=np.full((columns, group), 3, np.int32),
        valid=np.ones((columns, group), bool),
        column_class=np.arange(columns, dtype=np.int32),
    )


def test_wrong_prompt_value_is_the_mean_over_derangements():
    log_probs = np.random.default_rng(6).normal(size=(4, 2, 4))
    derangements = [p for p in itertools.permutations(range(4)) if all(i != j for i, j in enumerate(p))]
    tests = null_of(make(log_probs), np.array(derangements))
    expected = np.mean(tests["mi_sequence_nats"].values)
    np.testing.assert_allclose(core.wrong_prompt_mi(make(log_probs)), expected, rtol=1e-5)


def test_wrong_prompts_are_of_another_class():
    log_probs = np.array([[[-1.0, -1.0, -8.0]]] * 2 + [[[-8.0, -8.0, -1.0]]])
    mixture = np.log((2 * np.exp(-1) + np.exp(-8)) / 3), np.log((2 * np.exp(-8) + np.exp(-1)) / 3)
    expected = (2 * (-8 - mixture[0]) + (-8 - mixture[1])) / 3
    np.testing.assert_allclose(core.wrong_prompt_mi(make(log_probs, column_class=[0, 0, 1])), expected, rtol=1e-5)
    assert float(core.wrong_prompt_mi(make(np.full((3, 1, 3), -2.0), column_class=[0, 0, 0]))) == 0.0


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(AssertionError):
        core.permutation_null(make(np.zeros((3, 1, 3))), np.zeros((5, 4), np.int32))


def test_rows_that_are_not_valid_change_nothing():
    log_probs = np.random.default_rng(7).normal(size=(4, 3, 4)).astype(np.float32)
    valid = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 1, 1]], bool)
    orders = permutations(4, 12, 8)
    clean = null_of(make(log_probs, valid), orders)
    dirty = null_of(make(np.where(valid[:, :, None], log_probs, np.nan), valid), orders)
    for name in clean:
        np.testing.assert_allclose(dirty[name].values, clean[name].values, rtol=1e-6)
        assert float(dirty[name].p_value) == float(clean[name].p_value)


def test_a_score_that_is_not_finite_is_named():
    log_probs = np.zeros((3, 2, 3), np.float32)
    log_probs[1, 0, 2] = np.inf
    with pytest.raises(ValueError, match="rollout 0 of prompt 1 under prompt 2 is inf"):
        core.permutation_null(make(log_probs), permutations(3, 4, 9))
