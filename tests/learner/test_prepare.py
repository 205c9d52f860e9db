"""From episodes and a filter's verdict to advantages, weights and denominators."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import numpy as np
import pytest

from ragen_jax.config import algorithm_rules
from ragen_jax.config.schema import AlgorithmSection, Config, RewardSection
from ragen_jax.core.advantages import ADVANTAGES
from ragen_jax.learner.prepare import PrepareConfig, denominators, learner_rewards, minibatches, prepare
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


def test_whitening_may_look_at_the_batch_before_filtering():
    values = np.random.default_rng(0).normal(size=MASK.shape).astype(np.float32)
    batch = rollout_batch(valid=np.array([True, True, True, True, True, False]))
    settings = with_algorithm(SETTINGS, advantage="gae", whiten_over="all")
    prepared = prepare(batch, verdict([True, False, True]), settings, values=values)
    valid = MASK & np.asarray(batch.valid)[:, None]
    raw, _ = learning.gae(learner_rewards(batch, SETTINGS)[1], values, valid, gamma=1.0, lam=1.0)
    kept = valid & np.array([True, True, False, False, True, True])[:, None]
    got = prepared.batch.advantages.reshape(6, 6)
    np.testing.assert_allclose(got[kept], learning.whiten(raw, valid)[kept], atol=1e-5)
    np.testing.assert_allclose(
        prepared.metrics["advantage/rms_before_whitening"], np.sqrt((raw[kept] ** 2).mean()), rtol=1e-5
    )
    np.testing.assert_allclose(prepared.metrics["advantage/rms"], np.sqrt((got[kept] ** 2).mean()), rtol=1e-5)


@pytest.mark.parametrize("advantage", ["reinforce_plus_plus", "reinforce_plus_plus_baseline"])
def test_reinforce_plus_plus_is_whitened_and_may_be_left_raw(advantage: str):
    batch = rollout_batch()
    raw, whitened = (
        prepare(batch, verdict([True] * 3), with_algorithm(SETTINGS, advantage=advantage, whiten=whiten)).batch
        for whiten in (False, True)
    )
    rewards, tokens = learner_rewards(batch, SETTINGS)
    expected = learning.returns_to_go(tokens, MASK, gamma=1.0)
    if advantage.endswith("baseline"):
        groups = rewards.reshape(3, G)
        centred = learning.group_advantages(groups, np.ones((3, G), bool), normalize_by_std=False)
        expected = centred.reshape(-1, 1) * MASK
    np.testing.assert_allclose(raw.advantages.reshape(6, 6), expected, atol=1e-6)
    np.testing.assert_allclose(
        whitened.advantages.reshape(6, 6)[MASK], learning.whiten(expected, MASK)[MASK], atol=1e-5
    )


def test_advantages_may_be_centred_over_the_tokens_of_each_group():
    settings = with_algorithm(SETTINGS, center_tokens=True)
    plain = prepare(rollout_batch(), verdict([True] * 3), SETTINGS)
    centred = prepare(rollout_batch(), verdict([True] * 3), settings)
    assert abs(plain.metrics["advantage/net_token_weight"]) > 0.01
    assert abs(centred.metrics["advantage/net_token_weight"]) < 1e-6
    np.testing.assert_allclose(centred.batch.advantages.sum((1, 2)), 0, atol=1e-6)


def reference_log_probs(batch: RolloutBatch) -> np.ndarray:
    """Of the reference: different from the sampler's by a number per token."""
    gap = np.random.default_rng(3).normal(0.0, 0.5, MASK.shape).astype(np.float32)
    return np.asarray(batch.behaviour_log_probs) - gap


@pytest.mark.parametrize("normalize_by_std", [True, False])
def test_a_kl_in_the_reward_enters_group_advantages_unscaled(normalize_by_std: bool):
    batch = rollout_batch()
    reference = reference_log_probs(batch)
    settings = with_algorithm(SETTINGS, normalize_by_std=normalize_by_std)
    with_kl = with_algorithm(settings, kl_coef=0.2, kl_target="reward", kl_estimator="k1")
    task = prepare(batch, verdict([True] * 3), settings, ref_log_probs=reference).batch.advantages
    both = prepare(batch, verdict([True] * 3), with_kl, ref_log_probs=reference).batch.advantages
    costs = -0.2 * np.where(MASK, np.asarray(batch.behaviour_log_probs) - reference, 0).sum(1).reshape(3, G)
    part = (costs - costs.mean(1, keepdims=True)).reshape(-1, 1) * MASK
    np.testing.assert_allclose((both - task).reshape(6, 6), part, atol=1e-5)


def test_a_kl_in_the_reward_does_not_freeze_flat_groups():
    """All task rewards equal: the advantages are as small as the coefficient, not of unit size."""
    flat = rollout_batch(
        returns=np.ones(6, np.float32),
        penalties=np.zeros(6, np.float32),
        token_rewards=np.zeros(MASK.shape, np.float32),
    )
    settings = with_algorithm(SETTINGS, normalize_by_std=True, kl_coef=1e-3, kl_target="reward", kl_estimator="k1")
    advantages = prepare(flat, verdict([True] * 3), settings, ref_log_probs=reference_log_probs(flat)).batch.advantages
    assert 0 < np.abs(advantages).max() < 0.01


def test_a_kl_in_the_reward_stands_on_its_tokens_for_token_level_estimators():
    batch = rollout_batch()
    reference = reference_log_probs(batch)
    settings = with_algorithm(SETTINGS, advantage="gae", whiten=False)
    with_kl = with_algorithm(settings, kl_coef=0.2, kl_target="reward", kl_estimator="k1")
    values = np.zeros(MASK.shape, np.float32)
    got = prepare(batch, verdict([True] * 3), with_kl, values=values, ref_log_probs=reference).batch
    costs = -0.2 * (np.asarray(batch.behaviour_log_probs) - reference)
    rewards = learner_rewards(batch, SETTINGS)[1] + costs
    expected, _ = learning.gae(rewards, values, MASK, gamma=1.0, lam=1.0)
    np.testing.assert_allclose(got.advantages.reshape(6, 6), expected, atol=1e-5)
    np.testing.assert_allclose(got.returns.reshape(6, 6), expected, atol=1e-5)  # the critic learns what it costs


def test_a_kl_in_the_loss_leaves_the_advantages_alone():
    batch = rollout_batch()
    settings = with_algorithm(SETTINGS, kl_coef=0.2, kl_target="loss")
    with_kl = prepare(batch, verdict([True] * 3), settings, ref_log_probs=reference_log_probs(batch)).batch
    assert (with_kl.advantages == prepare(batch, verdict([True] * 3), SETTINGS).batch.advantages).all()


@pytest.mark.parametrize("method", ["identity", "mean", "mean_std", "asym_clip"])
@pytest.mark.parametrize("grouping", ["group", "batch"])
def test_normalised_rewards_keep_their_turns_and_add_up(method: str, grouping: str):
    valid = np.array([True, True, True, True, True, False])
    batch = rollout_batch(valid=valid)
    settings = dataclasses.replace(SETTINGS, reward=RewardSection(normalize=method, grouping=grouping))
    rewards, tokens = learner_rewards(batch, settings)
    ids = np.arange(6) // G if grouping == "group" else np.zeros(6, int)
    totals = batch.returns + batch.penalties
    np.testing.assert_allclose(
        rewards, learning.normalize_rewards(totals, ids, valid, method=method), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(tokens.sum(1), rewards, atol=1e-5)
    first_turn = tokens[0, 1] / batch.token_rewards[0, 1]  # of two turns: scaled, not shifted
    factor = {"identity": 1.0, "mean": 1.0}.get(method)
    members = totals[valid & (ids == 0)].astype(float).tolist()
    np.testing.assert_allclose(first_turn, factor or 1 / np.sqrt(learning.variance(members)), rtol=1e-5)
    assert (batch.returns == rollout_batch().returns).all()  # the record keeps the bare return


@pytest.mark.parametrize("normalize_by_std", [True, False])
@pytest.mark.parametrize("advantage", list(ADVANTAGES))
def test_normalisations_are_refused_exactly_where_they_change_nothing(advantage: str, normalize_by_std: bool):
    """Two groups of three, whose normalised rewards reach below the lower clip."""
    batch = rollout_batch()
    values = np.random.default_rng(1).normal(size=MASK.shape).astype(np.float32)
    settings = dataclasses.replace(
        with_algorithm(SETTINGS, advantage=advantage, normalize_by_std=normalize_by_std), group_size=3
    )
    plain = prepare(batch, verdict([True] * 2), settings, values=values).batch
    for method, grouping in itertools.product(("mean", "mean_std", "asym_clip"), ("group", "batch")):
        reward = RewardSection(normalize=method, grouping=grouping)
        changed = dataclasses.replace(settings, reward=reward)
        other = prepare(batch, verdict([True] * 2), changed, values=values).batch
        same = all(
            np.allclose(getattr(other, name), getattr(plain, name), atol=1e-4) for name in ("advantages", "returns")
        )
        config = Config(algorithm=settings.algorithm, reward=reward)
        refused = any("reward.normalize" in problem for problem in algorithm_rules.rewards(config))
        assert refused == same, (method, grouping)


def test_normalisation_changes_what_a_group_estimator_reads():
    batch = rollout_batch()
    settings = dataclasses.replace(SETTINGS, reward=RewardSection(normalize="mean_std", grouping="batch"))
    prepared = prepare(batch, verdict([True] * 3), settings)
    totals = batch.returns + batch.penalties
    scaled = learning.group_advantages(
        (totals / totals.std(ddof=1)).reshape(3, G), np.ones((3, G), bool), normalize_by_std=False
    )
    np.testing.assert_allclose(prepared.batch.advantages[:, :, 0], scaled * MASK[:, 0].reshape(3, G), atol=1e-5)
    np.testing.assert_allclose(prepared.metrics["reward/mean"], 0, atol=1e-6)
    np.testing.assert_allclose(prepared.metrics["reward/std"], 1, rtol=1e-5)


@pytest.mark.parametrize("advantage", list(ADVANTAGES))
def test_every_estimator_prepares_a_batch_with_a_row_that_failed(advantage: str):
    settings = with_algorithm(SETTINGS, advantage=advantage)
    batch = rollout_batch(valid=np.array([True, True, True, False, True, True]))
    prepared = prepare(batch, verdict([True, True, False]), settings, values=np.zeros(MASK.shape, np.float32))
    assert np.isfinite(prepared.batch.advantages).all() and prepared.batch.advantages[0].any()
    assert not prepared.batch.advantages[1, 1].any() and prepared.batch.weights[1, 1] == 0


@pytest.mark.parametrize(
    ("kept", "size", "equal", "sizes"),
    [
        (8, 2, False, [2, 2, 2, 2]),
        (5, 2, False, [2, 2, 1]),
        (5, 0, False, [5]),
        (5, 2, True, [2, 1, 1, 1]),
        (8, 2, True, [2, 2, 2, 2]),
        (3, 2, True, [1, 1, 1]),  # never more updates than groups
        (1, 2, True, [1]),
        (7, 4, True, [4, 3]),
    ],
)
def test_minibatches_of_eight_prompts(kept: int, size: int, equal: bool, sizes: list[int]):
    groups = np.array([6, 1, 0, 7, 2, 3, 5, 4])[:kept]
    parts = minibatches(groups, prompts=8, size=size, equal_updates=equal)
    assert [len(part) for part in parts] == sizes
    assert np.concatenate(parts).tolist() == groups.tolist()


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
