"""Normalised rewards, and rewards on tokens."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ragen_jax.compat.ragen import normalize_rewards, turn_score_tensor

TWO_GROUPS = [{"group_id": 0, "tag": "a"}, {"group_id": 0, "tag": "a"}, {"group_id": 1, "tag": "a"}]
QWEN = {"start_token": 1, "end_token": 2, "newline_after_end": True}
LLAMA = {"start_token": 128006, "end_token": 128009, "newline_after_end": False}


def test_golden_normalisation(golden_dir):
    golden = json.loads((golden_dir / "reward_normalization.json").read_text())
    inputs = {name: golden[name] for name in ("env_outputs", "episode_rewards", "penalties")}
    for case in golden["cases"]:
        actual = normalize_rewards(**inputs, grouping=case["grouping"], method=case["method"])
        for layout in ("turn_level_result", "full_mode_result"):
            np.testing.assert_allclose(actual, case[layout], rtol=1e-5, atol=1e-7, err_msg=str(case))
    assert len(golden["cases"]) == 8


def test_golden_turn_scores(golden_dir):
    for case in json.loads((golden_dir / "turn_scores.json").read_text()):
        options = QWEN if case["tokenizer"].startswith("qwen") else LLAMA
        placed = turn_score_tensor(case["input_ids"], case["turn_scores"], **options)
        summed = turn_score_tensor(case["input_ids"], case["turn_scores"], use_turn_scores=False, **options)
        np.testing.assert_array_equal(placed.loss_mask, case["loss_mask"])
        np.testing.assert_array_equal(summed.score_tensor, np.array(case["score_tensor_sum"], np.float32))
        expected = np.array(case["score_tensor_turn"], np.float32)
        if options is LLAMA:  # recorded without the reward of the shorter episode, which stands on its last index
            assert expected[1].sum() == 0
            expected[1, -1] = case["turn_scores"][1][0]
        np.testing.assert_array_equal(placed.score_tensor, expected)


def test_without_a_response_mask_states_are_trained_too():
    ids = [[1, 8, 2, 3, 1, 9, 2, 3, 1, 7, 2, 3]]
    placed = turn_score_tensor(ids, [[1.0]], enable_response_mask=False, **QWEN)
    assert placed.loss_mask.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]]


def test_a_group_without_spread_becomes_zero():
    outputs = TWO_GROUPS[:2] * 2
    assert normalize_rewards(outputs, [2.0] * 4, method="mean_std") == [0.0] * 4
    assert normalize_rewards(TWO_GROUPS, [3.0, 1.0, 7.0], method="mean") == [1.0, -1.0, 0.0]
    np.testing.assert_allclose(
        normalize_rewards(TWO_GROUPS, [3.0, 1.0, 7.0], method="mean_std"), [0.70710628, -0.70710628, 0.0], rtol=1e-6
    )


def test_groups_of_one_are_left_alone():
    outputs = [{"group_id": group} for group in range(3)]
    assert normalize_rewards(outputs, [3.0, 1.0, 7.0], [0.0, -0.5, 0.0], method="mean_std") == [3.0, 0.5, 7.0]


def test_rare_successes_are_clipped_apart():
    outputs = [{"group_id": 0}] * 20
    rewards = [1.0] + [0.0] * 19
    plain = normalize_rewards(outputs, rewards, method="mean_std")
    clipped = normalize_rewards(outputs, rewards, method="asym_clip")
    assert plain[0] > 4
    assert clipped[0] == 3
    assert clipped[1:] == plain[1:]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"grouping": "colour"}, "'colour'"),
        ({"method": "median"}, "'median'"),
        ({"env_outputs": TWO_GROUPS[:2]}, "2 env_outputs"),
        ({"episode_rewards": [1.0, np.inf, 0.0]}, "episode 1 is inf"),
        ({"grouping": "inductive", "method": "mean", "env_outputs": [{"group_id": 0}] * 3}, "'tag'"),
    ],
)
def test_refusals_name_the_value(options, named):
    with pytest.raises(ValueError, match=named):
        normalize_rewards(**{"env_outputs": TWO_GROUPS, "episode_rewards": [1.0, 2.0, 3.0]} | options)


def test_turn_scores_must_fit_the_conversation():
    with pytest.raises(ValueError, match="row 0 has 1 closed replies and 2 turn scores"):
        turn_score_tensor([[1, 8, 2, 3, 1, 9, 2, 3, 1, 7, 2, 3]], [[1.0, 2.0]], **QWEN)
    with pytest.raises(ValueError, match="2 turn_scores"):
        turn_score_tensor([[1, 2]], [[], []], **QWEN)
