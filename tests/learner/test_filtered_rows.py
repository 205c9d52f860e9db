"""What the update makes of rollouts and prompts that a filter left out, and of the scale it puts on the loss."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.core.filters import best_and_worst
from ragen_jax.learner.prepare import denominators, prepare
from ragen_jax.types import LearnerBatch
from tests.learner.test_prepare import MASK, SETTINGS, rollout_batch, verdict
from tests.learner_fixtures import (
    SETTINGS as UPDATE,
)
from tests.learner_fixtures import (
    assert_trees_close,
    gradients,
    learner_batch,
    with_algorithm,
)

PROJECT = Path(__file__).parent.parent.parent
MODES = ("token-mean", pytest.param("seq-mean-token-mean", marks=pytest.mark.slow))


def only(batch: LearnerBatch, rows: np.ndarray) -> LearnerBatch:
    """The batch with the chosen rollouts alone; every group has as many of them."""
    number = int(rows[0].sum())

    def pick(x: Any) -> np.ndarray:
        return np.asarray(x)[rows].reshape(len(rows), number, *np.shape(x)[2:])

    changed = {
        field.name: pick(getattr(batch, field.name))
        for field in dataclasses.fields(batch)
        if not field.name.startswith("prompt_")
    }
    return dataclasses.replace(batch, **changed)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@given(st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_rollouts_dropped_by_mask_or_taken_out_give_one_gradient(mode: str, seed: int):
    batch = learner_batch(groups=4, group_size=3)
    rewards = np.random.default_rng(seed).normal(size=(4, 3)).astype(np.float32)
    rows = np.asarray(best_and_worst(rewards, best=1, worst=1))
    masked = dataclasses.replace(batch, weights=rows.astype(np.float32))
    algorithm = with_algorithm(UPDATE, aggregation=mode)
    apart, together = gradients(only(batch, rows), settings=algorithm), gradients(masked, settings=algorithm)
    assert_trees_close(together[0][0], apart[0][0], atol=1e-6)
    np.testing.assert_allclose(together[1].actor, apart[1].actor, atol=1e-6)
    assert together[2].tokens == apart[2].tokens == batch.response_mask[rows].sum()


def test_b17_a_scale_on_advantages_leaves_entropy_and_kl_alone():
    batch = learner_batch(groups=4, group_size=3)
    _, plain, _ = gradients(batch)
    _, scaled, _ = gradients(dataclasses.replace(batch, advantages=np.float32(0.5) * batch.advantages))
    _, whole, _ = gradients(batch, scale=0.5)
    assert abs(float(plain.task)) > 1e-3 and abs(float(plain.kl)) > 1e-4 and abs(float(plain.entropy)) > 1e-4
    for terms in (scaled, whole):
        np.testing.assert_allclose(terms.task, 0.5 * plain.task, rtol=1e-5)
    for name in ("kl", "entropy"):
        np.testing.assert_allclose(getattr(scaled, name), getattr(plain, name), rtol=1e-6)
        np.testing.assert_allclose(getattr(whole, name), 0.5 * getattr(plain, name), rtol=1e-5)


def test_advantages_are_those_of_the_whole_group():
    """Row 1 of group 0 and row 0 of group 2 are left out of the update, not out of their group's mean."""
    rows = np.array([[True, False], [True, True], [False, True]])
    whole = prepare(rollout_batch(), verdict([True, False, True]), SETTINGS)
    result = dataclasses.replace(verdict([True, False, True]), row_keep=rows)
    prepared = prepare(rollout_batch(), result, SETTINGS)
    assert prepared.batch.weights.tolist() == [[1, 0], [0, 0], [0, 1]]
    np.testing.assert_array_equal(prepared.batch.advantages, whole.batch.advantages)
    assert prepared.order.tolist() == whole.order.tolist() and prepared.kept == 2
    trained = MASK.reshape(3, 2, -1)[np.array(prepared.batch.weights) > 0].sum()
    kept = with_algorithm(SETTINGS, normalizer="kept")
    assert denominators(prepared, np.array([0, 2]), kept) == (trained, trained)
    rollout = with_algorithm(SETTINGS, normalizer="rollout")
    assert denominators(prepared, np.array([0, 2]), rollout) == (MASK.sum(), trained)


def test_whitening_looks_at_the_rollouts_that_are_trained():
    gae = with_algorithm(SETTINGS, advantage="gae")
    values = np.random.default_rng(0).normal(size=MASK.shape).astype(np.float32)
    rows = np.array([[True, False], [True, True], [True, True]])
    result = dataclasses.replace(verdict([True, False, True]), row_keep=rows)
    prepared = prepare(rollout_batch(), result, gae, values=values)
    trained = MASK & (np.asarray(prepared.batch.weights).reshape(-1, 1) > 0)
    got = prepared.batch.advantages.reshape(MASK.shape)[trained]
    assert abs(got.mean()) < 1e-6
    np.testing.assert_allclose(got.std(ddof=1), 1.0, rtol=1e-5)


ON_EIGHT_DEVICES = """
import dataclasses
import jax
import numpy as np
from ragen_jax.models.sharding import make_mesh
from tests.learner.test_update import ONE, on_mesh
from tests.learner_fixtures import assert_trees_close, learner_batch

assert jax.device_count() == 8
batch = learner_batch(groups=8, group_size=4, seed=2)
keep = np.isin(np.arange(8), (1, 4, 6))
batch = dataclasses.replace(batch, weights=(batch.weights * keep[:, None]).astype(np.float32))
order = [1, 4, 6, 0, 0, 0, 0, 0]
expected, numbers = on_mesh(ONE, 2, batch, order, 3)
assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(expected)) > 1e-2
for shape, micro_groups in (({"data": 8}, 8), ({"data": 4, "tensor": 2}, 4), ({"data": 2, "fsdp": 2, "tensor": 2}, 4)):
    got, metrics = on_mesh(make_mesh(**shape), micro_groups, batch, order, 3)
    assert_trees_close(got, expected, atol=1e-6)
    assert_trees_close(jax.device_get(metrics), jax.device_get(numbers), atol=1e-5)
print("equal on eight devices")
"""


@pytest.mark.slow
def test_c16_three_kept_groups_on_eight_devices():
    """Filler groups have weight 0; loss, gradient and metrics are those of one device with two micro-batches."""
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if "device_count" not in flag]
    environment = os.environ | {"XLA_FLAGS": " ".join([*flags, "--xla_force_host_platform_device_count=8"])}
    run = subprocess.run(
        [sys.executable, "-c", ON_EIGHT_DEVICES],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert "equal on eight devices" in run.stdout
