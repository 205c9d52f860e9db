"""The length penalty joins the penalties of a batch and leaves returns and records alone."""

from __future__ import annotations

import dataclasses

import numpy as np

from ragen_jax.rollout.episodes import Rollout, RolloutInfo
from ragen_jax.training.shaping import add_overlong, overlong_of_rows
from tests.learner.test_prepare import MASK, rollout_batch
from tests.training_fixtures import tiny_config


def config(**reward: float):
    return tiny_config(None, rollout={"max_new_tokens": 4, "max_context": 32}, reward=reward)


def test_each_turn_is_measured_against_its_own_budget():
    """Turns of 2 and 1, 1, 3, 2 and 2, 1 and 1, 6 tokens; budget 4, buffer 2."""
    penalties = overlong_of_rows(rollout_batch(), config(overlong_buffer=2, overlong_penalty=0.6), max_turns=2)
    np.testing.assert_allclose(penalties, [0, 0, -0.3, 0, 0, -0.6], atol=1e-6)
    buffer_4 = overlong_of_rows(rollout_batch(), config(overlong_buffer=4), max_turns=2)
    np.testing.assert_allclose(buffer_4, [-0.75, -0.25, -0.75, -1.0, -0.5, -1.0], atol=1e-6)


def test_rows_that_failed_have_no_penalty():
    batch = rollout_batch(valid=np.array([True, True, False, True, True, True]))
    assert overlong_of_rows(batch, config(overlong_buffer=2), max_turns=2)[2] == 0


def test_it_is_added_to_the_penalties_only():
    batch = rollout_batch()
    shaped = add_overlong(
        Rollout(batch=batch, info=RolloutInfo(episodes=(), group_size=2)), config(overlong_buffer=2), max_turns=2
    ).batch
    np.testing.assert_allclose(shaped.penalties - batch.penalties, [0, 0, -0.5, 0, 0, -1.0], atol=1e-6)
    for field in dataclasses.fields(batch):
        if field.name != "penalties":
            assert getattr(shaped, field.name) is getattr(batch, field.name)
    assert MASK.shape == shaped.tokens.shape
