"""Scores under some of the columns: what they estimate, how far off they may be, and what they cannot say."""

from __future__ import annotations

import itertools
import math

import jax
import numpy as np
import pytest

from ragen_jax import core
from ragen_jax.rollout.reasoning_pairs import draw_columns
from ragen_jax.types import CrossScores
from tests.oracles import collapse as oracle

metrics_of = jax.jit(core.collapse_metrics, static_argnames=("mix",))


def make(log_probs, columns=None, valid=None, column_class=None):
    """Scores under the given columns of a whole matrix [C, G, C]."""
    log_probs = np.asarray(log_probs, np.float32)
    count, group, _ = log_probs.shape
    if columns is not None:
        columns = np.asarray(columns, np.int32)
        log_probs = np.take_along_axis(log_probs, columns[:, None, :], axis=2)
    return CrossScores(
        log_probs=log_probs,
        lengths=np.full((count, group), 5, np.int32),
        valid=np.ones((count, group), bool) if valid is None else np.asarray(valid, bool),
        column_class=np.arange(count, dtype=np.int32) if column_class is None else np.asarray(column_class, np.int32),
        columns=columns,
    )


def draw(rng, count, sample):
    others = [rng.choice(np.delete(np.arange(count), i), sample - 1, replace=False) for i in range(count)]
    return np.concatenate([np.arange(count)[:, None], others], axis=1)


def matrix(seed, count=8, group=6, spread=1.0):
    """Log-probs whose own column is the best on average."""
    rng = np.random.default_rng(seed)
    return rng.normal(-6.0, spread, (count, group, count)) + 1.5 * np.eye(count)[:, None, :]


@pytest.mark.parametrize("mix", ["sequence", "per_token"])
def test_all_columns_in_any_order_are_the_exact_value(mix):
    log_probs = matrix(0)
    valid = np.random.default_rng(1).random((8, 6)) < 0.8
    exact, _ = metrics_of(make(log_probs, valid=valid), mix=mix)
    columns = draw(np.random.default_rng(2), 8, 8)
    sampled, _ = metrics_of(make(log_probs, columns, valid), mix=mix)
    for name in exact:
        np.testing.assert_allclose(sampled[name], exact[name], rtol=1e-5, atol=1e-5, err_msg=name)
    assert float(core.column_sampling_std_error(make(log_probs, columns, valid))) == 0.0


def test_estimate_and_error_agree_with_the_oracle():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        log_probs, valid, columns = matrix(seed), rng.random((8, 6)) < 0.7, draw(rng, 8, 4)
        scores = make(log_probs, columns, valid)
        mi, error = oracle.sampled_mi(log_probs, valid, columns)
        np.testing.assert_allclose(metrics_of(scores)[0]["mi_sequence_nats"], mi, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(core.column_sampling_std_error(scores), error, rtol=1e-4)


def test_the_mixture_is_unbiased_over_all_draws():
    log_probs = matrix(3, count=5, group=1)
    _, exact = core.matched_and_marginal(make(log_probs))
    estimates = []
    for others in itertools.combinations(range(1, 5), 2):
        columns = [[0, *others], [1, 0, 2], [2, 0, 1], [3, 0, 1], [4, 0, 1]]
        _, marginal = core.matched_and_marginal(make(log_probs, columns))
        estimates.append(float(np.exp(marginal[0, 0])))
    np.testing.assert_allclose(np.mean(estimates), np.exp(exact[0, 0]), rtol=1e-5)


def test_the_standard_error_is_the_spread_over_draws_and_the_bias_is_upwards():
    log_probs = matrix(4, count=24, group=8)
    exact = float(metrics_of(make(log_probs))[0]["mi_sequence_nats"])
    draws = np.stack([draw(np.random.default_rng(seed), 24, 9) for seed in range(800)])
    taken = np.stack([np.take_along_axis(log_probs, columns[:, None, :], axis=2) for columns in draws])

    def both(log_probs, columns):
        scores = make(np.zeros((24, 8, 24))).replace(log_probs=log_probs, columns=columns)
        return core.collapse_metrics(scores)[0]["mi_sequence_nats"], core.column_sampling_std_error(scores)

    estimates, errors = jax.jit(jax.vmap(both))(taken.astype(np.float32), draws.astype(np.int32))
    np.testing.assert_allclose(np.mean(errors), np.std(estimates), rtol=0.1)
    bias = np.mean(estimates) - exact
    assert 0 < bias < 0.05
    covered = np.abs(np.asarray(estimates) - bias - exact) < core.intervals.NORMAL_95 * np.asarray(errors)
    assert 0.92 < covered.mean() < 0.98


def test_identical_columns_are_exactly_zero_and_chance():
    row = (1000 * np.random.default_rng(5).normal(size=(7, 3, 1))).astype(np.float32)
    metrics, _ = metrics_of(make(np.repeat(row, 7, axis=2), draw(np.random.default_rng(6), 7, 4)))
    assert float(metrics["mi_sequence_nats"]) == 0.0
    np.testing.assert_allclose(metrics["retrieval_chance"], 1 / 4, rtol=1e-6)
    for suffix in ("", "@2", "@4", "@8"):
        assert float(metrics[f"retrieval_accuracy{suffix}"]) == float(metrics[f"retrieval_chance{suffix}"])


def test_a_planted_policy_keeps_its_ceiling():
    log_probs = np.where(np.eye(6, dtype=bool), -5.0, -90.0)[:, None, :]
    scores = make(log_probs, draw(np.random.default_rng(7), 6, 3))
    metrics, _ = metrics_of(scores)
    np.testing.assert_allclose(metrics["mi_sequence_nats"], math.log(6), rtol=1e-6)
    np.testing.assert_allclose(metrics["mi_sequence_ceiling_nats"], math.log(6), rtol=1e-6)
    assert float(core.column_sampling_std_error(scores)) < 1e-6


def test_drawn_columns_of_the_own_class_are_hits():
    classes = [0, 0, 1, 1]
    log_probs = np.where(np.equal.outer(classes, classes), -1.0, -5.0)[:, None, :]
    scores = make(log_probs, [[0, 1, 2], [1, 2, 3], [2, 0, 3], [3, 0, 1]], column_class=classes)
    metrics, _ = metrics_of(scores)
    assert float(metrics["retrieval_accuracy"]) == 1.0
    np.testing.assert_allclose(metrics["retrieval_chance"], (2 / 3 + 1 / 3 + 2 / 3 + 1 / 3) / 4, rtol=1e-6)


def drawn_by_class(classes, sample, seed):
    return draw_columns(np.asarray(classes), sample=sample, rng=np.random.default_rng(seed))


def classed_matrix(classes, seed, group=4):
    """Log-probs of reasonings that fit their own class best, equal within a class as equal contexts make them."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(-6.0, 1.0, (len(classes), group, max(classes) + 1))
    return scores[:, :, classes] + 1.5 * np.equal.outer(classes, classes)[:, None, :]


@pytest.mark.parametrize("sample", [3, 8])
def test_an_own_class_that_is_identified_is_exactly_at_its_ceiling(sample):
    """64 columns of 4 classes: ln 4, whichever columns were drawn; ln 64 would be the answer without classes."""
    classes = np.arange(64) % 4
    log_probs = np.where(np.equal.outer(classes, classes), -1.0, -40.0)[:, None, :]
    for seed in range(3):
        scores = make(log_probs, drawn_by_class(classes, sample, seed), column_class=classes)
        metrics, _ = metrics_of(scores)
        np.testing.assert_allclose(metrics["mi_sequence_nats"], math.log(4), rtol=1e-6)
        np.testing.assert_allclose(metrics["mi_sequence_ceiling_nats"], math.log(4), rtol=1e-6)
        assert float(core.column_sampling_std_error(scores)) < 1e-6


def test_all_classes_are_exact_though_not_all_columns_were_scored():
    classes = [0, 1, 2, 0, 1, 0, 0, 0]
    log_probs = classed_matrix(classes, 0)
    exact, _ = metrics_of(make(log_probs, column_class=classes))
    for sample in (3, 5):
        scores = make(log_probs, drawn_by_class(classes, sample, 1), column_class=classes)
        sampled, _ = metrics_of(scores)
        for name in ("mi_sequence_nats", "mi_token_nats", "reasoning_entropy_sequence_nats", "mi_zscore"):
            np.testing.assert_allclose(sampled[name], exact[name], rtol=1e-5, err_msg=name)
        assert float(core.column_sampling_std_error(scores)) == 0.0
        np.testing.assert_allclose(
            core.wrong_prompt_mi(scores), core.wrong_prompt_mi(make(log_probs, column_class=classes)), rtol=1e-5
        )


def test_classes_of_several_sizes_agree_with_the_oracle():
    classes = [0, 1, 2, 3, 4, 0, 1, 2, 0, 0]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        log_probs, valid = classed_matrix(classes, seed), rng.random((10, 4)) < 0.7
        columns = drawn_by_class(classes, 3, seed)
        scores = make(log_probs, columns, valid, classes)
        mi, error = oracle.sampled_mi(log_probs, valid, columns, classes)
        np.testing.assert_allclose(metrics_of(scores)[0]["mi_sequence_nats"], mi, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(core.column_sampling_std_error(scores), error, rtol=1e-4)


def test_with_equal_contexts_the_interval_covers_and_the_ceiling_holds():
    classes = np.arange(48) % 24
    log_probs = classed_matrix(classes, 2, group=8)
    exact = float(metrics_of(make(log_probs, column_class=classes))[0]["mi_sequence_nats"])
    draws = np.stack([drawn_by_class(classes, 9, seed) for seed in range(300)])
    taken = np.stack([np.take_along_axis(log_probs, columns[:, None, :], axis=2) for columns in draws])

    def both(log_probs, columns):
        scores = make(np.zeros((48, 8, 48)), column_class=classes).replace(log_probs=log_probs, columns=columns)
        matched, marginal = core.matched_and_marginal(scores)
        return matched - marginal, core.batch_mi_interval(scores), core.column_sampling_std_error(scores)

    gains, interval, errors = jax.jit(jax.vmap(both))(taken.astype(np.float32), draws)
    assert np.max(gains) <= math.log(24) + 1e-5
    np.testing.assert_allclose(np.mean(errors), np.std(interval.estimate), rtol=0.15)
    assert abs(np.mean(interval.estimate) - exact) < 0.05
    assert np.mean((np.asarray(interval.low) <= exact) & (exact <= np.asarray(interval.high))) > 0.95


def test_one_class_alone_says_nothing_and_needs_no_other():
    metrics, _ = metrics_of(make(np.full((5, 2, 5), -3.0), drawn_by_class([0] * 5, 3, 0), column_class=[0] * 5))
    assert float(metrics["mi_sequence_nats"]) == float(metrics["mi_sequence_ceiling_nats"]) == 0.0


def test_the_interval_holds_both_errors():
    scores = make(matrix(8), draw(np.random.default_rng(9), 8, 4))
    matched, marginal = core.matched_and_marginal(scores)
    within = float(core.stratified_interval(matched - marginal).std_error)
    between = float(core.column_sampling_std_error(scores))
    assert between > 0
    np.testing.assert_allclose(core.batch_mi_interval(scores).std_error, math.hypot(within, between), rtol=1e-5)


def test_wrong_prompts_are_the_drawn_ones():
    log_probs, columns = matrix(10), draw(np.random.default_rng(11), 8, 4)
    scores = make(log_probs, columns)
    _, marginal = core.matched_and_marginal(scores)
    drawn = np.take_along_axis(log_probs, columns[:, None, 1:], axis=2)
    np.testing.assert_allclose(core.wrong_prompt_mi(scores), (drawn.mean(axis=2) - marginal).mean(), rtol=1e-4)


def test_every_estimator_takes_sampled_columns():
    scores = make(matrix(12), draw(np.random.default_rng(13), 8, 4))
    for name, estimate in core.ESTIMATORS.items():
        assert all(np.isfinite(value) for value in estimate(scores).values()), name


def test_refusals():
    log_probs, columns = matrix(14), draw(np.random.default_rng(15), 8, 4)
    scores = make(log_probs, columns)
    with pytest.raises(ValueError, match="all 8 columns, here are 4"):
        core.permutation_null(scores, np.arange(8)[None])
    with pytest.raises(ValueError, match="leaving prompts out"):
        core.prompt_jackknife_mi(scores)
    with pytest.raises(ValueError, match=r"columns\[i, 0\] == i"):
        core.collapse_metrics(make(log_probs, columns[:, ::-1]))
    with pytest.raises(ValueError, match="only the own column"):
        core.collapse_metrics(make(log_probs, columns[:, :1]))
    with pytest.raises(ValueError, match="1 other column"):
        core.column_sampling_std_error(make(log_probs, columns[:, :2]))
    with pytest.raises(AssertionError):
        core.collapse_metrics(scores.replace(columns=columns[:, :3].astype(np.int32)))
    with pytest.raises(ValueError, match="prompt 0 are of 1 other classes where 2 have room"):
        core.collapse_metrics(
            make(log_probs[:4, :, :4], [[0, 2, 3], [1, 0, 2], [2, 0, 3], [3, 0, 2]], None, [0, 1, 0, 2])
        )
    broken = np.array(scores.log_probs)
    broken[2, 1, 3] = np.nan
    with pytest.raises(ValueError, match=f"rollout 1 of prompt 2 under prompt {columns[2, 3]} is nan"):
        core.collapse_metrics(scores.replace(log_probs=broken))
