"""Selections of the released code, group by group."""

from __future__ import annotations

import json

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core
from ragen_jax.compat.ragen import select_groups

SCORES = hnp.arrays(np.float32, 8, elements=st.integers(0, 40).map(lambda n: n / 4))


def test_golden_selections(golden_dir):
    golden = json.loads((golden_dir / "rollout_filter_select.json").read_text())
    for case in golden["cases"]:
        scores = golden["score_sets"][case["score_set"]]
        selected = select_groups(scores, **case["config"])
        assert case["error"] is None
        if case["compare"] == "count":  # equal scores at the cut: the order among them is not defined there
            assert len(selected) == len(case["selected"]), case
            continue
        if case["compare"] == "boundary":  # a sum that equals the threshold up to rounding: both answers are right
            assert set(selected) <= {0, 1, 2, 3} and len(selected) in (3, 4), case
            continue
        assert set(selected) == set(case["selected"]), case
        # Taken in the same order, up to the order of equal scores.
        assert [scores[group] for group in selected] == [scores[group] for group in case["selected"]], case
    assert len(golden["cases"]) > 500


def test_golden_errors(golden_dir):
    for case in json.loads((golden_dir / "rollout_filter_batch.json").read_text())["selection_errors"]:
        if case["error"]:
            with pytest.raises(ValueError, match="unknown"):
                select_groups(case["scores"], **case["config"])
        else:
            assert select_groups(case["scores"], **case["config"]) == case["selected"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # the walk stops at a score of 0 or less, and what it has then must reach the threshold
        ({"strategy": "top_p", "value": 0.9, "filter_type": "smallest"}, []),
        ({"strategy": "top_p", "value": 0.9, "filter_type": "smallest", "include_zero": False}, [3, 2, 1]),
        # a value of 1 or more takes everything that is left, in index order
        ({"strategy": "top_p", "value": 1.0}, [0, 1, 2, 3]),
        ({"strategy": "top_p", "value": 2.5, "include_zero": False, "filter_type": "smallest"}, [1, 2, 3]),
        # a share of all groups, also when zeros left
        ({"strategy": "top_k", "value": 0.5, "include_zero": False}, [1, 2]),
        ({"strategy": "top_k", "value": 0.0}, [1]),
        ({"strategy": "top_k_abs", "value": 2.9}, [1, 2]),
        ({"strategy": "top_k_abs", "value": 99, "include_zero": False}, [1, 2, 3]),
        ({"strategy": "min_p", "value": 0.5}, [1, 2]),
        ({"strategy": "min_p", "value": 0.5, "filter_type": "smallest", "include_zero": False}, [2, 3]),
    ],
)
def test_strategies(options, expected):
    assert select_groups([0.0, 4.0, 2.0, 1.0], **options) == expected


def test_a_threshold_below_zero_takes_nothing():
    assert select_groups([0.004, 0.003], strategy="top_p", value=0.9) == []
    assert select_groups([0.004, 0.003], strategy="top_p", value=0.9, selection_eps=0.0) == [0, 1]


def test_softmax_always_takes_one():
    assert select_groups([0.0, 0.0], strategy="top_p", value=0.3, top_p_prob_mode="softmax") == [0]
    smallest = {"strategy": "top_p", "value": 0.5, "top_p_prob_mode": "softmax", "filter_type": "smallest"}
    assert select_groups([5.0, 1.0, 3.0], **smallest) == [1]


def test_negative_scores():
    scores = [-1.0, 2.0, -3.0]
    assert select_groups(scores, strategy="top_p", value=0.9) == []  # the sum is negative
    assert select_groups([-1.0, -2.0], strategy="min_p", value=0.5) == []
    assert select_groups(scores, strategy="top_k", value=1.0) == [1, 0, 2]


def test_min_p_of_zeros_keeps_all_of_them():
    assert select_groups(np.zeros(3), strategy="min_p", value=0.5) == [0, 1, 2]


def test_the_zero_test_reads_the_score():
    noise = [9.8e-7, 1.0]  # the std of equal rewards, taken in float32
    assert select_groups(noise, strategy="top_k", value=1.0, include_zero=False) == [1, 0]
    assert select_groups([1e-10, 1.0], strategy="top_k", value=1.0, include_zero=False) == [1]


@given(SCORES, st.sampled_from([0.25, 0.5, 0.9]))
def test_top_p_without_slack_agrees_with_core(scores, value):
    kept = select_groups(scores, strategy="top_p", value=value, include_zero=False, selection_eps=1e-4)
    if not kept:
        assert not scores.any()
        return
    reference = core.filters.top_p(scores, rho=value, slack=1e-4)
    assert sorted(scores[kept]) == sorted(scores[np.flatnonzero(np.asarray(reference.keep))])


@given(SCORES, st.sampled_from([0.1, 0.5, 1.0]))
def test_min_p_agrees_with_core(scores, value):
    kept = select_groups(scores, strategy="min_p", value=value, include_zero=False)
    reference = core.filters.min_p(scores, threshold=value)
    assert kept == np.flatnonzero(np.asarray(reference.keep) & (scores > 0)).tolist()


@pytest.mark.parametrize(
    ("scores", "options", "named"),
    [
        ([1.0], {"strategy": "top_q"}, "'top_q'"),
        ([1.0], {"strategy": "top_p", "filter_type": "middle"}, "'middle'"),
        ([1.0], {"strategy": "top_k", "filter_type": "middle"}, "'middle'"),
        ([1.0], {"strategy": "top_p", "top_p_prob_mode": "square"}, "'square'"),
        ([1.0], {"strategy": "min_p", "top_p_prob_mode": "square"}, "'square'"),  # also where it is not read
        ([1.0], {"strategy": "top_p", "value": 1.0, "filter_type": "middle"}, "'middle'"),
        ([], {"strategy": "top_q"}, "'top_q'"),
        ([1.0, float("nan")], {"strategy": "top_p"}, "group 1 is nan"),
        ([[1.0]], {"strategy": "top_p"}, r"\(1, 1\)"),
    ],
)
def test_refusals_name_the_value(scores, options, named):
    with pytest.raises(ValueError, match=named):
        select_groups(scores, **{"value": 0.5} | options)
