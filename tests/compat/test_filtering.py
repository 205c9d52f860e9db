"""Filters of whole batches, and what they log."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ragen_jax import core
from ragen_jax.compat.ragen import filter_rows, group_scores, trajectory_entropies

REWARDS = [[0.0, 1.0], [2.0, 2.0], [4.0, 0.0]]


def public(metrics):
    return {name: value for name, value in metrics.items() if "/_" not in name}


def compare(metrics, expected):
    assert set(metrics) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_golden_reward_filters(golden_dir):
    golden = json.loads((golden_dir / "rollout_filter_batch.json").read_text())
    for case in golden["cases"]:
        rewards = golden["reward_matrices"][case["reward_matrix"]]
        filtered = filter_rows(rewards, metric=case["metric"], **case["config"])
        assert filtered.kept_rows == case["kept_rows"], case
        assert len(filtered.kept_rows) == case["batch_len"]
        np.testing.assert_allclose(filtered.row_std, case["reward_std"], rtol=1e-5, atol=1e-6)
        compare(filtered.metrics, public(case["metrics"]))
        assert filtered.kept_groups == sorted(case["metrics"]["rollout/_selected_group_ids"])
        np.testing.assert_allclose(
            group_scores(rewards), case["metrics"]["rollout/_group_reward_std"], rtol=1e-5, atol=1e-6
        )
    assert len(golden["cases"]) == 54


def test_golden_length_and_entropy_filters(golden_dir):
    cases = json.loads((golden_dir / "rollout_filter_batch.json").read_text())["length_entropy_cases"]
    for case in cases:
        lengths = np.array(case["lengths"])
        values = lengths
        if case["metric"] != "length":
            entropies = np.array(case["token_entropies"])
            mask = np.arange(entropies.shape[1]) < lengths.reshape(-1, 1)
            values = trajectory_entropies(entropies, mask).reshape(lengths.shape)
        filtered = filter_rows(values, metric=case["metric"], **case["config"])
        assert filtered.kept_rows == case["kept_rows"], case
        compare(filtered.metrics, public(case["metrics"]))
    assert {case["metric"] for case in cases} == {"length", "entropy", "entropy_variance"}


def test_golden_rows_that_are_turns(golden_dir):
    """Recorded with one row per episode; with several the released code fails, which is not copied."""
    cases = json.loads((golden_dir / "rollout_filter_batch.json").read_text())["turn_level_cases"]
    working = [case for case in cases if case["error"] is None]
    for case in working:
        filtered = filter_rows([0.0, 1.0, 2.0, 2.0], episode_ids=[10, 11, 12, 13], num_groups=2, **case["config"])
        assert filtered.kept_rows == case["kept_rows"]
        np.testing.assert_allclose(filtered.row_std, case["reward_std"], rtol=1e-6)
    assert len(working) == 2


def test_rows_of_one_episode_stay_together():
    ids = ["a", "a", "b", "c", "c", "c", "d"]
    options = {"strategy": "top_k", "value": 0.5, "num_groups": 2, "episode_ids": ids}
    rewards = filter_rows([1.0, 1.0, 0.0, 3.0, 3.0, 3.0, 3.0], **options)
    assert rewards.kept_groups == [0]
    assert rewards.kept_rows == [0, 1, 2]
    lengths = filter_rows([2, 3, 1, 4, 4, 4, 9], metric="length", **options)  # episodes of 5, 1, 12 and 9 tokens
    assert lengths.kept_rows == [3, 4, 5, 6]
    assert lengths.metrics["rollout/in_group_length_mean"] == np.mean([5, 1, 12, 9])
    entropies = filter_rows([1.0, 3.0, 2.0, 1.0, 2.0, 3.0, 0.0], metric="entropy", **options)  # 2, 2, 2, 0
    assert entropies.kept_rows == [0, 1, 2]


def test_episodes_are_ordered_by_their_first_row():
    filtered = filter_rows([5.0, 0.0, 1.0, 1.0], strategy="top_k", value=0.5, num_groups=2, episode_ids=[9, 3, 1, 2])
    assert filtered.kept_rows == [0, 1]


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (None, [0.70710678, 0.0, 2.82842712]),
        ("reward_variance", [0.70710678, 0.0, 2.82842712]),
        ("Reward_STD", [0.70710678, 0.0, 2.82842712]),
        ("reward", [0.5, 2.0, 2.0]),
        ("REWARD_SUM", [1.0, 4.0, 4.0]),
        ("entropy_std", [0.70710678, 0.0, 2.82842712]),
        ("Length", [0.5, 2.0, 2.0]),
    ],
)
def test_scores_by_name(metric, expected):
    np.testing.assert_allclose(group_scores(REWARDS, metric), expected, rtol=1e-6)


def test_its_variance_is_a_standard_deviation():
    np.testing.assert_allclose(group_scores(REWARDS) ** 2, core.group_variance(np.array(REWARDS)), rtol=1e-6)


@pytest.mark.parametrize("value", [0.1, -0.1, 0.3, 0.7, 10.4, 10.9])
def test_equal_rewards_have_std_zero(value):
    filtered = filter_rows([[value] * 16, [0.0, 1.0] * 8], strategy="top_k", value=1.0, include_zero=False)
    assert filtered.kept_groups == [1]
    assert filtered.metrics["rollout/filter_zero_count"] == 1


def test_nothing_kept_is_logged_as_zero():
    filtered = filter_rows([[1.0, 1.0]], strategy="top_p", value=0.9, include_zero=False)
    assert filtered.kept_rows == filtered.kept_groups == filtered.row_std == []
    assert filtered.metrics["rollout/chosen_in_group_reward_mean"] == 0
    assert filtered.metrics["rollout/filter_kept_ratio"] == 0


def test_refusals_name_the_value():
    with pytest.raises(ValueError, match="'bonus'"):
        group_scores(REWARDS, "bonus")
    with pytest.raises(ValueError, match="rollout 1 of group 0 is nan"):
        group_scores([[0.0, np.nan]], "reward")
    with pytest.raises(ValueError, match=r"\(2,\)"):
        group_scores([0.0, 1.0], "reward")
    with pytest.raises(ValueError, match="group size of at least 2"):
        group_scores([[1.0], [2.0]])
    with pytest.raises(ValueError, match="3 episodes do not divide into 2 groups"):
        filter_rows([1.0, 2.0, 3.0], strategy="top_k", value=0.5, num_groups=2, episode_ids=[1, 2, 3])
    with pytest.raises(ValueError, match="num_groups=None"):
        filter_rows([1.0, 2.0], strategy="top_k", value=0.5, episode_ids=[1, 2])
    with pytest.raises(ValueError, match="must both be"):
        trajectory_entropies([[1.0]], [[True, False]])
