"""A step whose batch is flat may sample again, a bounded number of times."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragen_jax.training.loop import train
from ragen_jax.training.writers import Memory
from tests.training_fixtures import tiny_config


@pytest.mark.parametrize("refill", [False, True])
@pytest.mark.parametrize(("when_empty", "steps"), [("skip", 2), ("stop", 1)])
def test_c15_three_rounds_then_the_configured_outcome(tmp_path: Path, when_empty: str, steps: int, refill: bool):
    """Random parameters never answer in the right form, so every group of every batch is flat."""
    rule = {"rule": "nonzero", "slack": 0.0, "loss_scale": "none", "refill": True} if refill else {}
    config = tiny_config(
        None,
        steps=2,
        folder=str(tmp_path / "run"),
        filter={"max_attempts": 3, "when_empty": when_empty} | rule,
        validation={"prompts": 4, "samples": 4, "collapse_samples": 0},
    )
    outcome = train(config, writers=(Memory(),))
    rows = [row for row in outcome.folder.metrics() if "rollout/attempts" in row]
    assert [row["rollout/attempts"] for row in rows] == [3] * steps
    assert [row["update/skipped"] for row in rows] == [1] * steps
    assert all("rollout/return" in row for row in rows)
    reason = "finished" if when_empty == "skip" else "the filter kept nothing in 1 consecutive steps"
    assert outcome.summary["stop_reason"] == reason


def test_attempts_and_steps_never_share_prompts():
    config = tiny_config(None, filter={"max_attempts": 3}, rollout={"prompts": 4})
    seeds = [seed for step in range(5) for attempt in range(3) for seed in config.training_seeds(step, attempt)]
    assert len(set(seeds)) == len(seeds) == 5 * 3 * 4
