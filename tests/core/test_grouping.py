from __future__ import annotations

import json

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core
from tests.oracles import learning as oracle

REWARDS = st.floats(-8, 16, width=16).map(np.float32)


@pytest.mark.parametrize("size", [2, 8, 16, 64])
@pytest.mark.parametrize("value", [0.1, -0.1, 0.3, 0.35, 0.7, 10.4, 10.9, 1e6, 1e-6, 0.0])
def test_equal_rewards_are_flat_and_have_variance_zero(value, size):
    rewards = np.full((1, size), value, np.float32)
    assert core.is_flat(rewards).tolist() == [True]
    assert core.group_variance(rewards).tolist() == [0.0]
    assert core.group_std(rewards).tolist() == [0.0]


def test_constant_groups_whose_float_std_is_not_zero(golden_dir):
    entries = json.loads((golden_dir / "constant_group_std.json").read_text())
    assert any(entry["std"] > 1e-10 for entry in entries)
    for entry in entries:
        rewards = np.full((1, entry["n"]), entry["value"], np.float32)
        assert core.group_std(rewards).tolist() == [0.0]


def test_rounding_of_a_sum_is_flat_and_a_small_difference_is_not():
    rounded = np.array([[0.1 + 0.2, 0.3, 0.1 * 3]], np.float32)
    assert core.is_flat(rounded).tolist() == [True]
    assert core.is_flat(np.array([[1.0, 1.0001]], np.float32)).tolist() == [False]


def test_broken_rewards_are_never_called_flat():
    assert core.is_flat(np.array([[np.nan, np.nan], [np.inf, 1.0]], np.float32)).tolist() == [False, False]


def test_invalid_rows_take_no_part():
    rewards = np.array([[1.0, 3.0, np.nan], [1.0, 9.0, 9.0], [4.0, 9.0, 9.0]], np.float32)
    valid = np.array([[True, True, False], [True, False, False], [False, False, False]])
    assert core.group_mean(rewards, valid).tolist() == [2.0, 1.0, 0.0]
    assert core.group_variance(rewards, valid).tolist() == [2.0, 0.0, 0.0]
    assert core.is_flat(rewards, valid).tolist() == [False, True, True]


@given(hnp.arrays(np.float32, (3, 5), elements=REWARDS), hnp.arrays(bool, (3, 5)))
def test_variance_agrees_with_the_oracle(rewards, valid):
    expected = [oracle.variance([float(r) for r in row[keep]]) for row, keep in zip(rewards, valid, strict=True)]
    np.testing.assert_allclose(core.group_variance(rewards, valid), expected, rtol=1e-5, atol=1e-9)


@given(hnp.arrays(np.float32, (2, 6), elements=REWARDS), st.permutations(range(6)))
def test_the_rows_of_a_group_commute(rewards, order):
    np.testing.assert_allclose(
        core.group_variance(rewards[:, list(order)]), core.group_variance(rewards), rtol=1e-5, atol=1e-9
    )


def test_rows_of_a_group_follow_one_another():
    rows = np.arange(24).reshape(6, 4)
    groups = core.to_groups(rows, 3)
    assert groups.shape == (2, 3, 4)
    assert groups[1, 2].tolist() == rows[5].tolist()


def test_c42_a_batch_that_does_not_divide_names_both_numbers():
    with pytest.raises(ValueError, match=r"10 rows .* groups of 4"):
        core.to_groups(np.zeros(10), 4)


def test_c02_statistics_per_prompt():
    advantages = core.group_advantages_by_id(
        np.array([0.0, 1.0, 10.0, 11.0]), np.array([0, 0, 1, 1]), num_groups=2, normalize_by_std=True
    )
    np.testing.assert_allclose(advantages, [-0.7071, 0.7071, -0.7071, 0.7071], atol=1e-4)


def test_c03_unequal_groups_in_any_row_order():
    rewards = np.array([1, 1, 0, 5, 1, 0], np.float32)
    ids = np.array([0, 1, 0, 2, 1, 0])
    advantages = core.group_advantages_by_id(rewards, ids, num_groups=3, normalize_by_std=True)
    np.testing.assert_allclose(advantages, [1.1547, 0, -0.5774, 0, 0, -0.5774], atol=1e-4)
    assert np.asarray(advantages)[[1, 3, 4]].tolist() == [0.0, 0.0, 0.0]
    order = np.array([5, 3, 1, 0, 2, 4])
    permuted = core.group_advantages_by_id(rewards[order], ids[order], num_groups=3, normalize_by_std=True)
    np.testing.assert_allclose(permuted, np.asarray(advantages)[order], atol=1e-6)


@given(hnp.arrays(np.float32, (3, 4), elements=REWARDS), st.booleans())
def test_by_id_agrees_with_the_group_layout(rewards, normalize_by_std):
    by_id = core.group_advantages_by_id(
        rewards.ravel(), np.repeat(np.arange(3), 4), num_groups=3, normalize_by_std=normalize_by_std
    )
    grouped = core.group_advantages(rewards, normalize_by_std=normalize_by_std)
    np.testing.assert_allclose(by_id, np.asarray(grouped).ravel(), rtol=1e-5, atol=1e-5)
