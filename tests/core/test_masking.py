from __future__ import annotations

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core
from ragen_jax.core.masking import full_mask
from tests.oracles import learning as oracle

MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")
LENGTH = 10.0


def total(values, mask, mode, weights=None, counted=None):
    rows = np.ones(len(values), np.float32)
    weights = rows if weights is None else weights
    denominator = core.aggregation_denominator(
        mask, rows if counted is None else counted, mode=mode, constant_length=constant(mode)
    )
    return core.aggregate(values, mask, weights, mode=mode, denominator=denominator)


def constant(mode):
    return LENGTH if mode == "seq-mean-token-sum-norm" else None


@pytest.fixture
def case_c07():
    loss = np.zeros((2, 8), np.float32)
    loss[0], loss[1] = 1.0, 3.0
    mask = np.ones((2, 8), bool)
    mask[0, 2:] = False
    return loss, mask


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("token-mean", 2.6), ("seq-mean-token-mean", 2.0), ("seq-mean-token-sum", 13.0), ("seq-mean-token-sum-norm", 1.3)],
)
def test_c07_reduction_names(case_c07, mode, expected):
    loss, mask = case_c07
    np.testing.assert_allclose(total(loss, mask, mode), expected, rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_c07_micro_batches_change_neither_loss_nor_gradient(case_c07, mode):
    loss, mask = case_c07
    denominator = core.aggregation_denominator(mask, jnp.ones(2), mode=mode, constant_length=constant(mode))

    def part(scale, rows):
        values = scale * loss[rows]
        return core.aggregate(values, mask[rows], jnp.ones(len(values)), mode=mode, denominator=denominator)

    whole = jax.value_and_grad(part)(1.0, slice(0, 2))
    parts = [jax.value_and_grad(part)(1.0, slice(b, b + 1)) for b in range(2)]
    np.testing.assert_allclose(sum(p[0] for p in parts), whole[0], rtol=1e-6)
    np.testing.assert_allclose(sum(p[1] for p in parts), whole[1], rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_c08_nothing_to_train_gives_zero_loss_and_gradient(mode):
    mask = np.zeros((2, 3), bool)
    value, gradient = jax.value_and_grad(lambda x: total(x, mask, mode))(jnp.full((2, 3), jnp.inf))
    assert float(value) == 0.0
    assert not np.any(np.asarray(gradient))


@pytest.mark.parametrize("mode", MODES)
def test_c06_rows_with_an_empty_mask_add_nothing_and_are_not_counted(case_c07, mode):
    loss, mask = case_c07
    more_loss = np.concatenate([loss, np.full((2, 8), np.nan, np.float32)])
    more_mask = np.concatenate([mask, np.zeros((2, 8), bool)])
    assert float(total(more_loss, more_mask, mode)) == float(total(loss, mask, mode))


def test_weight_zero_drops_a_row_and_counted_keeps_its_share_of_the_denominator(case_c07):
    loss, mask = case_c07
    only_first = np.array([1.0, 0.0], np.float32)
    kept = total(loss, mask, "token-mean", weights=only_first, counted=only_first)
    before_filter = total(loss, mask, "token-mean", weights=only_first)
    np.testing.assert_allclose([kept, before_filter], [1.0, 0.2], rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
def test_aggregate_agrees_with_the_oracle(mode, data):
    shape = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 5)))
    values = data.draw(hnp.arrays(np.float32, shape, elements=st.floats(-8, 8, width=32)))
    mask = data.draw(hnp.arrays(bool, shape))
    expected = oracle.aggregate(values, mask, mode=mode, constant_length=constant(mode))
    np.testing.assert_allclose(total(values, mask, mode), expected, rtol=1e-5, atol=1e-5)


def test_whitened_values_have_mean_zero_and_unbiased_variance_one():
    values = np.random.default_rng(0).normal(3.0, 5.0, (4, 6)).astype(np.float32)
    mask = np.random.default_rng(1).random((4, 6)) < 0.6
    whitened = np.asarray(core.masked_whiten(values, mask), np.float64)
    assert abs(whitened[mask].mean()) < 1e-6
    np.testing.assert_allclose(whitened[mask].var(ddof=1), 1.0, rtol=1e-5)
    assert not np.any(whitened[~mask])


def test_whitening_equal_values_gives_zero_not_noise():
    assert not np.any(np.asarray(core.masked_whiten(np.full((3, 7), 0.1, np.float32), np.ones((3, 7), bool))))


def test_whitening_may_take_its_statistics_from_elsewhere():
    values = np.random.default_rng(0).normal(3.0, 5.0, (4, 6)).astype(np.float32)
    over = np.random.default_rng(1).random((4, 6)) < 0.7
    mask = over & (np.arange(6) < 3)
    whitened = np.asarray(core.masked_whiten(values, mask, over=over))
    np.testing.assert_allclose(whitened[mask], oracle.whiten(values, over)[mask], rtol=1e-5, atol=1e-5)
    assert not np.any(whitened[~mask])
    assert abs(whitened[mask].mean()) > 1e-3  # not that of the mask
    flat = np.where(over, 2.0, values).astype(np.float32)
    assert not np.any(np.asarray(core.masked_whiten(flat, np.ones_like(mask), over=over)))


def test_masked_statistics_ignore_what_is_masked():
    values = np.array([1.0, 3.0, np.inf], np.float32)
    mask = np.array([True, True, False])
    assert float(core.masked_sum(values, mask)) == 4.0
    assert float(core.masked_mean(values, mask)) == 2.0
    assert float(core.masked_var(values, mask)) == 1.0
    assert float(core.masked_var(values, mask, ddof=1)) == 2.0
    assert float(core.masked_mean(values, np.zeros(3, bool))) == 0.0


def test_refusals_name_the_value():
    mask, rows = np.ones((1, 2), bool), np.ones(1, np.float32)
    with pytest.raises(ValueError, match="'token_mean'"):
        core.aggregation_denominator(mask, rows, mode="token_mean")
    with pytest.raises(ValueError, match="'sum'"):
        core.aggregate(mask.astype(np.float32), mask, rows, mode="sum", denominator=jnp.ones(()))
    with pytest.raises(ValueError, match="constant_length=None"):
        core.aggregation_denominator(mask, rows, mode="seq-mean-token-sum-norm")
    with pytest.raises(ValueError, match=r"constant_length=4.0"):
        core.aggregation_denominator(mask, rows, mode="token-mean", constant_length=4.0)
    with pytest.raises(ValueError, match="constant_length=0"):
        core.aggregation_denominator(mask, rows, mode="seq-mean-token-sum-norm", constant_length=0)


@pytest.mark.parametrize("mode", MODES)
@given(keep=hnp.arrays(bool, 6), count_dropped=st.booleans())
def test_dropping_rows_by_weight_and_by_gathering_agree(mode, keep, count_dropped):
    rng = np.random.default_rng(0)
    log_probs, advantages = rng.normal(size=(2, 6, 4)).astype(np.float32)
    mask = rng.random((6, 4)) < 0.7
    counted = np.ones(6, np.float32) if count_dropped else keep.astype(np.float32)
    denominator = core.aggregation_denominator(mask, counted, mode=mode, constant_length=constant(mode))
    order = np.argsort(~keep, kind="stable")  # kept rows in front, dropped ones behind with weight 0

    def gradient(rows, weights):
        def loss(x):
            terms, _, _ = core.ppo_terms(
                x[rows], log_probs[rows], advantages[rows], mask[rows], clip_low=0.2, clip_high=0.28, clip_dual=3.0
            )
            return core.aggregate(terms, mask[rows], weights, mode=mode, denominator=denominator)

        return jax.grad(loss)(log_probs + 0.1)

    masked = gradient(np.arange(6), keep.astype(np.float32))
    compact = gradient(order, keep[order].astype(np.float32))
    np.testing.assert_allclose(compact, masked, rtol=1e-5, atol=1e-7)
    assert not np.asarray(masked)[~keep].any()


def test_without_a_mask_nothing_is_left_out():
    values = np.array([[1.0, np.nan], [0.0, 2.0]])
    assert full_mask(values, None).tolist() == [[True, True], [True, True]]
    assert full_mask(values, np.array([[1, 0], [0, 1]])).tolist() == [[True, False], [False, True]]
    with pytest.raises(AssertionError):
        full_mask(values, np.ones(2, bool))
