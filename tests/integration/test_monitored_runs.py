"""Whole runs with a frozen scorer, sampled columns and alarms: how they end, and that they go on exactly."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from configs._change import change
from experiments import evaluate
from ragen_jax.learner.checkpoint import Checkpointer
from ragen_jax.models.config import model_config
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.training.build import Components
from ragen_jax.training.loop import Outcome, train
from ragen_jax.training.policy_files import load_policy, save_policy
from ragen_jax.training.run_folder import RunFolder
from tests.learner_fixtures import assert_trees_equal
from tests.training_fixtures import tiny_config


def by_step(outcome: Outcome) -> dict[int, dict[str, Any]]:
    """Metrics of each step without clock times and compilations."""
    merged: dict[int, dict[str, Any]] = {}
    for row in outcome.folder.metrics():
        kept = {name: value for name, value in row.items() if not name.startswith(("time/", "compile/"))}
        merged.setdefault(row["step"], {}).update(kept)
    return merged


def repeating_from(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a step on, counted from 0, every rollout is one token over and over, with equal rewards."""
    real = Components.training_rollout

    def collapsed(self: Components, policy: Any, number: int, attempt: int = 0) -> Rollout:
        rollout = real(self, policy, number, attempt)
        if number < step:
            return rollout
        batch = rollout.batch
        shape = np.shape(batch.tokens)
        same = dataclasses.replace(
            batch,
            tokens=np.full(shape, 40, np.int32),
            attention_mask=np.ones(shape, bool),
            response_mask=np.ones(shape, bool),
            turn_ids=np.zeros(shape, np.int32),
            token_rewards=np.zeros(shape, np.float32),
            returns=np.zeros(shape[0], np.float32),
            penalties=np.zeros(shape[0], np.float32),
        )
        return dataclasses.replace(rollout, batch=same)

    monkeypatch.setattr(Components, "training_rollout", collapsed)


def test_c40_repetition_stops_the_run_and_the_checkpoint_before_it_stays(
    bandit_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    config = tiny_config(
        bandit_policy,
        steps=6,
        folder=str(tmp_path / "run"),
        alarm={"stop": True},
        checkpoint={"every": 1, "keep": 2},
        collapse={"every": 0},
        validation={"every": 0, "at_start": False},
    )
    repeating_from(2, monkeypatch)
    with caplog.at_level(logging.WARNING, logger="ragen_jax"):
        outcome = train(config, writers=())
    assert "step 3: 100% of the responses repeat one symbol" in caplog.messages
    assert outcome.summary["stop_reason"] == (
        "100% of the responses repeat one symbol; newest checkpoint before it: step 2"
    )
    with Checkpointer(outcome.folder.checkpoints, keep=2) as checkpointer:
        assert checkpointer.complete_steps() == [2, 3]
    metrics = outcome.folder.metrics()
    assert [row["alarm/repetition"] for row in metrics if "alarm/repetition" in row] == [0.0, 0.0, 1.0]
    assert any("validation/success" in row and row["step"] == 3 for row in metrics)  # the last look still happens


def test_without_stop_the_alarm_is_logged_once_and_the_run_goes_on(
    bandit_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    config = tiny_config(
        bandit_policy, steps=3, folder=str(tmp_path / "run"), collapse={"every": 0}, filter={"max_empty_steps": 0}
    )
    repeating_from(1, monkeypatch)
    with caplog.at_level(logging.WARNING, logger="ragen_jax"):
        outcome = train(config, writers=())
    assert outcome.summary["stop_reason"] == "finished"
    assert [text for text in caplog.messages if "repeat one symbol" in text] == [
        "step 2: 100% of the responses repeat one symbol"
    ]


def test_a_resumed_run_keeps_scorer_draws_and_monitor(bandit_policy: Path, tmp_path: Path):
    def config(name: str, steps: int) -> Any:
        return tiny_config(
            bandit_policy,
            steps=steps,
            folder=str(tmp_path / name),
            collapse={"scorer": "initial", "columns": 3, "turn_uniform": True, "trajectory_samples": 6},
            checkpoint={"every": 1, "keep": 2},
            validation={"every": 3},
        )

    whole = train(config("whole", 4), writers=())
    half = train(config("half", 2), writers=())
    saved = half.folder.config()
    resumed = train(change(saved, steps=4, resume=str(half.folder.path)), writers=())
    assert_trees_equal(jax.device_get(whole.state), jax.device_get(resumed.state))
    ends, again = by_step(whole), by_step(resumed)
    for step in (3, 4):  # the half run was validated at its own end, so only later rows are those of the whole
        assert again[step] == ends[step]
    assert "alarm/change_reward_variance" in ends[4] and "regime/uncertain" in ends[4]
    with (
        Checkpointer(resumed.folder.checkpoints, keep=2) as first,
        Checkpointer(whole.folder.checkpoints, keep=2) as second,
    ):
        metas = [c.restore(4, jax.eval_shape(lambda: whole.state))[1] for c in (first, second)]
    assert metas[0]["monitor"] == metas[1]["monitor"] and metas[0]["scorer"] == metas[1]["scorer"] is not None
    # An evaluation of the last step scores with the same frozen policy.
    run, parsed, step, _ = evaluate.read_arguments([f"run={resumed.folder.path}"])
    record = evaluate.evaluate(run, parsed, step)
    name = "validation/collapse/conditional_entropy_sequence_nats"
    assert record["metrics"][name] == pytest.approx(ends[4][name], rel=1e-6)


def test_another_scorer_is_refused_on_resume(bandit_policy: Path, tmp_path: Path):
    config = tiny_config(bandit_policy)
    scorer = tmp_path / "scorer"
    params = load_policy(bandit_policy, model_config(config.model.preset))
    save_policy(scorer, params, {})
    config = change(config, steps=1, folder=str(tmp_path / "run"), collapse={"scorer": str(scorer)})
    first = train(config, writers=())
    for file in scorer.iterdir():
        file.unlink()
    scorer.rmdir()
    save_policy(scorer, jax.tree.map(lambda x: 0.5 * x, params), {})
    saved = RunFolder.open(first.folder.path).config()
    with pytest.raises(ValueError, match="has other parameters now"):
        train(change(saved, steps=2, resume=str(first.folder.path)), writers=())
