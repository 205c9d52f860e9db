"""Collapse metrics with the released code's definitions."""

from __future__ import annotations

import json
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core
from ragen_jax.compat.ragen import (
    collapse_metrics,
    collapse_metrics_with_ema,
    first_turn_columns,
    should_compute,
)
from ragen_jax.types import CrossScores

TWO = [[-1.0, -3.0], [-3.0, -1.0]]


def test_golden_metrics(golden_dir):
    golden = json.loads((golden_dir / "mi_metrics.json").read_text())
    for case in golden["cases"]:
        metrics = collapse_metrics(
            case["log_prob_sum"],
            case["lengths"],
            case["group_ids"],
            case["prompt_ids"],
            std_eps=golden["std_eps"],
            column_order=case.get("column_order"),
        )
        assert {f"collapse/{name}" for name in metrics} == set(case["metrics"])
        for name, value in metrics.items():
            expected = case["metrics"][f"collapse/{name}"]
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-7, err_msg=f"{case['name']}: {name}")
    assert len(golden["cases"]) == 6


def test_golden_moving_averages(golden_dir):
    state = None
    steps = json.loads((golden_dir / "mi_ema_sequence.json").read_text())
    for step in steps:
        metrics, state = collapse_metrics_with_ema(
            step["log_prob_sum"], step["lengths"], step["group_ids"], None, state, ema_decay=0.9
        )
        compared = [name for name in metrics if name in step]
        assert len(compared) == 6
        for name in compared:
            np.testing.assert_allclose(metrics[name], step[name], rtol=1e-5, err_msg=f"{step['step']}: {name}")
    assert len(steps) == 4


def test_golden_mismatch_and_schedule(golden_dir):
    assert json.loads((golden_dir / "mi_metrics.json").read_text())["prompt_mismatch_in_group_error"].startswith(
        "ValueError"
    )
    with pytest.raises(ValueError, match="group 0: samples 0 and 1"):
        first_turn_columns([0, 0], [[1, 2], [1, 3]])
    golden = json.loads((golden_dir / "mi_sampling.json").read_text())
    for step, due in golden["should_compute_freq5"].items():
        assert should_compute(int(step), compute_freq=5) == due
    disabled = should_compute(5, compute_freq=5, first_turn_enabled=False, multi_turn_enabled=False)
    assert disabled == golden["should_compute_both_disabled"]


def test_golden_keys(golden_dir):
    suffixes = collapse_metrics(TWO, [1, 1], [0, 1])
    prefixes = ("collapse_first_turn_sample", "collapse_trajectory_sample")
    keys = set(json.loads((golden_dir / "mi_logged_keys.json").read_text())["keys"])
    assert {key for key in keys if key.startswith(prefixes)} == {f"{p}/{name}" for p in prefixes for name in suffixes}


def test_by_hand():
    metrics = collapse_metrics(TWO, [2, 1], [0, 1])
    marginals = [math.log((math.exp(-0.5) + math.exp(-1.5)) / 2), math.log((math.exp(-3) + math.exp(-1)) / 2)]
    assert metrics["mi_estimate"] == pytest.approx((-0.5 - 1 - sum(marginals)) / 2)
    assert metrics["marginal_std"] == pytest.approx(np.std(marginals))
    assert metrics["mi_zscore"] == pytest.approx(metrics["mi_estimate"] / (np.std(marginals) + 1e-3))
    assert metrics["mi_seq_estimate"] == pytest.approx(-1 - math.log((math.exp(-3) + math.exp(-1)) / 2))
    assert metrics["conditional_entropy_est"] == 0.75
    assert metrics["mi_upper_bound"] == math.log(2)
    assert metrics["retrieval_accuracy"] == 1


def test_one_column_gives_nothing():
    assert collapse_metrics([[-1.0], [-2.0]], [1, 1], [0, 0]) == {}
    assert collapse_metrics_with_ema([[-1.0]], [1], [0]) == ({}, None)


def test_equal_prompts_are_merged_for_retrieval_only():
    scores = [[-2.0, -1.0, -3.0], [-1.0, -2.0, -3.0], [-5.0, -5.0, -1.0]]
    apart = collapse_metrics(scores, [1, 1, 1], [0, 1, 2])
    merged = collapse_metrics(scores, [1, 1, 1], [0, 1, 2], [[7], [7], [8]])
    assert apart["retrieval_accuracy"] == pytest.approx(1 / 3)
    assert merged["retrieval_accuracy"] == 1
    assert merged["retrieval_chance_level"] == pytest.approx((2 + 2 + 1) / 9)
    assert merged["retrieval_chance_level@2"] == 1.0  # 2 * 5 / 9, cut; the exact value is 8 / 9
    assert merged["mi_upper_bound"] == apart["mi_upper_bound"] == math.log(3)
    assert merged["mi_estimate"] == apart["mi_estimate"]


def test_labels_name_columns():
    sorted_labels = collapse_metrics(TWO, [1, 1], [40, 70], {"40": [1], "70": [2]})
    assert sorted_labels == collapse_metrics(TWO, [1, 1], [0, 1])
    reverse = collapse_metrics(TWO, [1, 1], group_ids=["b", "a"], column_order=["b", "a"])
    assert reverse == sorted_labels
    unseen = collapse_metrics([[-1.0, -2.0, -3.0]], [1], [0])  # columns 1 and 2 have no samples
    assert unseen["mi_upper_bound"] == math.log(3)


@given(st.integers(0, 10_000), st.sampled_from([(2, 1), (9, 3)]))
def test_distinct_prompts_give_the_values_of_core(seed, shape):
    prompts, rollouts = shape
    rng = np.random.default_rng(seed)
    log_probs = rng.normal(-20, 4, (prompts, rollouts, prompts)).astype(np.float32)
    lengths = rng.integers(1, 12, (prompts, rollouts))
    valid = np.ones((prompts, rollouts), bool)
    scores = CrossScores(log_probs=log_probs, lengths=lengths, valid=valid, column_class=np.arange(prompts))
    ours, _ = core.collapse_metrics(scores, mix="per_token")
    theirs = collapse_metrics(log_probs.reshape(-1, prompts), lengths.ravel(), np.repeat(np.arange(prompts), rollouts))
    for name, suffix in {
        "mi_token_nats": "mi_estimate",
        "mi_sequence_nats": "mi_seq_estimate",
        "marginal_std_token_nats": "marginal_std",
        "mi_zscore_ema": "mi_zscore_ema",
        "reasoning_entropy_sequence_nats": "reasoning_entropy_seq_est",
        "retrieval_accuracy@2": "retrieval_accuracy@2",
        "retrieval_chance@4": "retrieval_chance_level@4",
    }.items():
        np.testing.assert_allclose(ours[name], theirs[suffix], rtol=1e-4, atol=1e-5, err_msg=name)


def test_first_turn_columns():
    order, prompts = first_turn_columns([5, 1, 5], [[1, 2], [3], [1, 2]])
    assert order == [1, 5]
    assert prompts == {1: (3,), 5: (1, 2)}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (([[-1.0, float("nan")]], [1], [0]), "sample 0 under column 1 is nan"),
        ((TWO, [1], [0, 1]), r"lengths \(1,\)"),
        ((TWO, [1, -1], [0, 1]), "-1"),
        ((TWO, [1, 1], [0]), "1 column_ids for 2 samples"),
        ((TWO, [1, 1], [3, 3]), "2 columns of scores, but 1 labels"),
        ((TWO, [1, 1], [0, 1], [[1]]), "1 prompt_ids for 2 columns"),
        ((TWO, [1, 1], [0, 1], {0: [1]}), "lacks column 1"),
        ((TWO, [1, 1]), "column_ids or group_ids"),
    ],
)
def test_refusals_name_the_value(arguments, named):
    with pytest.raises(ValueError, match=named):
        collapse_metrics(*arguments)


def test_more_refusals():
    with pytest.raises(ValueError, match="'c', which is no column"):
        collapse_metrics(TWO, [1, 1], ["a", "c"], column_order=["a", "b"])
    with pytest.raises(ValueError, match="ema_decay=1"):
        collapse_metrics_with_ema(TWO, [1, 1], [0, 1], ema_decay=1)
    with pytest.raises(ValueError, match="compute_freq=0"):
        should_compute(1, compute_freq=0)
    with pytest.raises(ValueError, match="1 group_ids and 2 prompts"):
        first_turn_columns([0], [[1], [2]])
