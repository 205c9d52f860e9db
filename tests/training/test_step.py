"""One learner step: what the filter decides, and what the update does with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from configs._change import change
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.training.build import Components, build
from ragen_jax.training.step import StepResult, choose_prompts, learn
from ragen_jax.types import TrainState
from tests.learner_fixtures import assert_trees_close, assert_trees_equal
from tests.training_fixtures import tiny_config, with_rewards

MIXED = [[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]]
FLAT = [[1, 1, 1, 1]] * 4


@pytest.fixture(scope="module")
def grpo(bandit_policy: Path) -> Iterator[Components]:
    """Top-p filter, KL term, two epochs over mini-batches of two groups."""
    parts = build(
        tiny_config(
            bandit_policy,
            "grpo",
            algorithm={"kl_coef": 0.1, "epochs": 2, "minibatch_groups": 2},
            filter={"slack": 0.0},
        )
    )
    yield parts
    parts.close()


@pytest.fixture(scope="module")
def ppo(bandit_policy: Path) -> Iterator[Components]:
    parts = build(tiny_config(bandit_policy, "ppo", "no_filter"))
    yield parts
    parts.close()


def fresh(parts: Components) -> TrainState:
    """A copy of the first state that the step may consume."""
    return jax.tree.map(lambda x: jax.device_put(np.asarray(x), x.sharding), parts.state)


@pytest.fixture(scope="module")
def rollout(grpo: Components) -> Rollout:
    return grpo.training_rollout(grpo.sampler(grpo.state.params, version=0), 0)


def step(parts: Components, rollout: Rollout, rewards: Any, state: TrainState | None = None) -> StepResult:
    return learn(parts, fresh(parts) if state is None else state, with_rewards(rollout, rewards))


@pytest.mark.slow
def test_four_devices_share_the_rows_of_two_groups(grpo: Components, rollout: Rollout):
    parts = build(change(grpo.config, mesh={"data": 4}, micro_groups=0))
    assert (parts.config.micro_groups, parts.scoring_groups) == (2, 4)
    expected, result = step(grpo, rollout, MIXED), step(parts, rollout, MIXED)
    parts.close()
    for name, value in expected.metrics.items():
        if not name.startswith("time/"):
            assert result.metrics[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
    moved = [jax.device_get(outcome.state.params) for outcome in (expected, result)]
    assert_trees_close(*moved, atol=1e-4)  # of a step of 1e-3 by Adam


def updates(state: TrainState) -> int:
    """Optimiser steps so far, by Adam's own counter."""
    return next(
        int(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(state.opt_state)
        if jax.tree_util.keystr(path).endswith(".count")
    )


def test_the_filter_keeps_groups_that_differ_and_says_so(grpo: Components, rollout: Rollout):
    result = step(grpo, rollout, MIXED)
    metrics = result.metrics
    assert metrics["filter/groups"] == 4 and metrics["filter/kept_count"] == 2
    assert metrics["filter/kept_ratio"] == 0.5 and metrics["filter/kept_mass"] == 1
    assert metrics["filter/flat_count"] == 2
    assert metrics["filter/reward_variance_mean"] == pytest.approx((1 / 3 + 1 / 4) / 4)
    assert metrics["filter/reward_std_mean"] == pytest.approx((3**-0.5 + 0.5) / 4)
    assert metrics["filter/kept_variance_mean"] == pytest.approx((1 / 3 + 1 / 4) / 2)
    assert metrics["filter/loss_scale"] == pytest.approx(0.9)  # rho
    assert metrics["update/skipped"] == 0 and metrics["update/finite"] == 1
    assert int(result.state.step) == 1
    assert metrics["rollout/staleness"] == 0


def test_a_batch_of_one_prompt_has_finite_statistics(grpo: Components, rollout: Rollout):
    whole = with_rewards(rollout, MIXED[1:2] + MIXED[:1] * 3)
    one = dataclasses.replace(
        whole,
        batch=dataclasses.replace(
            whole.batch,
            **{
                name: getattr(whole.batch, name)[:4]
                for name in ("returns", "penalties", "valid", "response_mask", "tokens")
            },
        ),
        info=dataclasses.replace(whole.info, episodes=whole.info.episodes[:4]),
    )
    result, metrics = choose_prompts(grpo, grpo.state.params, one)
    assert result.keep.tolist() == [True]
    assert all(np.isfinite(value) for value in metrics.values())
    assert "filter/reward_variance_dispersion" not in metrics  # no spread over one prompt


@pytest.mark.parametrize(
    ("rewards", "count"),
    [(MIXED, 2), ([[0, 1, 0, 1]] * 3 + [[1] * 4], 4), ([[0, 1, 0, 1]] * 4, 4), ([[0, 1, 0, 1]] + [[1] * 4] * 3, 2)],
    ids=["two", "three", "four", "one"],
)
def test_c16_optimiser_steps_are_those_of_the_configuration(
    grpo: Components, rollout: Rollout, rewards: list[list[float]], count: int
):
    """Two epochs over mini-batches of two of the kept groups; the last may be smaller."""
    grpo = dataclasses.replace(grpo, config=dataclasses.replace(grpo.config, filter=_keep_all_mass(grpo)))
    result = step(grpo, rollout, rewards)
    assert result.metrics["update/count"] == count
    assert updates(result.state) == count


def test_equal_updates_takes_as_many_steps_as_without_a_filter(grpo: Components, rollout: Rollout):
    algorithm = dataclasses.replace(grpo.config.algorithm, equal_updates=True)
    equal = dataclasses.replace(grpo, config=dataclasses.replace(grpo.config, algorithm=algorithm))
    result = step(equal, rollout, MIXED)  # two kept groups, two epochs; four prompts would make two updates an epoch
    assert result.metrics["filter/kept_count"] == 2
    assert result.metrics["update/count"] == updates(result.state) == 4


def test_a_gathered_batch_is_trained_and_the_first_one_measured(grpo: Components, rollout: Rollout):
    gathered = dataclasses.replace(with_rewards(rollout, MIXED), first=with_rewards(rollout, FLAT))
    metrics = learn(grpo, fresh(grpo), gathered).metrics
    assert metrics["filter/reward_variance_mean"] == 0 and metrics["filter/flat_count"] == 4
    assert metrics["filter/kept_ratio"] == 0
    assert metrics["filter/kept_count"] == 2 and metrics["update/count"] == 2
    assert metrics["advantage/rms"] > 0


def _keep_all_mass(parts: Components) -> Any:
    return dataclasses.replace(parts.config.filter, value=1.0)


def reordered(rollout: Rollout, order: list[int]) -> Rollout:
    """The same groups in another order."""
    rows = (np.array(order)[:, None] * 4 + np.arange(4)).ravel()
    fields = {field.name: getattr(rollout.batch, field.name) for field in dataclasses.fields(rollout.batch)}
    moved = {
        name: value if np.ndim(value) == 0 else value[order if name.startswith("prompt_") else rows]
        for name, value in fields.items()
    }
    info = dataclasses.replace(rollout.info, episodes=tuple(rollout.info.episodes[row] for row in rows))
    return dataclasses.replace(rollout, batch=dataclasses.replace(rollout.batch, **moved), info=info)


def test_the_kept_groups_are_the_ones_trained(grpo: Components, rollout: Rollout):
    """Wherever they stand: here second and last, or in front."""
    apart = step(grpo, rollout, MIXED).metrics
    order = [1, 3, 0, 2]
    in_front = step(grpo, reordered(rollout, order), [MIXED[group] for group in order]).metrics
    for name in ("gradient/actor_norm", "policy/entropy_token_nats", "loss/entropy"):
        assert apart[name] == pytest.approx(in_front[name], rel=1e-4), name


def test_c10_the_first_update_has_ratio_one(grpo: Components, rollout: Rollout):
    metrics = step(grpo, rollout, [[0, 1, 0, 1]] * 4).metrics
    assert metrics["policy/first_ratio_gap"] < 1e-4
    assert metrics["policy/max_ratio_gap"] > 1e-3  # the second update is off the policy that sampled


def test_the_kl_term_is_zero_at_the_reference_and_grows(grpo: Components, rollout: Rollout):
    before = jax.device_get(grpo.reference)
    first = step(grpo, rollout, [[0, 1, 0, 1]] * 4)
    second = step(grpo, rollout, [[0, 1, 0, 1]] * 4, state=first.state)
    name = "policy/reference_k3_token_nats"
    assert 0 <= first.metrics[name] < second.metrics[name]
    assert second.metrics["loss/kl"] > 0
    assert_trees_equal(jax.device_get(grpo.reference), before)


def test_c15_all_groups_flat_skips_the_update(grpo: Components, rollout: Rollout):
    moved = step(grpo, rollout, MIXED).state  # moments that are not zero
    before = jax.device_get(moved)
    result = step(grpo, rollout, FLAT, state=moved)
    after = jax.device_get(result.state)
    assert_trees_equal((after.params, after.opt_state), (before.params, before.opt_state))
    assert int(after.step) == int(before.step) + 1
    metrics = result.metrics
    assert metrics["update/skipped"] == 1 and metrics["update/count"] == 0
    assert metrics["filter/kept_count"] == 0 and metrics["filter/flat_count"] == 4
    assert "rollout/return" in metrics and "collapse/first_turn/mi_sequence_nats" in metrics
    assert all(np.isfinite(value) for name, value in metrics.items() if name.startswith(("filter/", "update/")))


def test_an_update_that_is_not_finite_keeps_parameters_and_step(grpo: Components, rollout: Rollout):
    poisoned = with_rewards(rollout, [[0, 1, 0, 1]] * 4)
    log_probs = np.array(poisoned.batch.behaviour_log_probs)
    log_probs[poisoned.batch.response_mask] = np.nan
    poisoned = dataclasses.replace(poisoned, batch=dataclasses.replace(poisoned.batch, behaviour_log_probs=log_probs))
    before = jax.device_get(grpo.state)
    result = learn(grpo, fresh(grpo), poisoned)
    assert result.metrics["update/finite"] == 0
    after = jax.device_get(result.state)
    assert_trees_equal((after.params, after.opt_state, after.step), (before.params, before.opt_state, before.step))


def test_the_diagnosis_updates_its_moving_average_only(grpo: Components, rollout: Rollout):
    result = step(grpo, rollout, FLAT)
    assert int(result.state.collapse.count) == 1 and float(result.state.collapse.ema_std) > 0
    off = dataclasses.replace(
        grpo, config=dataclasses.replace(grpo.config, collapse=dataclasses.replace(grpo.config.collapse, every=2))
    )
    later = step(off, rollout, FLAT, state=result.state)  # step 1 of every second
    assert int(later.state.collapse.count) == 1
    assert not any(name.startswith("collapse/") for name in later.metrics)


def test_ppo_trains_policy_and_critic(ppo: Components, rollout: Rollout):
    before = jax.device_get(ppo.state)
    result = step(ppo, rollout, MIXED)
    metrics, after = result.metrics, jax.device_get(result.state)
    assert metrics["filter/kept_count"] == 4 and metrics["update/count"] == 1
    assert metrics["loss/value"] > 0 and metrics["gradient/critic_norm"] > 0
    lengths = np.asarray(rollout.batch.response_mask).sum(1)  # the critic is 0 and nothing is discounted
    share = lengths[np.ravel(MIXED) == 1].sum() / lengths.sum()
    assert metrics["advantage/rms_before_whitening"] == pytest.approx(share**0.5, rel=1e-5)
    for name in ("params", "critic_params"):
        moved = [
            np.abs(a - b).max()
            for a, b in zip(jax.tree.leaves(getattr(after, name)), jax.tree.leaves(getattr(before, name)), strict=True)
        ]
        assert max(moved) > 1e-4, name
    losses = [metrics["loss/value"]]
    state = result.state
    for _ in range(3):
        result = step(ppo, rollout, MIXED, state=state)
        state = result.state
        losses.append(result.metrics["loss/value"])
    assert losses[-1] < losses[0]
