"""Whole runs: what they leave behind, how they go on, and how they end."""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsFloat

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs._change import change
from ragen_jax.config import Config, compose, parse
from ragen_jax.core.advantages import ADVANTAGES, AdvantageInputs, AdvantageOptions
from ragen_jax.envs.base import StepResult
from ragen_jax.envs.pool import EnvPool
from ragen_jax.learner.checkpoint import Checkpointer
from ragen_jax.rollout.queue import ActorThread
from ragen_jax.training import build as build_module
from ragen_jax.training import loop as loop_module
from ragen_jax.training.build import Components
from ragen_jax.training.compile_counter import CompileCounter
from ragen_jax.training.loop import NonFiniteUpdateError, Outcome, TooManyFailuresError, train
from ragen_jax.training.run_folder import RunFolder
from ragen_jax.training.step import StepResult as LearnerStep
from tests.learner_fixtures import assert_trees_equal
from tests.training_fixtures import tiny_config

QUIET = ()  # writers beside the files of the run folder: no console
STEPS = 6


class OnStep:
    """A writer that calls something once a step has been written."""

    def __init__(self, step: int, action: Any) -> None:
        self.step, self.action = step, action

    def write(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
        if step == self.step:
            self.action()

    def close(self) -> None:
        pass


def whole_config(policy: Path, *presets: str, **changes: Any) -> Config:
    """Everything switched on that a continuation must carry over."""
    config = tiny_config(
        policy,
        *presets,
        steps=STEPS,
        validation={"every": 3},
        checkpoint={"every": 1, "keep": 2},
        early_stop={"window": 5, "baseline_steps": 4, "fraction": 0.01},
    )
    return change(config, **changes)


def comparable(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what may differ between two runs of the same thing."""
    return [{name: value for name, value in row.items() if not name.startswith(("time/", "compile/"))} for row in rows]


def assert_same_run(first: Outcome, second: Outcome) -> None:
    """States, metrics and early-stop memory, bit by bit."""
    assert_trees_equal(jax.device_get(first.state), jax.device_get(second.state))
    assert comparable(first.folder.metrics()) == comparable(second.folder.metrics())
    metas = []
    for outcome in (first, second):
        with Checkpointer(outcome.folder.checkpoints, keep=2) as checkpointer:
            step = checkpointer.latest()
            assert step is not None
            metas.append(checkpointer.restore(step, outcome.state)[1] | {"wall_seconds": 0, "step": step})
    assert metas[0] == metas[1]
    for name in ("steps", "success_after", "mi_start", "mi_end", "kept_ratio_mean", "stop_reason"):
        assert first.summary[name] == second.summary[name]


@pytest.fixture(scope="module")
def uninterrupted(bandit_policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return train(whole_config(bandit_policy, folder=str(folder)), writers=QUIET)


@pytest.fixture(scope="module")
def three_steps(bandit_policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("runs") / "three"
    return train(whole_config(bandit_policy, steps=3, folder=str(folder)), writers=QUIET)


def copied(outcome: Outcome, target: Path) -> Path:
    """The run folder as it is now, to be continued without harm to the original."""
    shutil.copytree(outcome.folder.path, target)
    return target


def test_three_steps_leave_a_whole_run_folder(three_steps: Outcome, bandit_policy: Path):
    folder = RunFolder.open(three_steps.folder.path)
    config = folder.config()
    assert config == whole_config(bandit_policy, steps=3)  # all but the place, so that it starts the same run elsewhere
    rows = folder.metrics()
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert all("/" in name for row in rows for name in row if name != "step")
    assert "validation/success" in rows[0] and "validation/success" in rows[3]
    for name in (
        "rollout/success",
        "rollout/return",
        "rollout/valid_format",
        "rollout/staleness",
        "filter/reward_variance_mean",
        "filter/kept_count",
        "filter/groups",
        "collapse/first_turn/retrieval_accuracy",
        "collapse/first_turn/retrieval_chance",
        "collapse/first_turn/mi_sequence_nats",
        "collapse/first_turn/mi_sequence_ceiling_nats",
        "collapse/first_turn/conditional_entropy_token_nats",
        "time/tokens_per_second",
        "time/step_seconds",
        "compile/count",
    ):
        assert isinstance(rows[1][name], int | float), name
    assert ["time/to_first_step_seconds" in row for row in rows] == [False, True, False, False]
    assert rows[1]["time/to_first_step_seconds"] > rows[1]["time/step_seconds"]
    assert any(row.get("update/count") == 1 for row in rows)  # something was trained
    samples = [json.loads(line) for line in folder.rollouts_file.read_text(encoding="utf-8").splitlines()]
    assert samples[0]["step"] == 1
    assert samples[0]["prompt"].endswith("<think>")
    assert {"reply", "token_ids", "reward"} <= samples[0]["turns"][0].keys()
    assert list(folder.tensorboard.glob("events.*"))
    with Checkpointer(folder.checkpoints, keep=2) as checkpointer:
        assert checkpointer.complete_steps() == [2, 3]
    summary = folder.summary()
    assert summary == three_steps.summary
    assert summary["steps"] == 3 and summary["stop_reason"] == "finished" and summary["seed"] == 0
    for name in (
        "success_before",
        "success_after",
        "wall_seconds",
        "peak_rss_bytes",
        "retrieval_accuracy",
        "retrieval_chance",
        "mi_start",
        "mi_end",
        "conditional_entropy_start",
        "conditional_entropy_end",
        "valid_format_end",
        "kept_ratio_mean",
        "compilations",
    ):
        assert isinstance(summary[name], int | float), name
    assert summary["success_before_interval"][0] <= summary["success_before"] <= summary["success_before_interval"][1]
    assert summary["data_sources"] == ["bandit: generated"]
    assert json.loads(folder.run_file.read_text())["data_sources"] == summary["data_sources"]
    for name in ("data/rows", "data/embedded", "data/content_hash"):
        assert [row["step"] for row in folder.metrics() if name in row] == [1]


def test_c34_a_resumed_run_equals_an_uninterrupted_one(
    uninterrupted: Outcome, three_steps: Outcome, bandit_policy: Path, tmp_path: Path
):
    folder = copied(three_steps, tmp_path / "run")
    config = whole_config(bandit_policy, folder=str(folder), resume=str(folder))
    resumed = train(config, writers=QUIET)
    assert len(resumed.folder.metrics()) == STEPS + 1
    assert any(row.get("update/count") == 1 for row in resumed.folder.metrics()[4:])
    assert int(resumed.state.collapse.count) == STEPS
    assert_same_run(resumed, uninterrupted)


def test_c35_a_damaged_checkpoint_is_passed_over_with_a_warning(
    uninterrupted: Outcome, three_steps: Outcome, bandit_policy: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    folder = copied(three_steps, tmp_path / "run")
    newest = folder / "checkpoints" / "3"
    next(path for path in sorted(newest.rglob("*")) if path.is_file() and path.name != "manifest.json").unlink()
    config = whole_config(bandit_policy, folder=str(folder), resume=str(folder))
    with caplog.at_level(logging.INFO):
        resumed = train(config, writers=QUIET)
    messages = [record.getMessage() for record in caplog.records]
    assert any("checkpoint of step 3" in message and "skipped" in message for message in messages)
    assert any("after step 2" in message for message in messages)
    assert_same_run(resumed, uninterrupted)


def test_sigterm_saves_and_the_run_goes_on(
    uninterrupted: Outcome, bandit_policy: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    config = whole_config(bandit_policy, folder=str(tmp_path / "run"), checkpoint={"every": 0})
    terminate = OnStep(4, lambda: signal.raise_signal(signal.SIGTERM))
    stopped = train(config, writers=(terminate,))
    assert stopped.summary["stop_reason"] == "interrupted by SIGTERM"
    assert stopped.summary["steps"] == 4 and int(stopped.state.step) == 4
    resumed = train(dataclasses.replace(config, resume=str(stopped.folder.path)), writers=QUIET)
    assert_same_run(resumed, uninterrupted)


def test_a_finished_run_says_how_to_go_on(three_steps: Outcome, bandit_policy: Path, tmp_path: Path):
    folder = copied(three_steps, tmp_path / "run")
    with pytest.raises(ValueError, match=r"has finished 3 steps; raise steps=3 to go on"):
        train(whole_config(bandit_policy, steps=3, resume=str(folder)), writers=QUIET)


def test_another_configuration_is_refused_on_resume(three_steps: Outcome, bandit_policy: Path):
    config = whole_config(
        bandit_policy, resume=str(three_steps.folder.path), optim={"lr": 0.5}, rollout={"temperature": 0.7}
    )
    before = three_steps.folder.metrics_file.read_bytes()
    with pytest.raises(ValueError, match=r"optim\.lr was 0\.001 and is now 0\.5; rollout\.temperature was 1\.0"):
        train(config, writers=QUIET)
    assert three_steps.folder.metrics_file.read_bytes() == before


def test_a_folder_that_is_no_run_is_refused_on_resume(bandit_policy: Path, tmp_path: Path):
    with pytest.raises(ValueError, match=r"is not a run folder"):
        train(whole_config(bandit_policy, resume=str(tmp_path)), writers=QUIET)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_another_run_is_not_overwritten(three_steps: Outcome, bandit_policy: Path):
    with pytest.raises(ValueError, match=r"is not empty: .* resume="):
        train(whole_config(bandit_policy, folder=str(three_steps.folder.path)), writers=QUIET)


def test_c15_a_filter_that_keeps_nothing_ends_the_run_with_a_reason(tmp_path: Path):
    """Random parameters never answer in the right form, so all rewards are equal."""
    config = tiny_config(None, steps=5, folder=str(tmp_path / "run"), filter={"max_empty_steps": 2})
    outcome = train(config, writers=QUIET)
    assert outcome.summary["stop_reason"] == "the filter kept nothing in 2 consecutive steps"
    rows = outcome.folder.metrics()
    assert rows[-1]["step"] == 2 and "validation/success" in rows[-1]
    assert [row.get("update/skipped") for row in rows if "update/skipped" in row] == [1, 1]
    assert all("rollout/return" in row for row in rows if "update/skipped" in row)
    with Checkpointer(outcome.folder.checkpoints, keep=1) as checkpointer:
        assert checkpointer.complete_steps() == [2]
    assert int(outcome.state.step) == 2


def test_c38_one_compilation_of_each_program(bandit_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """At a temperature where the longest reply of some batches is short, and that of others fills the cap."""
    learn, longest = loop_module.learn, []

    def measured(parts: Components, state: Any, rollout: Any) -> LearnerStep:
        longest.append(int(np.asarray(rollout.batch.response_mask).sum(axis=1).max()))
        return learn(parts, state, rollout)

    monkeypatch.setattr(loop_module, "learn", measured)
    config = tiny_config(
        bandit_policy,
        steps=20,
        folder=str(tmp_path / "run"),
        validation={"every": 10, "collapse_samples": 0, "temperature": 1.2},
        # Shapes that no other test of this process has compiled.
        rollout={"max_new_tokens": 61, "max_context": 61, "length_bucket": 64, "temperature": 1.2},
        filter={"max_empty_steps": 0},
    )
    with CompileCounter() as compiled:
        outcome = train(config, writers=QUIET)
    metrics = outcome.folder.metrics()
    assert len(longest) == 20 and min(longest) <= 37 and max(longest) == 61
    kept = {row["filter/kept_count"] for row in metrics if "filter/kept_count" in row}
    assert len(kept) > 1  # the number of kept groups varied too
    for program in ("update", "_score_items", "prefill", "decode"):
        assert compiled.by_program[f"jit({program})"] == 1, program
    assert metrics[-1]["compile/count"] == metrics[2]["compile/count"]


class FaultyPool(EnvPool):
    """Training row 3 fails in the second rollout."""

    resets = 0

    def step(self, answers: Sequence[str | None]) -> list[StepResult | None]:
        results = super().step(answers)
        if self.config.split == "train":
            FaultyPool.resets += 1
            if FaultyPool.resets == 2:
                self._fail(3, "ValueError: the lever broke")
                results[3] = None
        return results


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FaultyPool, "resets", 0)
    monkeypatch.setattr(build_module, "EnvPool", FaultyPool)


@pytest.mark.usefixtures("faulty")
def test_a_failed_environment_costs_its_row_only(bandit_policy: Path, tmp_path: Path):
    config = tiny_config(bandit_policy, folder=str(tmp_path / "run"), env={"max_invalid_share": 1 / 16})
    rows = train(config, writers=QUIET).folder.metrics()
    assert [row["rollout/invalid_rows"] for row in rows if "rollout/invalid_rows" in row] == [0, 1, 0]


@pytest.mark.usefixtures("faulty")
def test_too_many_failed_environments_stop_the_run_and_lose_nothing(bandit_policy: Path, tmp_path: Path):
    config = tiny_config(bandit_policy, folder=str(tmp_path / "run"), env={"max_invalid_share": 0.05})
    with pytest.raises(
        TooManyFailuresError, match=r"1 of 16 environments failed in step 2, .*max_invalid_share=0\.05.*the lever broke"
    ):
        train(config, writers=QUIET)
    with np.load(tmp_path / "run" / "failed_step_1.npz") as batch:
        assert batch["valid"].sum() == 15
    resumed = train(dataclasses.replace(config, resume=config.folder), writers=QUIET)
    assert [row["step"] for row in resumed.folder.metrics() if "update/skipped" in row] == [1, 2, 3]
    whole = train(dataclasses.replace(config, folder=str(tmp_path / "whole")), writers=QUIET)
    assert_trees_equal(jax.device_get(resumed.state), jax.device_get(whole.state))


def test_an_error_of_the_actor_reaches_the_learner(
    bandit_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    original = Components.training_rollout

    def breaks_later(parts: Components, policy: Any, step: int, *attempt: int) -> Any:
        if step == 1:
            raise RuntimeError("the actor tripped")
        return original(parts, policy, step, *attempt)

    monkeypatch.setattr(Components, "training_rollout", breaks_later)
    with pytest.raises(RuntimeError, match="the actor tripped") as caught:
        train(tiny_config(bandit_policy, folder=str(tmp_path / "run")), writers=QUIET)
    assert "breaks_later" in "".join(traceback.format_exception(caught.value))
    assert not any(thread.name == "rollout-actor" for thread in threading.enumerate())


def broken_advantages(inputs: AdvantageInputs, options: AdvantageOptions) -> tuple[jax.Array, jax.Array]:
    """An estimator of one's own that fails."""
    nothing = jnp.full(inputs.response_mask.shape, jnp.nan)
    return nothing, nothing


def test_advantages_that_are_not_finite_are_not_blamed_on_the_learning_rate(
    bandit_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(ADVANTAGES._targets, "broken", f"{__name__}:broken_advantages")
    config = tiny_config(bandit_policy, "grpo", "no_filter", algorithm={"advantage": "broken"})
    with pytest.raises(NonFiniteUpdateError, match=r"the advantages were not: look at algorithm\.advantage=broken"):
        train(dataclasses.replace(config, folder=str(tmp_path / "run")), writers=QUIET)


def test_an_update_that_is_not_finite_saves_the_batch_and_stops(
    bandit_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(parts: Components, state: Any, rollout: Any) -> LearnerStep:
        return LearnerStep(state=state, metrics={"update/finite": 0.0})

    monkeypatch.setattr(loop_module, "learn", fails)
    with pytest.raises(NonFiniteUpdateError, match=r"step 1 is not finite.*lower optim\.lr"):
        train(tiny_config(bandit_policy, folder=str(tmp_path / "run")), writers=QUIET)
    with np.load(tmp_path / "run" / "nonfinite_step_0.npz") as batch:
        assert batch["tokens"].shape == (16, 32)
    with Checkpointer(tmp_path / "run" / "checkpoints", keep=1) as checkpointer:
        assert checkpointer.complete_steps() == [0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rollout": {"group_size": 1}}, r"group_size=1 .* at least 2 rollouts"),
        ({"rollout": {"prompts": 10}, "micro_groups": 4}, r"micro_groups=4 does not divide rollout\.prompts=10"),
        (
            {"rollout": {"prompts": 10}, "micro_groups": 1, "algorithm": {"minibatch_groups": 4}},
            r"minibatch_groups=4 does not divide rollout\.prompts=10",
        ),
        ({"env": {"name": "sokobann"}}, r"sokoban"),
        ({"env": {"train_seed": 0}, "validation": {"seed": 5}}, r"overlap"),
    ],
)
def test_c42_contradictions_are_refused_before_anything_is_made(changes: dict[str, Any], message: str, tmp_path: Path):
    with pytest.raises(ValueError, match=message):
        train(tiny_config(None, folder=str(tmp_path / "run"), **changes), writers=QUIET)
    assert not (tmp_path / "run").exists()


def test_c42_an_unknown_key_is_refused_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"clip_high"):
        parse(["algorithm.clip_hihg=0.28"], default_presets=("paper",))


def test_batches_may_lag_behind_by_the_staleness_asked_for(
    bandit_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The actor dawdles between choosing a version and sampling, so that the learner publishes a newer one."""
    original = ActorThread._wait_for_version

    def dawdle(actor: ActorThread, oldest: int) -> int | None:
        version = original(actor, oldest)
        time.sleep(0.3)
        return version

    monkeypatch.setattr(ActorThread, "_wait_for_version", dawdle)
    config = tiny_config(
        bandit_policy,
        steps=5,
        folder=str(tmp_path / "run"),
        rollout={"max_staleness": 1, "queue_size": 2},
        filter={"max_empty_steps": 0},
    )
    outcome = train(config, writers=QUIET)
    staleness = [row["rollout/staleness"] for row in outcome.folder.metrics() if "rollout/staleness" in row]
    assert len(staleness) == 5 and staleness[0] == 0 and set(staleness) == {0, 1}
    assert outcome.summary["stop_reason"] == "finished"


@pytest.mark.slow
def test_c34_ppo_resumes_with_critic_and_optimisers(bandit_policy: Path, tmp_path: Path):
    changes = {"algorithm": {"epochs": 2, "minibatch_groups": 2}, "optim": {"warmup_updates": 9}}
    config = whole_config(bandit_policy, "ppo", **changes)
    whole = train(dataclasses.replace(config, folder=str(tmp_path / "whole")), writers=QUIET)
    path = str(tmp_path / "run")
    train(dataclasses.replace(config, steps=3, folder=path), writers=QUIET)
    resumed = train(dataclasses.replace(config, folder=path, resume=path), writers=QUIET)
    assert whole.state.critic_params is not None
    assert_same_run(resumed, whole)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_several_turns_train_end_to_end(algorithm: str, tmp_path: Path):
    config = change(
        compose("paper", "frozen_lake_turns_tiny", algorithm, "cpu_debug"),
        model={"init": "random"},
        rollout={"max_new_tokens": 12, "max_context": 96},
        filter={"max_empty_steps": 0},
        folder=str(tmp_path / "run"),
    )
    outcome = train(config, writers=QUIET)
    rows = [row for row in outcome.folder.metrics() if "rollout/turns" in row]
    assert len(rows) == 3
    assert "collapse/trajectory/mi_sequence_nats" in rows[0] or rows[0]["rollout/closed_reasoning"] == 0
