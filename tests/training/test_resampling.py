"""The batch of a step, gathered over bounded rounds from scripted rewards."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragen_jax.rollout.episodes import Rollout
from ragen_jax.training.build import Components, build
from ragen_jax.training.resampling import SampledBatch, sample_batch
from ragen_jax.training.selection import choose_prompts
from tests.training_fixtures import tiny_config, with_rewards

FLAT = [[1, 1, 1, 1]] * 4
ONE = [[0, 0, 0, 0], [0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
TWO = [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]]
FULL = [[0, 1, 0, 1]] * 4


@pytest.fixture(scope="module")
def parts(bandit_policy: Path) -> Iterator[Components]:
    changes = {"rule": "nonzero", "slack": 0.0, "loss_scale": "none", "refill": True, "max_attempts": 3}
    parts = build(tiny_config(bandit_policy, filter=changes))
    yield parts
    parts.close()


@pytest.fixture(scope="module")
def rollout(parts: Components) -> Rollout:
    return parts.training_rollout(parts.sampler(parts.state.params, version=0), 0)


def sample(
    parts: Components, rollout: Rollout, monkeypatch: pytest.MonkeyPatch, rewards: list[list[list[int]]]
) -> tuple[SampledBatch, list[Rollout]]:
    """Sample a step whose attempts have these rewards; the tokens of attempt n are shifted by n."""
    made: list[Rollout] = []

    def scripted(_: Components, policy: object, step: int, attempt: int) -> Rollout:
        assert step == 5 and attempt == len(made)
        marked = with_rewards(rollout, rewards[attempt])
        tokens = np.asarray(marked.batch.tokens) + attempt
        made.append(dataclasses.replace(marked, batch=dataclasses.replace(marked.batch, tokens=tokens)))
        return made[-1]

    monkeypatch.setattr(Components, "training_rollout", scripted)
    return sample_batch(parts, parts.state.params, step=5, version=5), made


def kept_returns(parts: Components, rollout: Rollout) -> list[list[float]]:
    """Rewards of the groups that the filter keeps of a batch."""
    keep = choose_prompts(parts, parts.state.params, rollout)[0].keep
    return np.asarray(rollout.batch.returns).reshape(-1, 4)[keep].tolist()


def test_kept_groups_are_gathered_until_the_batch_is_full(
    parts: Components, rollout: Rollout, monkeypatch: pytest.MonkeyPatch
):
    sampled, made = sample(parts, rollout, monkeypatch, [ONE, TWO, TWO])
    assert sampled.attempts == 3  # 1 + 2 + 2 kept groups, of which four are needed
    assert sampled.tokens == sum(int(np.asarray(r.batch.response_mask).sum()) for r in made)
    assert kept_returns(parts, sampled.rollout) == [ONE[1], TWO[0], TWO[2], TWO[0]]
    tokens = np.asarray(sampled.rollout.batch.tokens).reshape(4, 4, -1)
    sources = [np.asarray(made[n].batch.tokens).reshape(4, 4, -1)[i] for n, i in ((0, 1), (1, 0), (1, 2), (2, 0))]
    np.testing.assert_array_equal(tokens, sources)
    assert sampled.rollout.first is made[0] and sampled.rollout.unselected is made[0]


def test_sampling_stops_once_enough_groups_stand(parts: Components, rollout: Rollout, monkeypatch: pytest.MonkeyPatch):
    sampled, _ = sample(parts, rollout, monkeypatch, [TWO, TWO])
    assert sampled.attempts == 2
    assert kept_returns(parts, sampled.rollout) == [TWO[0], TWO[2]] * 2


def test_a_full_first_batch_is_taken_as_it_is(parts: Components, rollout: Rollout, monkeypatch: pytest.MonkeyPatch):
    sampled, made = sample(parts, rollout, monkeypatch, [FULL])
    assert sampled.attempts == 1 and sampled.rollout is made[0]
    assert sampled.rollout.first is None and sampled.rollout.unselected is made[0]


def test_c15_what_there_is_after_the_last_round_is_trained(
    parts: Components, rollout: Rollout, monkeypatch: pytest.MonkeyPatch
):
    sampled, _ = sample(parts, rollout, monkeypatch, [ONE, FLAT, ONE])
    assert sampled.attempts == 3
    assert sampled.rollout.batch.tokens.shape == rollout.batch.tokens.shape  # filled up with groups that are dropped
    assert kept_returns(parts, sampled.rollout) == [ONE[1], ONE[1]]


def test_c15_three_flat_rounds_end_the_search(parts: Components, rollout: Rollout, monkeypatch: pytest.MonkeyPatch):
    sampled, made = sample(parts, rollout, monkeypatch, [FLAT] * 3)
    assert sampled.attempts == len(made) == 3
    assert kept_returns(parts, sampled.rollout) == []


def test_without_refill_the_first_batch_with_something_is_taken(
    parts: Components, rollout: Rollout, monkeypatch: pytest.MonkeyPatch
):
    once = dataclasses.replace(parts.config.filter, refill=False)
    parts = dataclasses.replace(parts, config=dataclasses.replace(parts.config, filter=once))
    sampled, made = sample(parts, rollout, monkeypatch, [FLAT, ONE, FULL])
    assert sampled.attempts == 2 and sampled.rollout is made[1]


def test_a_round_whose_environments_fail_ends_the_search(
    parts: Components, rollout: Rollout, monkeypatch: pytest.MonkeyPatch
):
    def failing(_: Components, policy: object, step: int, attempt: int) -> Rollout:
        valid = np.ones(16, bool)
        valid[:attempt] = False
        marked = with_rewards(rollout, ONE)
        return dataclasses.replace(marked, batch=dataclasses.replace(marked.batch, valid=valid))

    monkeypatch.setattr(Components, "training_rollout", failing)
    sampled = sample_batch(parts, parts.state.params, step=0, version=0)
    assert sampled.attempts == 2 and sampled.invalid_share == 1 / 16 > parts.config.env.max_invalid_share
    assert (~np.asarray(sampled.rollout.batch.valid)).sum() == 1
