"""The probe inside the learner step: it agrees with the update, tells dropped prompts too, and changes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

from configs._change import change
from ragen_jax.config import Config
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.training.build import Components, build
from ragen_jax.training.json_lines import read_rows
from ragen_jax.training.loop import train
from ragen_jax.training.step import StepResult, learn
from ragen_jax.types import TrainState
from tests.learner_fixtures import assert_trees_equal
from tests.training_fixtures import tiny_config, with_rewards

pytestmark = pytest.mark.slow  # a probed step compiles for a quarter of a minute

MIXED = [[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]]
FLAT = [[1, 1, 1, 1]] * 4
PROBE = {"every": 2, "buckets": 2, "mi_columns": 3}


@pytest.fixture(scope="module")
def parts(bandit_policy: Path) -> Iterator[Components]:
    """No KL term: the probe brings its own reference."""
    found = build(tiny_config(bandit_policy, "grpo", filter={"slack": 0.0}, probe=PROBE))
    yield found
    found.close()


@pytest.fixture(scope="module")
def rollout(parts: Components) -> Rollout:
    return parts.training_rollout(parts.sampler(parts.state.params, version=0), 0)


def fresh(parts: Components) -> TrainState:
    return jax.tree.map(lambda x: jax.device_put(np.asarray(x), x.sharding), parts.state)


def switched_off(parts: Components) -> Components:
    return dataclasses.replace(parts, config=change(parts.config, probe={"every": 0, "buckets": 4, "mi_columns": 0}))


@pytest.fixture(scope="module")
def probed(parts: Components, rollout: Rollout) -> StepResult:
    return learn(parts, fresh(parts), with_rewards(rollout, MIXED))


def test_the_account_of_the_kept_prompts_is_that_of_the_update(probed: StepResult):
    metrics = probed.metrics
    np.testing.assert_allclose(metrics["gradient_probe/update/total_norm"], metrics["gradient/actor_norm"], rtol=1e-5)
    assert metrics["gradient_probe/update/prompts"] == metrics["filter/kept_count"] == 2
    assert metrics["gradient_probe/all/prompts"] == 4


def test_dropped_prompts_have_no_task_gradient_and_a_regulariser(probed: StepResult):
    rows = [row for row in probed.probe_rows if row["set"] == "prompt"]
    assert [row["kept"] for row in rows] == [False, True, False, True]
    assert [row["task_norm"] > 0 for row in rows] == [False, True, False, True]
    assert [row["dominance"] == 1 for row in rows] == [True, False, True, False]
    np.testing.assert_allclose([row["reward_variance"] for row in rows], [0, 1 / 3, 0, 1 / 4], rtol=1e-6)
    assert probed.metrics["gradient_probe/bucket_1/task_norm"] == 0
    assert probed.metrics["gradient_probe/skipped"] == 0
    assert probed.metrics["gradient_probe/bucket_1/entropy_unit_norm"] > 0
    assert probed.metrics["gradient_probe/bucket_2/task_norm"] > 0
    assert {row["set"] for row in probed.probe_rows} == {"bucket_1", "bucket_2", "all", "update", "prompt"}


def test_a_policy_that_is_its_reference_has_no_kl_gradient(probed: StepResult):
    for name in ("bucket_1", "bucket_2", "all", "update"):
        assert probed.metrics[f"gradient_probe/{name}/kl_unit_norm"] < 1e-4


def test_a_policy_that_has_moved_has_one(parts: Components, rollout: Rollout):
    state = fresh(parts)
    state = dataclasses.replace(state, params=jax.tree.map(lambda x: x * np.float32(1.05), state.params))
    metrics = learn(parts, state, with_rewards(rollout, MIXED)).metrics
    assert all(metrics[f"gradient_probe/{name}/kl_unit_norm"] > 1e-2 for name in ("bucket_1", "bucket_2", "update"))


def test_training_is_bit_identical_with_and_without(parts: Components, rollout: Rollout, probed: StepResult):
    plain = learn(switched_off(parts), fresh(parts), with_rewards(rollout, MIXED))
    assert_trees_equal(jax.device_get(probed.state), jax.device_get(plain.state))

    def unprobed(metrics: dict[str, float]) -> dict[str, float]:
        return {name: value for name, value in metrics.items() if not name.startswith(("gradient_probe/", "time/"))}

    assert unprobed(probed.metrics) == unprobed(plain.metrics)
    assert plain.probe_rows == () and not any(name.startswith("gradient_probe/") for name in plain.metrics)


def test_a_step_that_is_not_due_is_not_probed(parts: Components, rollout: Rollout, probed: StepResult):
    state = jax.tree.map(lambda x: jax.device_put(np.asarray(x), x.sharding), probed.state)
    assert learn(parts, state, with_rewards(rollout, MIXED)).probe_rows == ()


def test_a_step_that_keeps_nothing_is_probed(parts: Components, rollout: Rollout):
    result = learn(parts, fresh(parts), with_rewards(rollout, FLAT))
    assert result.metrics["update/skipped"] == 1
    assert result.metrics["gradient_probe/all/dominance"] == 1
    assert not any(name.startswith("gradient_probe/update/") for name in result.metrics)


def test_a_batch_without_a_valid_row_is_not_probed(parts: Components, rollout: Rollout):
    batch = dataclasses.replace(rollout.batch, valid=np.zeros_like(rollout.batch.valid))
    result = learn(parts, fresh(parts), dataclasses.replace(rollout, batch=batch))
    assert result.metrics["gradient_probe/skipped"] == result.metrics["update/skipped"] == 1
    assert result.probe_rows == ()


@pytest.mark.slow
def test_a_run_writes_its_rows_and_a_resume_goes_on_with_them(bandit_policy: Path, tmp_path: Path):
    config: Config = tiny_config(bandit_policy, "grpo", probe=PROBE | {"every": 1})
    config = dataclasses.replace(config, steps=2, folder=str(tmp_path / "run"))
    folder = train(config, writers=()).folder
    rows = read_rows(folder.probe_file)
    assert {row["step"] for row in rows} == {1, 2}
    assert sum(row["set"] == "prompt" for row in rows) == 2 * 4
    train(dataclasses.replace(config, steps=3, folder="", resume=str(folder.path)), writers=())
    assert [row["step"] for row in read_rows(folder.probe_file) if row["set"] == "all"] == [1, 2, 3]
