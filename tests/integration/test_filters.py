"""A short run under every filter rule, every reading of top-p and every score, by configuration alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configs import PRESETS
from configs._change import change
from ragen_jax.core.scores import SCORES
from ragen_jax.training.loop import train
from ragen_jax.training.writers import Memory
from tests.training_fixtures import tiny_config

FILTER_PRESETS = [name for name in PRESETS if PRESETS._targets[name].startswith("configs.filters:")]
STEPS = 2

pytestmark = pytest.mark.slow


def rows_of_run(policy: Path, folder: Path, *presets: str, **filter_changes: Any) -> list[dict[str, float]]:
    """Metrics of the training steps of a run on four bandit prompts by four rollouts."""
    config = tiny_config(
        policy,
        "grpo",
        *presets,
        steps=STEPS,
        folder=str(folder / "run"),
        validation={"prompts": 4, "samples": 4, "collapse_samples": 0, "at_start": False},
        collapse={"every": 0},
    )
    outcome = train(change(config, filter=filter_changes), writers=(Memory(),))
    rows = [row for row in outcome.folder.metrics() if "update/count" in row]
    assert len(rows) == STEPS and outcome.summary["stop_reason"] == "finished"
    for row in rows:
        assert row["filter/kept_ratio"] == row["filter/kept_count"] / 4
        assert row["update/skipped"] == (row["update/count"] == 0)
        assert row["update/skipped"] or row["filter/kept_count"] > 0
        assert np.isfinite(list(row.values())).all()
    assert any(row["update/count"] > 0 for row in rows)
    return rows


@pytest.mark.parametrize("preset", FILTER_PRESETS)
def test_two_steps_under_every_filter_preset(bandit_policy: Path, tmp_path: Path, preset: str):
    changes = {"best_and_worst": 1} if preset == "best_and_worst_4" else {}  # four rollouts a prompt here
    rows = rows_of_run(bandit_policy, tmp_path, preset, **changes)
    kept = [row["filter/kept_count"] for row in rows]
    if preset == "no_filter":
        assert kept == [4] * STEPS
    if preset.startswith("quartile"):
        assert kept == [1] * STEPS
    if preset == "top_k25":
        assert max(kept) == 1
    if preset.startswith("top_p_"):
        assert kept == [row[f"filter/kept_count_{preset.removeprefix('top_p_')}"] for row in rows]


@pytest.mark.parametrize("score", list(SCORES))
def test_two_steps_under_every_score(bandit_policy: Path, tmp_path: Path, score: str):
    rows = rows_of_run(bandit_policy, tmp_path, "top_k25", score=score, value=0.5, include_zero=True, loss_scale="sqrt")
    assert [row["filter/kept_count"] for row in rows] == [2] * STEPS
    np.testing.assert_allclose([row["filter/loss_scale"] for row in rows], 0.5**0.5, rtol=1e-6)
