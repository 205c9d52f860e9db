from __future__ import annotations

import dataclasses
import json

import jax
import numpy as np
import pytest

from ragen_jax.core import filters
from ragen_jax.core.filters.result import trained_rows
from ragen_jax.core.scores import ScoreInputs, group_scores

SCORES = np.array([0.0, 4.0, 1.0, 3.0, 0.0, 2.0, 5.0, 6.0], np.float32)
FLAT = SCORES == 0
VALUES = {"top_k_count": 3, "quartile": 2}


def kept(result):
    return np.flatnonzero(np.asarray(result.keep)).tolist()


def run(rule, value, scores=SCORES, **options):
    return filters.select(scores, np.asarray(scores) == 0, rule=rule, value=value, **options)


@pytest.mark.parametrize("rule", list(filters.FILTERS))
def test_every_registered_rule_runs_inside_jit_and_fills_the_result(rule):
    value = VALUES.get(rule, 0.5)
    compiled = jax.jit(lambda scores, flat: filters.select(scores, flat, rule=rule, value=value, loss_scale="linear"))
    result = compiled(SCORES, FLAT)
    assert result.keep.shape == SCORES.shape
    assert result.keep.dtype == bool
    assert 0 < int(result.kept_count) == np.asarray(result.keep).sum()
    np.testing.assert_allclose(result.kept_mass, SCORES[np.asarray(result.keep)].sum() / SCORES.sum(), rtol=1e-6)
    np.testing.assert_array_equal(result.scores, SCORES)
    expected = 1.0 if rule == "none" else int(result.kept_count) / 8
    np.testing.assert_allclose(result.loss_scale, expected, rtol=1e-6)
    assert kept(result) == kept(run(rule, value))


@pytest.mark.parametrize("rule", [name for name in filters.FILTERS if name not in ("none", "quartile")])
def test_c15_a_batch_of_flat_groups_keeps_nothing(rule):
    result = run(rule, VALUES.get(rule, 0.5), scores=np.zeros(8, np.float32))
    assert (kept(result), float(result.kept_mass)) == ([], 0.0)


def test_no_filter_keeps_flat_groups_too():
    assert kept(run("none", 0.9)) == list(range(8))


def test_nonzero_drops_flat_groups_only():
    assert kept(run("nonzero", 0)) == [1, 2, 3, 5, 6, 7]


def test_top_k_counts_a_share_of_all_prompts():
    assert kept(run("top_k", 0.5)) == [1, 3, 6, 7]
    assert kept(run("top_k", 0.01)) == [7]
    assert kept(run("top_k", 1.0)) == [1, 2, 3, 5, 6, 7]
    assert kept(run("top_k", 1.0, include_zero=True)) == list(range(8))
    assert len(kept(run("top_k", 0.29, scores=np.arange(1, 101, dtype=np.float32)))) == 29


def test_top_k_count_breaks_ties_in_prompt_order():
    assert kept(run("top_k_count", 2, scores=np.ones(5, np.float32))) == [0, 1]
    assert kept(run("top_k_count", 100)) == [1, 2, 3, 5, 6, 7]
    assert kept(filters.top_k_count(np.array([-1.0, -3.0, 2.0], np.float32), count=2)) == [0, 2]


def test_min_p_is_a_share_of_the_largest_score():
    assert kept(run("min_p", 0.5)) == [1, 3, 6, 7]
    assert kept(run("min_p", 1.0)) == [7]
    assert kept(run("min_p", 0.1, scores=np.array([0.3, 0.03, 0.02], np.float32))) == [0, 1]


def test_quartiles_share_out_the_batch():
    quarters = [kept(run("quartile", index)) for index in (1, 2, 3, 4)]
    assert quarters[:3] == [[6, 7], [1, 3], [2, 5]]
    assert quarters[3] == [0, 4]
    uneven = [kept(run("quartile", index, scores=np.arange(10, dtype=np.float32))) for index in (1, 2, 3, 4)]
    assert sorted(prompt for quarter in uneven for prompt in quarter) == list(range(10))
    assert {len(quarter) for quarter in uneven} == {2, 3}


@pytest.mark.parametrize(("loss_scale", "expected"), [("none", 1.0), ("linear", 0.25), ("sqrt", 0.5), ("rho", 0.3)])
def test_loss_scale(loss_scale, expected):
    result = run("top_p", 0.3, scores=np.array([8.0, 1.0, 1.0, 1.0], np.float32), loss_scale=loss_scale)
    assert int(result.kept_count) == 1
    np.testing.assert_allclose(result.loss_scale, expected, rtol=1e-6)


def test_refusals_name_the_value():
    with pytest.raises(KeyError, match="did you mean 'top_p'"):
        run("topp", 0.9)
    with pytest.raises(ValueError, match="'cubic'"):
        run("top_p", 0.9, loss_scale="cubic")
    with pytest.raises(ValueError, match=r"fraction=1.5"):
        run("top_k", 1.5)
    for count in (0, 2.5, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"count={count}"):
            run("top_k_count", count)
    with pytest.raises(ValueError, match="index=5"):
        run("quartile", 5)
    with pytest.raises(ValueError, match="3 prompts"):
        run("quartile", 1, scores=np.ones(3, np.float32))
    with pytest.raises(ValueError, match="threshold=0"):
        run("min_p", 0)
    with pytest.raises(ValueError, match=r"prompt 0 is -1.0"):
        run("min_p", 0.5, scores=np.array([-1.0, -2.0], np.float32))
    for rule in ("min_p", "quartile", "nonzero", "top_k", "top_k_count"):
        with pytest.raises(ValueError, match="loss_scale='rho'"):
            run(rule, VALUES.get(rule, 0.5), loss_scale="rho")
    for rule in filters.FILTERS:
        with pytest.raises(ValueError, match="prompt 2 is inf"):
            run(rule, VALUES.get(rule, 0.5), scores=np.array([1, 2, np.inf, 3], np.float32))


RULES = {("top_p", "largest"): "top_p", ("top_p", "smallest"): "reverse_top_p"} | {
    (strategy, "largest"): rule
    for strategy, rule in (("top_k", "top_k"), ("top_k_abs", "top_k_count"), ("min_p", "min_p"))
}


def comparable(scores, config):
    """Cases in which core means the same as the released code."""
    if (config["strategy"], config["filter_type"]) not in RULES:
        return False
    smallest = config["filter_type"] == "smallest"
    if smallest and config["top_p_prob_mode"] == "softmax":
        return False
    if config["strategy"] in ("top_p", "min_p") and config["top_p_prob_mode"] == "linear" and min(scores) < 0:
        return False  # refused here, kept nothing there
    zeros = config["include_zero"] and 0.0 in scores
    if config["strategy"] == "top_p" and (config["value"] >= 1 or smallest):
        return not zeros  # there: a share of 1 takes all, and a zero in front stops the walk
    return not (config["strategy"] == "min_p" and zeros and not any(scores))


def test_golden_selections(golden_dir):
    golden = json.loads((golden_dir / "rollout_filter_select.json").read_text())
    compared = 0
    for case in golden["cases"]:
        scores, config = golden["score_sets"][case["score_set"]], case["config"]
        if case["error"] or case["compare"] == "boundary" or not comparable(scores, config):
            continue
        whole = config["strategy"] == "top_p" and config["value"] >= 1
        result = run(
            RULES[config["strategy"], config["filter_type"]],
            config["value"],
            scores=np.array(scores, np.float32),
            include_zero=config["include_zero"],
            slack=0.0 if config["top_p_prob_mode"] == "softmax" or whole else config["selection_eps"],
            mass=config["top_p_prob_mode"],
        )
        if case["compare"] == "set":
            assert set(kept(result)) == set(case["selected"]), case
        else:
            assert int(result.kept_count) == len(case["selected"]), case
        compared += 1
    assert compared > 200


SCORE_OF_METRIC = {"reward_variance": "reward_std", "reward": "reward_mean", "reward_sum": "reward_sum"}
OPTIONS = {"include_zero": True, "top_p_prob_mode": "linear", "selection_eps": 0.01, "filter_type": "largest"}


def golden_batches(golden):
    """(score [P], case) of every case that was run; the file's entropy variance is a standard deviation."""
    for case in golden["cases"]:
        rewards = np.array(golden["reward_matrices"][case["reward_matrix"]], np.float32)
        inputs = ScoreInputs(rewards=rewards, valid=np.ones(rewards.shape, bool))
        yield group_scores(SCORE_OF_METRIC[case["metric"]], inputs), case
    for case in golden["length_entropy_cases"]:
        lengths = np.array(case["lengths"], np.float32)
        inputs = ScoreInputs(rewards=lengths, valid=np.ones(lengths.shape, bool), lengths=lengths)
        if "token_entropies" in case:
            tokens = np.array(case["token_entropies"], np.float64)
            mask = np.arange(tokens.shape[1]) < lengths.reshape(-1, 1)
            means = (tokens * mask).sum(1) / mask.sum(1)
            inputs = inputs._replace(entropies=means.reshape(lengths.shape).astype(np.float32))
        score = group_scores(case["metric"], inputs)
        yield np.sqrt(score) if case["metric"] == "entropy_variance" else score, case


def test_golden_batches(golden_dir):
    """From rewards, lengths and entropies to the kept rows."""
    golden = json.loads((golden_dir / "rollout_filter_batch.json").read_text())
    compared = set()
    for scores, case in golden_batches(golden):
        config = OPTIONS | case["config"]
        if case.get("error") or not comparable(np.asarray(scores).tolist(), config):
            continue
        linear = config["strategy"] == "top_p" and config["top_p_prob_mode"] == "linear"
        result = run(
            RULES[config["strategy"], config["filter_type"]],
            config["value"],
            scores=np.asarray(scores),
            include_zero=config["include_zero"],
            slack=config["selection_eps"] if linear and config["value"] < 1 else 0.0,
            mass=config["top_p_prob_mode"] if config["strategy"] == "top_p" else "linear",
        )
        group = len((case.get("lengths") or golden["reward_matrices"][case["reward_matrix"]])[0])
        assert kept(result) == sorted({row // group for row in case["kept_rows"]}), case
        compared.add(case["metric"])
    assert compared == {"reward_variance", "reward", "reward_sum", "length", "entropy", "entropy_variance"}


def test_trained_rows_are_valid_rows_of_kept_groups_that_the_group_filter_left_in():
    result = run("top_k_count", 1, scores=np.array([1.0, 2.0], np.float32))
    valid = np.array([[True, True, True], [True, True, False]])
    assert np.asarray(trained_rows(result, valid)).tolist() == [[False] * 3, [True, True, False]]
    inside = dataclasses.replace(result, row_keep=np.array([[True] * 3, [False, True, True]]))
    assert np.asarray(trained_rows(inside, valid)).tolist() == [[False] * 3, [False, True, False]]
    with pytest.raises(AssertionError):
        trained_rows(result, valid[:1])
