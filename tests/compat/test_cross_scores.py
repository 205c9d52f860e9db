"""Cross log-probs by whole passes of any scorer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ragen_jax.compat.ragen import cross_log_probs, pad_reasonings


def toy_scorer(ids, attention):
    """The recorded scorer: -(((3 * attended ids before + 5 * id + position) mod 17) / 10) - 0.05."""
    attended = ids * attention
    before = np.cumsum(attended, axis=1) - attended
    return -((3 * before + 5 * ids + np.arange(ids.shape[1])) % 17) / 10 - 0.05


def test_golden_cross_scores(golden_dir):
    golden = json.loads((golden_dir / "mi_cross_logprob.json").read_text())
    ids, mask = pad_reasonings(golden["reasonings"], pad_id=golden["pad_id"])
    np.testing.assert_array_equal(ids, golden["padded_ids"])
    np.testing.assert_array_equal(mask, golden["mask"])
    for world, recorded in ((1, "scorer_call_shapes_world1"), (3, "scorer_call_shapes_world3")):
        shapes = []

        def scorer(ids, attention, shapes=shapes):
            shapes.append(list(ids.shape))
            return toy_scorer(ids, attention)

        prompts = list(golden["prompts"].values())
        scores = cross_log_probs(prompts, golden["reasonings"], scorer, pad_id=golden["pad_id"], row_multiple=world)
        np.testing.assert_allclose(scores.mean_log_prob, golden["mean_log_prob"], rtol=1e-5)
        np.testing.assert_allclose(scores.sum_log_prob, golden["sum_log_prob"], rtol=1e-5)
        assert shapes == golden[recorded]


def test_an_empty_reasoning_scores_zero():
    scores = cross_log_probs([[1]], [[], [2]], toy_scorer, pad_id=0)
    assert scores.mean_log_prob[0, 0] == scores.sum_log_prob[0, 0] == 0


def test_refusals_name_the_value():
    with pytest.raises(ValueError, match="no reasonings"):
        cross_log_probs([[1]], [], toy_scorer, pad_id=0)
    with pytest.raises(ValueError, match="row_multiple=0"):
        cross_log_probs([[1]], [[2]], toy_scorer, pad_id=0, row_multiple=0)
    with pytest.raises(ValueError, match=r"gave \(1,\) for ids of shape \(1, 2\)"):
        cross_log_probs([[1]], [[2]], lambda ids, attention: ids[:, 0], pad_id=0)
