"""Validation: the interval of the success rate counts prompts, not rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragen_jax.report.statistics import clustered_proportion_interval, wilson_interval
from ragen_jax.rollout.episodes import Episode
from ragen_jax.training.build import VALIDATION, Components, build
from ragen_jax.training.evaluate import success_interval, validate_policy
from tests.training_fixtures import tiny_config


def _episode(prompt: str, *, success: bool, error: str | None = None) -> Episode:
    return Episode(
        env="test",
        seed=0,
        member=0,
        prompt=prompt,
        turns=(),
        success=success,
        terminated=True,
        truncated=False,
        penalty=0.0,
        metrics={},
        error=error,
    )


def _interval(low: float, high: float) -> dict[str, float]:
    return {"validation/success_low": low, "validation/success_high": high}


def test_rollouts_of_one_prompt_are_one_cluster() -> None:
    episodes = [_episode(prompt, success=prompt in "ab") for prompt in "aaabbbcccddd"]
    assert success_interval(episodes) == _interval(*clustered_proportion_interval([3, 3, 0, 0], [3, 3, 3, 3]))


def test_seeds_that_repeat_a_prompt_join_its_cluster() -> None:
    episodes = [_episode(prompt, success=won) for prompt, won in zip("abab", (True, False, True, False), strict=True)]
    assert success_interval(episodes) == _interval(*clustered_proportion_interval([2, 0], [2, 2]))


def test_single_rollouts_give_wilson() -> None:
    episodes = [_episode(str(index), success=index < 3) for index in range(10)]
    assert success_interval(episodes) == pytest.approx(_interval(*wilson_interval(3, 10)))


def test_failed_environments_are_left_out() -> None:
    failed = _episode("c", success=False, error="boom")
    episodes = [_episode("a", success=True), _episode("b", success=False)]
    assert success_interval([*episodes, failed]) == success_interval(episodes)
    assert success_interval([failed]) == {}


@pytest.fixture(scope="module")
def validated(bandit_policy: Path) -> Iterator[tuple[Components, dict[str, float]]]:
    """A run's components and its validation, at a temperature and a ``std_eps`` of its own."""
    config = tiny_config(
        bandit_policy,
        validation={"temperature": 0.5, "samples": 4, "collapse_samples": 4},
        collapse={"std_eps": 10.0},
    )
    parts = build(config)
    yield parts, validate_policy(parts, parts.state.params, step=0).metrics
    parts.close()


def test_c10_validation_mi_is_scored_at_the_temperature_it_was_sampled_at(
    validated: tuple[Components, dict[str, float]],
) -> None:
    """H(Z|X) of the cross-scores is then the mean of the sampler's own log-probs."""
    parts, metrics = validated
    policy = parts.sampler(parts.state.params, version=0, validation=True)
    seeds = list(parts.validation_seeds.seeds)
    rollout = parts.collect(policy, parts.validation_pool, seeds, seed=(parts.config.seed, VALIDATION, 0))
    sums = [
        -rollout.batch.behaviour_log_probs[row, slice(*episode.turns[0].reasoning)].sum()
        for row, episode in enumerate(rollout.info.episodes)
        if episode.turns[0].reasoning is not None
    ]
    assert len(sums) == metrics["validation/collapse/scored"] > 4
    assert metrics["validation/collapse/conditional_entropy_sequence_nats"] == pytest.approx(np.mean(sums), rel=1e-4)


def test_the_z_score_of_a_validation_reads_std_eps(validated: tuple[Components, dict[str, float]]) -> None:
    numbers = {name.rpartition("/")[2]: value for name, value in validated[1].items()}
    expected = numbers["mi_token_nats"] / (numbers["marginal_std_token_nats"] + 10.0)
    assert numbers["mi_zscore"] == pytest.approx(expected, rel=1e-4)
    assert abs(expected) > 1e-6
