"""The filter inside the training step: what it reads, what it keeps, what it says about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from ragen_jax.core import filters, group_variance
from ragen_jax.core.scores import SCORES
from ragen_jax.envs import make_env
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.training.build import Components, build
from ragen_jax.training.score_inputs import score_inputs
from ragen_jax.training.selection import choose_prompts
from tests.oracles import decoder
from tests.training_fixtures import tiny_config, with_rewards

GROUP = 4
MIXED = [[1, 1, 1, 1], [0, 2, 0, 2], [0, 0, 0, 0], [0, 0, 0, 1]]


@pytest.fixture(scope="module")
def parts(bandit_policy: Path) -> Iterator[Components]:
    parts = build(tiny_config(bandit_policy, "grpo", filter={"slack": 0.0}))
    yield parts
    parts.close()


@pytest.fixture(scope="module")
def sampled(parts: Components) -> Rollout:
    return parts.training_rollout(parts.sampler(parts.state.params, version=0), 0)


def with_filter(parts: Components, **changes: Any) -> Components:
    """The same run with a filter section of its own; it begins from the defaults."""
    section = type(parts.config.filter)(**{"rule": "top_p", **changes})
    return dataclasses.replace(parts, config=dataclasses.replace(parts.config, filter=section))


def choose(parts: Components, rollout: Rollout, **changes: Any) -> tuple[Any, dict[str, float]]:
    chosen = with_filter(parts, **changes)
    return choose_prompts(chosen, chosen.state.params, rollout)


def with_batch(rollout: Rollout, **changes: Any) -> Rollout:
    return dataclasses.replace(rollout, batch=dataclasses.replace(rollout.batch, **changes))


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        ("none", 0.9, [0, 1, 2, 3]),
        ("top_p", 0.8, [1]),
        ("top_p", 0.9, [1, 3]),
        ("reverse_top_p", 0.1, [3]),
        ("top_k", 0.25, [1]),
        ("top_k_count", 2, [1, 3]),
        ("min_p", 0.5, [1]),
        ("quartile", 2, [3]),
        ("nonzero", 0.9, [1, 3]),
    ],
)
def test_every_rule_by_configuration(parts: Components, sampled: Rollout, rule: str, value: float, expected: list[int]):
    assert rule in filters.FILTERS
    result, metrics = choose(parts, with_rewards(sampled, MIXED), rule=rule, value=value)
    assert np.flatnonzero(result.keep).tolist() == expected
    assert metrics["filter/kept_count"] == len(expected)
    assert result.row_keep is None


@pytest.mark.parametrize("name", list(SCORES))
def test_every_score_by_configuration(parts: Components, sampled: Rollout, name: str):
    """On the batch as it was sampled; the kept prompt is the one whose score is the largest."""
    chosen = with_filter(parts, rule="top_k_count", value=1, score=name, include_zero=True)
    result, _ = choose_prompts(chosen, chosen.state.params, sampled)
    assert result.scores.shape == (4,) and np.isfinite(result.scores).all()
    assert len(set(result.scores.tolist())) > 1 or name in ("reward_max", "reward_std", "reward_variance")
    assert result.keep.tolist() == (np.arange(4) == result.scores.argmax()).tolist()


def test_penalties_count_when_they_should(parts: Components, sampled: Rollout):
    flat = with_rewards(sampled, [[1.0] * GROUP] * 4)
    penalties = np.zeros(16, np.float32)
    penalties[5] = -0.5  # in group 1
    flat = with_batch(flat, penalties=penalties)
    result, _ = choose(parts, flat)
    assert result.keep.tolist() == [False, True, False, False]
    np.testing.assert_allclose(result.scores[1], 0.0625, rtol=1e-6)
    result, metrics = choose(parts, flat, count_penalty=False)
    assert not result.keep.any() and metrics["filter/flat_count"] == 4


def test_entropies_are_those_of_the_current_policy(parts: Components, sampled: Rollout):
    """Float64, one row at a time, mean over the sampled tokens."""
    inputs = score_inputs(with_filter(parts, score="entropy"), parts.state.params, sampled)
    params = jax.device_get(parts.state.params)
    batch, vocab = sampled.batch, parts.scoring.vocab_size
    for row in (0, 7, 15):
        prompt = batch.prompt_tokens[row // GROUP][batch.prompt_mask[row // GROUP]].tolist()
        tokens = batch.tokens[row][batch.attention_mask[row]].tolist()
        scores = decoder.logits(params, parts.model, [*prompt, *tokens], vocab_size=vocab)
        scores = scores / parts.scoring.temperature
        table = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        entropy = -(np.exp(table) * table).sum(axis=1)[len(prompt) - 1 : -1]
        mask = batch.response_mask[row][: len(tokens)]
        np.testing.assert_allclose(inputs.entropies[row // GROUP, row % GROUP], entropy[mask].mean(), atol=1e-4)
    np.testing.assert_array_equal(inputs.lengths.reshape(-1), batch.response_mask.sum(axis=1))
    assert inputs.replays is None


def test_entropies_and_replays_are_made_only_when_asked_for(
    parts: Components, sampled: Rollout, monkeypatch: pytest.MonkeyPatch
):
    from ragen_jax.training import score_inputs as module

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("not needed")

    monkeypatch.setattr(module, "row_entropies", never)
    monkeypatch.setattr(module, "env_class", never)
    choose(parts, sampled, score="reward_std")
    with pytest.raises(AssertionError, match="not needed"):
        choose(parts, sampled, score="entropy_variance")
    with pytest.raises(AssertionError, match="not needed"):
        choose(parts, sampled, score="replayed_variance")


def test_replays_are_those_of_the_executed_plans(parts: Components, sampled: Rollout):
    chosen = with_filter(parts, score="replayed_variance", replays=6)
    inputs = score_inputs(chosen, chosen.state.params, sampled)
    assert inputs.replays.shape == (4, GROUP, 6)
    env = make_env("bandit", **parts.config.env.options)
    differing = 0
    for row, episode in enumerate(sampled.info.episodes):
        turn = episode.turns[0]
        plan = [] if turn.answer is None or turn.cut else [turn.answer]
        expected = env.replay(plan, seed=episode.seed, member=episode.member, draws=6) + episode.penalty
        np.testing.assert_allclose(inputs.replays[row // GROUP, row % GROUP], expected, atol=1e-6)
        differing += len(set(expected.tolist())) > 1
    assert differing > 0  # some plan was to pull the arm of luck
    result, _ = choose_prompts(chosen, chosen.state.params, sampled)
    np.testing.assert_allclose(result.scores, group_variance(inputs.replays.mean(axis=2)), rtol=1e-5, atol=1e-7)
    bare = score_inputs(with_filter(parts, score="replayed_variance", replays=6, count_penalty=False), None, sampled)
    penalties = np.array([episode.penalty for episode in sampled.info.episodes]).reshape(4, GROUP, 1)
    assert penalties.any()
    np.testing.assert_allclose(bare.replays, inputs.replays - penalties, atol=1e-6)


def test_best_and_worst_rollouts_of_kept_prompts(parts: Components, sampled: Rollout):
    rewards = [[3, 1, 2, 0], [0, 0, 1, 0], [1, 1, 1, 1], [5, 5, 4, 4]]
    result, metrics = choose(parts, with_rewards(sampled, rewards), value=1.0, best_and_worst=1)
    assert result.keep.tolist() == [True, True, False, True]
    expected = np.array([[1, 0, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1]], bool)
    assert result.row_keep.tolist() == expected.tolist()
    replies = np.array([episode.turns[0].well_formed for episode in sampled.info.episodes]).reshape(4, GROUP)
    trained = expected & result.keep[:, None]
    assert metrics["filter/kept_valid_format"] == pytest.approx(replies[trained].mean())
    assert metrics["filter/dropped_valid_format"] == pytest.approx(replies[~trained].mean())


def test_failed_rollouts_take_no_part(parts: Components, sampled: Rollout):
    valid = np.ones((4, GROUP), bool)
    valid[0], valid[1, :3] = False, False
    broken = with_batch(
        with_rewards(sampled, [[9, 0, 9, 0], [0, 2, 0, 2], [0, 1, 1, 1], [1, 1, 1, 0]]), valid=valid.ravel()
    )
    for rule, expected in (("none", [1, 2, 3]), ("top_p", [2, 3]), ("nonzero", [2, 3])):
        result, metrics = choose(parts, broken, rule=rule)
        assert np.flatnonzero(result.keep).tolist() == expected
        assert metrics["filter/kept_ratio"] == len(expected) / 4
    result, _ = choose(parts, broken, rule="top_k", value=1.0, include_zero=True, loss_scale="linear")
    assert np.flatnonzero(result.keep).tolist() == [1, 2, 3]
    assert float(result.loss_scale) == 0.75  # what is really trained
    gone = with_batch(broken, valid=np.zeros(16, bool))
    result, metrics = choose(parts, gone, rule="none")
    assert not result.keep.any()
    assert all(np.isfinite(value) for value in metrics.values())
    assert not {"filter/kept_valid_format", "filter/dropped_valid_format"} & metrics.keys()


def test_rewards_that_are_not_finite_are_refused_by_row(parts: Components, sampled: Rollout):
    rewards = np.array(MIXED, np.float32)
    rewards[2, 1] = np.nan
    poisoned = with_rewards(sampled, rewards)
    with pytest.raises(ValueError, match="prompt 2, rollout 1 is nan"):
        choose(parts, poisoned)
    valid = np.ones(16, bool)
    valid[2 * GROUP + 1] = False
    result, _ = choose(parts, with_batch(poisoned, valid=valid))
    assert np.isfinite(result.scores).all()


@pytest.mark.parametrize("rule", ["top_p", "reverse_top_p", "min_p"])
def test_b15_a_negative_score_is_refused_where_it_has_no_mass(parts: Components, sampled: Rollout, rule: str):
    losses = with_rewards(sampled, [[1, 1, 2, 0], [-3, -1, -2, -2], [1, 1, 1, 1], [0, 1, 0, 1]])
    with pytest.raises(ValueError, match=r"score of prompt 1 is -2\.0.*top_k"):
        choose(parts, losses, rule=rule, score="reward_mean")
    result, _ = choose(parts, losses, rule="top_k", value=0.5, score="reward_mean")
    assert np.flatnonzero(result.keep).tolist() == [0, 3]


def test_the_dispersion_comes_with_its_interval(parts: Components, sampled: Rollout):
    _, metrics = choose(parts, with_rewards(sampled, MIXED))
    variances = np.var(MIXED, axis=1, ddof=1)
    names = [f"filter/reward_variance_dispersion{end}" for end in ("_low", "", "_high")]
    low, value, high = (metrics[name] for name in names)
    assert value == pytest.approx(variances.std(ddof=1) / variances.mean(), rel=1e-5)
    assert low < value < high


def test_what_each_reading_of_top_p_would_have_kept(parts: Components, sampled: Rollout):
    rewards = np.array([[0, 4, 0, 4], [0, 2, 0, 2], [0, 1, 0, 1], [1, 1, 1, 1]], np.float32)
    for rule, value, rho in (("top_p", 0.7, 0.7), ("none", 0.9, 0.9), ("top_k_count", 1, 0.9)):
        _, metrics = choose(parts, with_rewards(sampled, rewards), rule=rule, value=value)
        for reading in filters.READINGS:
            expected = filters.top_p_by_reading(rewards, reading=reading, rho=rho).kept_count
            assert metrics[f"filter/kept_count_{reading}"] == int(expected)
        if rule == "top_p":
            assert metrics["filter/kept_count"] == metrics["filter/kept_count_variance"]
            assert [metrics[f"filter/kept_count_{name}"] for name in filters.READINGS] == [1, 2, 2, 3]
