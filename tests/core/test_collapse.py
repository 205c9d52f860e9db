from __future__ import annotations

import itertools
import json
import math

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core
from ragen_jax.types import CollapseState, CrossScores
from tests.oracles import collapse as oracle

metrics_of = jax.jit(core.collapse_metrics, static_argnames=("mix", "std_eps", "ema_decay"))
retrieve = jax.jit(core.retrieval_accuracy, static_argnames="k")
matched_and_marginal = jax.jit(core.matched_and_marginal, static_argnames="mix")


def make(log_probs, lengths=None, valid=None, column_class=None):
    log_probs = np.asarray(log_probs, np.float32)
    columns, group, _ = log_probs.shape
    return CrossScores(
        log_probs=log_probs,
        lengths=np.full((columns, group), 5, np.int32) if lengths is None else np.asarray(lengths, np.int32),
        valid=np.ones((columns, group), bool) if valid is None else np.asarray(valid, bool),
        column_class=np.arange(columns, dtype=np.int32) if column_class is None else np.asarray(column_class, np.int32),
    )


def diagonal(columns, own, other):
    return np.where(np.eye(columns, dtype=bool), own, other)[:, None, :]


@st.composite
def cross_scores(draw):
    columns, group = 4, 2  # one shape, one compilation
    # Halves and few of them, so that ties happen.
    grid = st.integers(-12, 0).map(lambda n: n / 2)
    log_probs = draw(hnp.arrays(np.float32, (columns, group, columns), elements=grid))
    classes = np.array(draw(st.lists(st.integers(0, columns - 1), min_size=columns, max_size=columns)))
    for j in range(columns):
        log_probs[:, :, j] = log_probs[:, :, int(np.argmax(classes == classes[j]))]
    valid = draw(hnp.arrays(bool, (columns, group)))
    lengths = draw(hnp.arrays(np.int32, (columns, group), elements=st.integers(1, 9)))
    return make(log_probs, lengths, valid, classes)


@pytest.mark.parametrize(
    ("columns", "own", "other", "mi", "accuracy"),
    [
        (4, -1000.0, -1100.0, math.log(4), 1.0),
        (2, -1.0, -2.0, 0.3799, 1.0),
        (2, -2.0, -1.0, -0.6201, 0.0),
        (4, -5.0, -5.0, 0.0, 0.25),
    ],
)
def test_c41_mutual_information_between_prompt_and_reasoning(columns, own, other, mi, accuracy):
    metrics, _ = metrics_of(make(diagonal(columns, own, other)))
    np.testing.assert_allclose(metrics["mi_sequence_nats"], mi, atol=1e-4)
    np.testing.assert_allclose(metrics["retrieval_accuracy"], accuracy, atol=1e-6)
    assert float(metrics["mi_sequence_nats"]) <= math.log(columns) + 1e-6


@pytest.mark.parametrize("mix", ["sequence", "per_token"])
@given(scores=cross_scores())
def test_every_metric_agrees_with_the_oracle(mix, scores):
    metrics, _ = metrics_of(scores, mix=mix)
    if not scores.valid.any():
        return
    expected = oracle.metrics(scores.log_probs, scores.lengths, scores.valid, scores.column_class, mix=mix)
    for name, value in expected.items():
        # The z-score divides by a spread that may be as small as rounding: looser where the spread is.
        tolerance = 2e-3 if name.startswith("mi_zscore") else 1e-5
        np.testing.assert_allclose(metrics[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("mix", ["sequence", "per_token"])
@given(scores=cross_scores())
def test_reasoning_entropy_is_information_plus_conditional_entropy(mix, scores):
    metrics, _ = metrics_of(scores, mix=mix)
    for unit in ("sequence", "token"):
        total = metrics[f"mi_{unit}_nats"] + metrics[f"conditional_entropy_{unit}_nats"]
        assert float(metrics[f"reasoning_entropy_{unit}_nats"]) == float(total)


@given(scores=cross_scores())
def test_rows_of_matched_and_marginal_average_to_the_metrics(scores):
    matched, marginal = (np.asarray(x, np.float64) for x in matched_and_marginal(scores))
    assert not matched[~scores.valid].any()
    assert not marginal[~scores.valid].any()
    if scores.valid.any():
        metrics, _ = metrics_of(scores)
        means = [-matched[scores.valid].mean(), -marginal[scores.valid].mean()]
        names = ["conditional_entropy_sequence_nats", "reasoning_entropy_sequence_nats"]
        np.testing.assert_allclose([metrics[name] for name in names], means, rtol=1e-5, atol=1e-5)


def test_zscore_of_rows_is_the_metric():
    scores = make(np.random.default_rng(5).normal(size=(3, 2, 3)), valid=[[1, 1], [0, 1], [1, 0]])
    metrics, _ = metrics_of(scores, mix="per_token")
    matched, marginal = matched_and_marginal(scores, mix="per_token")
    zscore = core.mi_zscore(matched, marginal, metrics["marginal_std_token_nats"], valid=scores.valid)
    np.testing.assert_allclose(zscore, metrics["mi_zscore"], rtol=1e-4)


@given(scores=cross_scores())
def test_information_never_exceeds_its_ceiling(scores):
    metrics, _ = metrics_of(scores)
    assert float(metrics["mi_sequence_nats"]) <= float(metrics["mi_sequence_ceiling_nats"]) + 1e-6


@pytest.mark.parametrize("mix", ["sequence", "per_token"])
@pytest.mark.parametrize("columns", [1, 3, 7, 10, 49])
def test_identical_columns_give_zero_information_and_chance_accuracy_exactly(columns, mix):
    rng = np.random.default_rng(columns)
    row = (1000 * rng.normal(size=(columns, 2, 1))).astype(np.float32)
    metrics, _ = metrics_of(make(np.repeat(row, columns, axis=2)), mix=mix)
    assert float(metrics["mi_sequence_nats"]) == 0.0
    assert float(metrics["mi_token_nats"]) == 0.0
    assert float(metrics["mi_zscore"]) == 0.0
    for suffix in ("", "@2", "@4", "@8"):
        assert float(metrics[f"retrieval_accuracy{suffix}"]) == float(metrics[f"retrieval_chance{suffix}"])


def test_without_duplicates_the_ceiling_is_the_log_of_the_column_count():
    metrics, _ = metrics_of(make(diagonal(8, -1.0, -2.0)))
    np.testing.assert_allclose(metrics["mi_sequence_ceiling_nats"], math.log(8), rtol=1e-6)


def test_duplicates_lower_the_ceiling_to_the_entropy_of_the_class_weights():
    classes = [0, 0, 0, 1]
    log_probs = np.where(np.equal.outer(classes, classes), 0.0, -200.0)[:, None, :]
    metrics, _ = metrics_of(make(log_probs, column_class=classes))
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    np.testing.assert_allclose(metrics["mi_sequence_ceiling_nats"], entropy, rtol=1e-6)
    np.testing.assert_allclose(metrics["mi_sequence_nats"], entropy, rtol=1e-6)
    assert float(metrics["retrieval_accuracy"]) == 1.0


def test_one_class_has_no_information_however_its_columns_are_rounded():
    rng = np.random.default_rng(4)
    log_probs = -100.0 + 0.01 * rng.normal(size=(6, 2, 6))
    metrics, _ = metrics_of(make(log_probs, column_class=[0] * 6))
    assert float(metrics["mi_sequence_nats"]) == float(metrics["mi_sequence_ceiling_nats"]) == 0.0
    assert float(metrics["retrieval_accuracy"]) == float(metrics["retrieval_chance"]) == 1.0


@pytest.mark.parametrize(("columns", "size", "k"), [(6, 1, 1), (6, 2, 2), (8, 3, 4), (5, 5, 2), (4, 1, 9)])
def test_chance_is_the_hypergeometric_probability(columns, size, k):
    classes = [0] * size + list(range(1, columns - size + 1))
    valid = np.zeros((columns, 1), bool)
    valid[0] = True
    scores = make(np.zeros((columns, 1, columns)), valid=valid, column_class=classes)
    accuracy, chance = retrieve(scores, k=k)
    draws = min(k, columns)
    expected = 1 - math.comb(columns - size, draws) / math.comb(columns, draws)
    np.testing.assert_allclose(chance, expected, rtol=1e-6)
    assert float(accuracy) == float(chance)


def test_ties_count_as_shares():
    log_probs = np.array([[[-1.0, -1.0, -1.0, -9.0]]] * 4, np.float32)
    valid = np.zeros((4, 1), bool)
    valid[1] = True
    scores = make(log_probs, valid=valid)
    accuracies = [float(retrieve(scores, k=k)[0]) for k in (1, 2, 3)]
    np.testing.assert_allclose(accuracies, [1 / 3, 2 / 3, 1.0], rtol=1e-6)


def test_prompts_and_rollouts_commute():
    rng = np.random.default_rng(3)
    log_probs = rng.normal(size=(4, 3, 4)).astype(np.float32)
    lengths = rng.integers(1, 9, (4, 3))
    order, inner = [2, 0, 3, 1], [1, 2, 0]
    first, _ = metrics_of(make(log_probs, lengths))
    second, _ = metrics_of(make(log_probs[order][:, inner][:, :, order], lengths[order][:, inner]))
    for name in first:
        np.testing.assert_allclose(second[name], first[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_rows_that_are_not_valid_change_nothing():
    log_probs = diagonal(3, -1.0, -4.0).repeat(2, axis=1).astype(np.float32)
    clean, _ = metrics_of(make(log_probs[:, :1]))
    log_probs[:, 1] = np.nan
    valid = np.array([[True, False]] * 3)
    lengths = np.array([[5, 0]] * 3)
    dirty, _ = metrics_of(make(log_probs, lengths, valid))
    assert (int(dirty["scored"]), int(dirty["unscored"])) == (3, 3)
    for name in set(clean) - {"unscored"}:
        np.testing.assert_allclose(dirty[name], clean[name], rtol=1e-6, err_msg=name)


def test_nothing_scored_gives_zeros_and_leaves_the_average_alone():
    state = CollapseState(ema_std=np.float32(0.5), ema_std_sequence=np.float32(4.0), count=np.int32(3))
    scores = make(np.full((3, 2, 3), np.nan), valid=np.zeros((3, 2)), lengths=np.zeros((3, 2)))
    metrics, after = metrics_of(scores, state)
    others = {name: float(value) for name, value in metrics.items() if name not in ("unscored",)}
    assert others.pop("marginal_std_ema_token_nats") == 0.5 and others.pop("marginal_std_ema_sequence_nats") == 4.0
    assert set(others.values()) == {0.0}
    assert int(metrics["unscored"]) == 6
    assert (float(after.ema_std), float(after.ema_std_sequence), int(after.count)) == (0.5, 4.0, 3)


def test_trajectory_draws_use_one_rollout_per_column():
    metrics, _ = metrics_of(make(diagonal(6, -3.0, -30.0)))
    np.testing.assert_allclose(metrics["mi_sequence_nats"], math.log(6), atol=1e-5)
    np.testing.assert_allclose(metrics["mi_token_nats"], math.log(6) / 5, atol=1e-5)


def test_arrays_that_a_jitted_function_closes_over_are_fine():
    scores = make(diagonal(3, -1.0, -4.0))
    inside = jax.jit(lambda: core.collapse_metrics(scores)[0])()
    outside, _ = core.collapse_metrics(scores)
    for name in inside:
        np.testing.assert_allclose(inside[name], outside[name], rtol=1e-6, atol=1e-6, err_msg=name)


def test_refusals():
    scores = make(diagonal(2, -1.0, -2.0))
    with pytest.raises(ValueError, match="'tokens'"):
        core.collapse_metrics(scores, mix="tokens")
    for value in (np.nan, -np.inf):
        broken = make(diagonal(3, -1.0, value), valid=[[0], [1], [1]])
        with pytest.raises(ValueError, match="rollout 0 of prompt 1 under prompt 0"):
            core.collapse_metrics(broken)
    with pytest.raises(ValueError, match="k=0"):
        core.retrieval_accuracy(scores, k=0)
    with pytest.raises(AssertionError):
        core.collapse_metrics(scores.replace(log_probs=np.zeros((2, 1, 3), np.float32)))


def test_unscored_rows_are_bounded_by_saying_nothing_and_saying_everything():
    log_probs = np.random.default_rng(7).normal(size=(4, 3, 4)).astype(np.float32)
    classes = [0, 0, 1, 2]
    log_probs[:, :, 1] = log_probs[:, :, 0]
    valid = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]], bool)
    scores = make(log_probs, valid=valid, column_class=classes)
    matched, marginal = matched_and_marginal(scores)
    gains = (np.asarray(matched) - np.asarray(marginal))[valid].sum()
    bounds = core.mi_bounds(scores)
    np.testing.assert_allclose(bounds.silent, gains / 12, rtol=1e-4, atol=1e-6)
    identified = 3 * math.log(2) + 3 * math.log(4)  # two and one of the pair, three of the third prompt
    np.testing.assert_allclose(bounds.identifying, (gains + identified) / 12, rtol=1e-4)


@given(scores=cross_scores())
def test_whatever_the_unscored_rows_hold_it_stays_below_the_upper_bound(scores):
    everything, _ = metrics_of(scores.replace(valid=np.ones_like(scores.valid)))
    assert float(everything["mi_sequence_nats"]) <= float(core.mi_bounds(scores).identifying) + 1e-5


def test_bounds_meet_when_every_row_is_scored_and_span_the_ceiling_when_none_is():
    scores = make(np.random.default_rng(8).normal(size=(5, 2, 5)))
    metrics, _ = metrics_of(scores)
    np.testing.assert_allclose(np.array(core.mi_bounds(scores)), [float(metrics["mi_sequence_nats"])] * 2, rtol=1e-5)
    nothing = scores.replace(valid=np.zeros((5, 2), bool))
    np.testing.assert_allclose(np.array(core.mi_bounds(nothing)), [0.0, math.log(5)], rtol=1e-6)


def test_one_prompt_or_one_rollout_has_no_information_to_show():
    alone, _ = metrics_of(make(np.full((1, 3, 1), -4.0)))
    assert float(alone["mi_sequence_nats"]) == float(alone["mi_sequence_ceiling_nats"]) == 0.0
    assert float(alone["retrieval_accuracy"]) == float(alone["retrieval_chance"]) == 1.0
    single = core.batch_mi_interval(make(np.random.default_rng(9).normal(size=(4, 1, 4))))
    assert np.isnan([single.low, single.high, single.std_error]).all()  # one rollout shows no spread
    assert np.isfinite(single.estimate)


# Names of the released code for our metrics, with mix="per_token".
REFERENCE_NAMES = {
    "mi_token_nats": "mi_estimate",
    "mi_sequence_nats": "mi_seq_estimate",
    "matched_token_nats": "matched_log_prob_mean",
    "marginal_token_nats": "marginal_log_prob_mean",
    "conditional_entropy_token_nats": "conditional_entropy_est",
    "conditional_entropy_sequence_nats": "conditional_entropy_seq_est",
    "reasoning_entropy_token_nats": "reasoning_entropy_est",
    "reasoning_entropy_sequence_nats": "reasoning_entropy_seq_est",
    "marginal_std_token_nats": "marginal_std",
    "marginal_std_ema_token_nats": "marginal_std_ema",
    "mi_zscore": "mi_zscore",
    "mi_zscore_ema": "mi_zscore_ema",
    "marginal_std_sequence_nats": "marginal_std_seq",
    "marginal_std_ema_sequence_nats": "marginal_std_ema_seq",
    "mi_zscore_sequence": "mi_zscore_seq",
}
# One case gives equal prompts unequal scores, which no model does, and counts its ceiling and chance@k wrongly. It is
# read with every column apart, and compared on what does not depend on the classes.
WITHOUT_DUPLICATES = {
    "retrieval_accuracy": "retrieval_accuracy",
    "retrieval_chance": "retrieval_chance_level",
    "mi_sequence_ceiling_nats": "mi_upper_bound",
    **{
        f"retrieval_{ours}@{k}": f"retrieval_{theirs}@{k}"
        for (ours, theirs), k in itertools.product((("accuracy", "accuracy"), ("chance", "chance_level")), (2, 4, 8))
    },
}
PAPER_NAMES = {
    "mi_token_nats": "mi_estimate",
    "conditional_entropy_token_nats": "conditional_entropy",
    "reasoning_entropy_token_nats": "marginal_entropy",
    "marginal_std_token_nats": "marginal_std",
    "mi_zscore": "mi_zscore",
    "retrieval_accuracy": "retrieval_accuracy",
}


def from_samples(case):
    """Flat samples with a group id each, as our [C, G, C]."""
    order = case.get("column_order") or sorted(set(case["group_ids"]))
    members = {g: [i for i, h in enumerate(case["group_ids"]) if h == g] for g in order}
    group = max(len(m) for m in members.values())
    log_probs = np.zeros((len(order), group, len(order)))
    lengths, valid = np.zeros((len(order), group)), np.zeros((len(order), group))
    for row, g in enumerate(order):
        for k, sample in enumerate(members[g]):
            log_probs[row, k] = case["log_prob_sum"][sample]
            lengths[row, k], valid[row, k] = case["lengths"][sample], 1
    return make(log_probs, lengths, valid)


def test_golden_metrics(golden_dir):
    cases = json.loads((golden_dir / "mi_metrics.json").read_text())["cases"]
    compared = 0
    for case in cases:
        if not case["metrics"]:  # a single prompt: the released code returns nothing
            continue
        scores = from_samples(case)
        duplicates = len({tuple(prompt) for prompt in case["prompt_ids"].values()}) < len(case["prompt_ids"])
        reference, _ = metrics_of(scores, mix="per_token")
        names = REFERENCE_NAMES if duplicates else REFERENCE_NAMES | WITHOUT_DUPLICATES
        for ours, theirs in names.items():
            expected = case["metrics"][f"collapse/{theirs}"]
            np.testing.assert_allclose(
                reference[ours], expected, rtol=1e-5, atol=2e-5, err_msg=f"{case['name']}: {ours}"
            )
            compared += 1
        paper, _ = metrics_of(scores)
        for ours, theirs in PAPER_NAMES.items() if "paper_definition" in case else ():
            np.testing.assert_allclose(
                paper[ours], case["paper_definition"][theirs], rtol=1e-5, atol=2e-5, err_msg=f"{case['name']}: {ours}"
            )
    assert compared > 75


def test_golden_moving_average(golden_dir):
    state = None
    for step in json.loads((golden_dir / "mi_ema_sequence.json").read_text()):
        metrics, state = metrics_of(from_samples(step), state, mix="per_token")
        np.testing.assert_allclose(metrics["marginal_std_token_nats"], step["marginal_std"], rtol=1e-5)
        np.testing.assert_allclose(metrics["marginal_std_ema_token_nats"], step["marginal_std_ema"], rtol=1e-5)
        np.testing.assert_allclose(metrics["mi_zscore_ema"], step["mi_zscore_ema"], rtol=1e-4)
    assert int(state.count) == 4
