"""From episodes and a filter's verdict to advantages, weights and denominators."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from ragen_jax.config.schema import AlgorithmSection
from ragen_jax.learner.prepare import PrepareConfig, denominators, learner_rewards, prepare
from ragen_jax.learner.score import predicting_states
from ragen_jax.models.head import token_log_probs
from ragen_jax.models.transformer import continuation_pass, prompt_pass
from ragen_jax.types import FilterResult, RolloutBatch
from tests.device_fixtures import MODEL, VOCAB, ragged_prompts, random_params
from tests.learner_fixtures import with_algorithm
from tests.oracles import decoder, learning

G = 2
SETTINGS = PrepareConfig(
    group_size=G,
    algorithm=AlgorithmSection(advantage="grpo", normalize_by_std=False),
    constant_length=10.0,
    scale_advantages=False,
)
MASK = np.array(
    [
        [1, 1, 0, 1, 0, 0],
        [1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 0, 0, 1, 1],
        [1, 0, 1, 0, 0, 0],
        [1, 1, 1, 1, 1, 1],
    ],
    bool,
)


def rollout_batch(**changes: Any) -> RolloutBatch:
    """Three groups of two; turn rewards on the last token of each turn."""
    rewards = np.zeros(MASK.shape, np.float32)
    rewards[0, 1], rewards[0, 3], rewards[2, 2], rewards[3, 5], rewards[4, 2] = -0.1, 1.1, 1.0, 0.5, 0.25
    attention = np.cumsum(MASK[:, ::-1], axis=1)[:, ::-1] > 0
    starts = np.diff(np.pad(MASK, ((0, 0), (1, 0))).astype(int), axis=1) > 0
    batch = RolloutBatch(
        prompt_tokens=np.full((3, 4), 5, np.int32),
        prompt_mask=np.ones((3, 4), bool),
        prompt_class=np.arange(3, dtype=np.int32),
        tokens=np.where(attention, 7, 0).astype(np.int32),
        attention_mask=attention,
        response_mask=MASK,
        turn_ids=np.where(MASK, np.cumsum(starts, axis=1) - 1, -1).astype(np.int32),
        token_rewards=rewards,
        returns=rewards.sum(1),
        penalties=np.array([0, -0.2, -0.1, 0, 0, -0.1], np.float32),
        behaviour_log_probs=np.where(MASK, -1.5, 0).astype(np.float32),
        policy_version=np.int32(0),
        valid=np.ones(6, bool),
    )
    return dataclasses.replace(batch, **changes)


def verdict(keep: list[bool], loss_scale: float = 1.0) -> FilterResult:
    return FilterResult(
        keep=np.array(keep),
        scores=np.ones(len(keep), np.float32),
        kept_count=np.int32(sum(keep)),
        kept_mass=np.float32(1),
        loss_scale=np.float32(loss_scale),
    )


def test_a_penalty_lands_once_on_the_last_response_token():
    batch = rollout_batch()
    totals = learner_rewards(batch, SETTINGS)[1]
    added = totals - batch.token_rewards
    for row in range(6):
        last = np.flatnonzero(MASK[row])[-1]
        expected = np.zeros(6)
        expected[last] = batch.penalties[row]
        np.testing.assert_allclose(added[row], expected, atol=1e-7)
    np.testing.assert_allclose(totals.sum(1), batch.returns + batch.penalties, atol=1e-6)
    silent = rollout_batch(response_mask=np.zeros_like(MASK))
    assert (learner_rewards(silent, SETTINGS)[1] == silent.token_rewards).all()


def test_group_advantages_see_return_plus_penalty():
    batch = rollout_batch()
    prepared = prepare(batch, verdict([True] * 3), SETTINGS)
    totals = (batch.returns + batch.penalties).reshape(3, G)
    expected = learning.group_advantages(totals, np.ones((3, G), bool), normalize_by_std=False)
    expected = expected.reshape(-1, 1) * MASK
    np.testing.assert_allclose(prepared.batch.advantages.reshape(6, 6), expected, atol=1e-6)
    assert (prepared.batch.old_log_probs.reshape(6, 6) == batch.behaviour_log_probs).all()
    assert prepared.order.tolist() == [0, 1, 2] and prepared.kept == 3


def test_c13_returns_of_several_turns_enter_the_group_statistics():
    mask = np.ones((2, 5), bool)
    turns = np.array([[-0.1, -0.1, 10.9, 0, 0], [-0.1] * 5], np.float32)
    mask[0, 3:] = False
    batch = RolloutBatch(
        prompt_tokens=np.full((1, 2), 5, np.int32),
        prompt_mask=np.ones((1, 2), bool),
        prompt_class=np.zeros(1, np.int32),
        tokens=np.full((2, 5), 7, np.int32),
        attention_mask=mask,
        response_mask=mask,
        turn_ids=np.where(mask, np.arange(5), -1).astype(np.int32),
        token_rewards=turns,
        returns=turns.sum(1),
        penalties=np.zeros(2, np.float32),
        behaviour_log_probs=np.zeros((2, 5), np.float32),
        policy_version=np.int32(0),
        valid=np.ones(2, bool),
    )
    np.testing.assert_allclose(batch.returns, [10.7, -0.5], atol=1e-5)
    advantages = prepare(batch, verdict([True]), SETTINGS).batch.advantages[0]
    np.testing.assert_allclose(advantages, np.array([[5.6], [-5.6]]) * mask, atol=1e-5)
    assert (batch.token_rewards == turns).all()  # the record keeps the turns


def test_dropped_and_invalid_rows_have_weight_zero():
    valid = np.array([True, True, True, True, False, True])
    prepared = prepare(rollout_batch(valid=valid), verdict([True, False, True]), SETTINGS)
    assert prepared.batch.weights.tolist() == [[1, 1], [0, 0], [0, 1]]
    assert prepared.order.tolist() == [0, 2, 1] and prepared.kept == 2
    assert not prepared.batch.response_mask[2, 0].any()
    assert not prepared.batch.advantages[2].any()  # a group of one valid row has no advantage


def test_whitening_looks_at_kept_and_valid_rows_only():
    settings = with_algorithm(SETTINGS, advantage="gae")
    values = np.random.default_rng(0).normal(size=MASK.shape).astype(np.float32)
    batch = rollout_batch()
    prepared = prepare(batch, verdict([True, False, True]), settings, values=values)
    raw, targets = learning.gae(learner_rewards(batch, SETTINGS)[1], values, MASK, gamma=1.0, lam=1.0)
    kept = MASK & np.array([True, True, False, False, True, True])[:, None]
    expected = np.where(kept, (raw - raw[kept].mean()) / raw[kept].std(ddof=1), 0)
    got = prepared.batch.advantages.reshape(6, 6)
    np.testing.assert_allclose(got[kept], expected[kept], atol=1e-5)
    np.testing.assert_allclose(prepared.batch.returns.reshape(6, 6)[MASK], targets[MASK], atol=1e-5)
    wild = dataclasses.replace(batch, token_rewards=np.where(kept, batch.token_rewards, 99).astype(np.float32))
    again = prepare(wild, verdict([True, False, True]), settings, values=values).batch.advantages.reshape(6, 6)
    np.testing.assert_allclose(again[kept], got[kept], atol=1e-6)


@pytest.mark.parametrize(("target", "factor"), [(False, 1.0), (True, 0.9)])
def test_the_loss_scale_can_act_on_the_advantages(target: bool, factor: float):
    settings = dataclasses.replace(SETTINGS, scale_advantages=target)
    plain = prepare(rollout_batch(), verdict([True] * 3), SETTINGS).batch.advantages
    scaled = prepare(rollout_batch(), verdict([True] * 3, loss_scale=0.9), settings).batch.advantages
    np.testing.assert_allclose(scaled, factor * plain, atol=1e-6)


TOKENS = MASK.sum(1)  # 3, 1, 3, 4, 2, 6


@pytest.mark.parametrize(
    ("aggregation", "normalizer", "groups", "actor", "critic"),
    [
        ("token-mean", "rollout", [0, 2], 19, 12),
        ("token-mean", "rollout", [0], 19 / 2, 4),
        ("token-mean", "kept", [0, 2], 12, 12),
        ("token-mean", "kept", [2], 8, 8),
        ("seq-mean-token-mean", "rollout", [0, 2], 6, 12),
        ("seq-mean-token-mean", "rollout", [2], 3, 8),
        ("seq-mean-token-sum", "kept", [0, 2], 4, 12),
        ("seq-mean-token-sum-norm", "kept", [0], 20, 4),
    ],
)
def test_denominators(aggregation: str, normalizer: str, groups: list[int], actor: float, critic: float):
    """Groups 0 and 2 are kept; two of the three groups are one optimiser batch, or each is one of its own."""
    assert TOKENS.sum() == 19
    settings = with_algorithm(SETTINGS, aggregation=aggregation, normalizer=normalizer)
    prepared = prepare(rollout_batch(), verdict([True, False, True]), settings)
    assert denominators(prepared, np.array(groups), settings) == (pytest.approx(actor), pytest.approx(critic))


def test_invalid_rows_do_not_count_in_any_denominator():
    batch = rollout_batch(valid=np.array([True, False, True, True, True, True]))
    for normalizer, expected in (("rollout", 18), ("kept", 3)):
        settings = with_algorithm(SETTINGS, normalizer=normalizer)
        prepared = prepare(batch, verdict([True, False, False]), settings)
        assert denominators(prepared, np.array([0]), settings) == (expected, 3)


def test_c19_the_loss_reads_the_states_that_predict_response_tokens():
    params = random_params()
    ragged = ragged_prompts([3], width=4)
    tokens = np.array([[[5, 6]]], np.int32)
    prompts = prompt_pass(params, MODEL, ragged.tokens, ragged.mask, dtype="float32")
    hidden = continuation_pass(params, MODEL, prompts, tokens)

    # Of the 4 next-token positions of the sequence, the last two.
    whole = decoder.hidden_states(params, MODEL, [*ragged.prompts[0], 5, 6])
    np.testing.assert_allclose(predicting_states(prompts, hidden)[0, 0], whole[2:4], atol=3e-5)

    def loss(last_hidden: jax.Array, hidden: jax.Array) -> jax.Array:
        states = predicting_states(dataclasses.replace(prompts, last_hidden=last_hidden), hidden)
        log_probs, _ = token_log_probs(params, MODEL, states, tokens, vocab_size=VOCAB, temperature=1.0)
        return -log_probs.sum()

    last_prompt, response = jax.grad(loss, argnums=(0, 1))(prompts.last_hidden, hidden)
    assert np.abs(last_prompt).max() > 1e-3  # predicts the first response token
    assert np.abs(response[0, 0, 0]).max() > 1e-3  # predicts the second
    assert not response[0, 0, 1].any()  # predicts what was never sampled
