"""A short run of every algorithm, and of every way a reward can take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from ragen_jax.training.loop import Outcome, train
from tests.integration.test_training import comparable
from tests.learner_fixtures import assert_trees_equal
from tests.training_fixtures import tiny_config

pytestmark = pytest.mark.slow

PRESETS = (
    "ppo",
    "ppo_bi_level",
    "grpo",
    "dr_grpo",
    "dapo",
    "rloo",
    "reinforce",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
)
KL_REWARD = {"kl_coef": 0.05, "kl_target": "reward", "kl_estimator": "k1"}


def run(policy: Path, folder: Path, *presets: str, **changes: Any) -> Outcome:
    """Two steps on every prompt, unless the presets filter."""
    defaults: dict[str, Any] = {"steps": 2, "validation": {"prompts": 4, "samples": 4, "collapse_samples": 0}}
    config = tiny_config(policy, *presets, folder=str(folder), **(defaults | changes))
    return train(config, writers=())


def trained_rows(outcome: Outcome) -> list[dict[str, Any]]:
    rows = [row for row in outcome.folder.metrics() if "update/count" in row]
    assert sum(row["update/count"] for row in rows) > 0
    for row in rows:
        assert all(np.isfinite(value) for value in row.values())
    return rows


@pytest.mark.parametrize("preset", PRESETS)
def test_each_algorithm_trains(preset: str, bandit_policy: Path, tmp_path: Path):
    presets = (preset,) if preset == "dapo" else (preset, "no_filter")
    outcome = run(bandit_policy, tmp_path / "run", *presets)
    rows = trained_rows(outcome)
    assert any(row.get("advantage/rms", 0) > 0 for row in rows)
    assert ("loss/value" in rows[0]) == preset.startswith("ppo")
    assert (outcome.state.critic_params is not None) == preset.startswith("ppo")


@pytest.mark.parametrize("preset", ["grpo", "ppo", "reinforce_plus_plus"])
def test_a_kl_in_the_reward(preset: str, bandit_policy: Path, tmp_path: Path):
    outcome = run(bandit_policy, tmp_path / "run", preset, "no_filter", steps=3, algorithm=KL_REWARD)
    rows = trained_rows(outcome)
    assert all(row["loss/kl"] == 0 for row in rows)
    assert rows[-1]["policy/reference_k1_token_nats"] != 0  # the policy has left its first parameters
    free = run(bandit_policy, tmp_path / "free", preset, "no_filter", steps=3)
    assert rows[-1]["gradient/actor_norm"] != trained_rows(free)[-1]["gradient/actor_norm"]


def test_a_length_penalty_is_logged_apart_and_shapes_the_reward(bandit_policy: Path, tmp_path: Path):
    reward = {"overlong_buffer": 32, "overlong_penalty": 2.0}  # every reply pays for its length
    rows = trained_rows(run(bandit_policy, tmp_path / "run", "grpo", "no_filter", reward=reward))
    plain = trained_rows(run(bandit_policy, tmp_path / "plain", "grpo", "no_filter"))
    for name in ("rollout/return", "rollout/penalty"):
        assert rows[0][name] == plain[0][name]
    assert rows[0]["rollout/overlong_penalty"] < 0
    assert rows[0]["reward/mean"] == pytest.approx(plain[0]["reward/mean"] + rows[0]["rollout/overlong_penalty"])
    assert "rollout/overlong_penalty" not in plain[0]


@pytest.mark.parametrize(
    ("preset", "method", "grouping"),
    [("ppo", "mean", "group"), ("dr_grpo", "mean_std", "batch"), ("grpo", "asym_clip", "group")],
)
def test_normalised_rewards_leave_filter_and_record_alone(
    preset: str, method: str, grouping: str, bandit_policy: Path, tmp_path: Path
):
    reward = {"normalize": method, "grouping": grouping}
    rows = trained_rows(run(bandit_policy, tmp_path / "run", preset, "no_filter", reward=reward))
    plain = trained_rows(run(bandit_policy, tmp_path / "plain", preset, "no_filter"))
    for name in ("rollout/return", "filter/reward_variance_mean", "filter/flat_count"):
        assert rows[0][name] == plain[0][name]
    assert rows[0]["reward/mean"] != plain[0]["reward/mean"]


def test_dynamic_sampling_fills_the_batch_and_resumes_bit_for_bit(bandit_policy: Path, tmp_path: Path):
    def config(**changes: Any) -> Any:
        settings = {"steps": 4, "checkpoint": {"every": 1}, "validation": {"every": 2, "collapse_samples": 0}} | changes
        return tiny_config(bandit_policy, "dapo", **settings)

    whole = train(config(folder=str(tmp_path / "whole")), writers=())
    path = str(tmp_path / "run")
    train(config(folder=path, steps=2), writers=())
    resumed = train(config(folder=path, resume=path), writers=())
    assert_trees_equal(jax.device_get(resumed.state), jax.device_get(whole.state))
    assert comparable(resumed.folder.metrics()) == comparable(whole.folder.metrics())
    rows = trained_rows(whole)
    assert any(row["rollout/attempts"] > 1 for row in rows)
    for row in rows:
        assert row["filter/kept_count"] == 4 or row["rollout/attempts"] == 8
        if row["rollout/attempts"] > 1:  # the first batch alone did not fill it
            assert row["filter/kept_ratio"] < 1


def test_a_filter_need_not_make_updates_fewer(bandit_policy: Path, tmp_path: Path):
    """Four prompts in mini-batches of two are two updates; two kept ones would be one."""
    outcome = run(
        bandit_policy,
        tmp_path / "run",
        "grpo",
        algorithm={"minibatch_groups": 2, "equal_updates": True},
        filter={"rule": "top_k_count", "value": 2.0, "slack": 0.0, "loss_scale": "none"},
    )
    rows = trained_rows(outcome)
    assert any(row["filter/kept_count"] == 2 for row in rows)
    for row in rows:
        assert row["update/count"] == min(2, row["filter/kept_count"])
