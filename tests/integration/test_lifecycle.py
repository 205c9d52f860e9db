"""How runs begin, are held by one process, and go on."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, SupportsFloat

import jax
import numpy as np
import pytest

from configs._change import change
from ragen_jax.config import Config, from_json
from ragen_jax.training import loop as loop_module
from ragen_jax.training.build import build
from ragen_jax.training.disk_errors import DiskError
from ragen_jax.training.loop import train
from ragen_jax.training.run_folder import RunFolder
from ragen_jax.training.signals import StopSignal
from ragen_jax.training.step import learn
from ragen_jax.training.writers import Memory
from tests.training_fixtures import tiny_config, with_rewards

QUIET = (Memory(),)


def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path):
    folder = tmp_path / "run"
    with pytest.raises(ValueError, match="is not a run folder"):
        train(tiny_config(tmp_path, folder=str(folder)), writers=QUIET)  # tmp_path holds no policy
    assert not folder.exists()


def test_a_run_folder_is_held_by_one_process_at_a_time(tmp_path: Path):
    run = RunFolder.create(tmp_path / "run", "{}", metadata={})
    with run.locked(), pytest.raises(ValueError, match="in use by another process"), RunFolder.open(run.path).locked():
        pass
    with run.locked():  # free again
        pass


@pytest.mark.slow
def test_a_continued_run_needs_neither_its_first_policy_nor_its_first_place(bandit_policy: Path, tmp_path: Path):
    policy = shutil.copytree(bandit_policy, tmp_path / "policy")
    config = tiny_config(policy, steps=1, folder=str(tmp_path / "run"), filter={"max_empty_steps": 0})
    first = train(config, writers=QUIET)
    shutil.rmtree(policy)
    moved = Path(shutil.move(first.folder.path, tmp_path / "moved"))
    saved = from_json((moved / "config.json").read_text())
    assert saved.folder == ""  # so that this file starts the same run elsewhere
    outcome = train(change(saved, steps=2, resume=str(moved)), writers=QUIET)
    assert int(outcome.state.step) == 2


def test_stopped_before_the_first_step_the_start_is_validated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = tiny_config(None, steps=1, folder=str(tmp_path / "run"))
    monkeypatch.setattr(StopSignal, "__enter__", lambda self: setattr(self, "requested", "SIGTERM") or self)
    stopped = train(config, writers=QUIET)
    monkeypatch.undo()
    assert stopped.summary["stop_reason"] == "interrupted by SIGTERM"
    saved = stopped.folder.config()
    outcome = train(change(saved, resume=str(stopped.folder.path)), writers=QUIET)
    assert [row["step"] for row in outcome.folder.metrics()].count(0) == 1


@pytest.mark.slow
def test_a_run_goes_on_below_a_damaged_checkpoint(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    config = tiny_config(None, steps=2, folder=str(tmp_path / "run"), checkpoint={"every": 1, "keep": 3})
    first = train(change(config, collapse={"every": 0}, validation={"at_start": False}), writers=QUIET)
    (first.folder.checkpoints / "2" / "manifest.json").unlink()  # as a process leaves it that is killed in a save
    saved = first.folder.config()
    with caplog.at_level("WARNING"):
        outcome = train(change(saved, steps=3, resume=str(first.folder.path)), writers=QUIET)
    assert "checkpoint of step 2" in caplog.text
    assert [row["step"] for row in outcome.folder.metrics()] == [1, 2, 3, 3]
    assert sorted(path.name for path in outcome.folder.checkpoints.iterdir()) == ["1", "2", "3"]


@pytest.mark.slow
def test_a_run_whose_disk_is_full_says_how_it_goes_on_and_does(tmp_path: Path):
    """Writing to /dev/full fails as writing to a full disk does."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    path = tmp_path / "run"
    config = tiny_config(None, steps=3, folder=str(path), checkpoint={"every": 1}, filter={"max_empty_steps": 0})
    config = change(config, collapse={"every": 0}, validation={"at_start": False})

    class FillDisk(Memory):
        def write(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
            (path / "metrics.jsonl").rename(path / "kept")
            (path / "metrics.jsonl").symlink_to("/dev/full")

    with pytest.raises(DiskError, match=r"No space left .* checkpoint: step 1; .* resume=.*run goes on after step 1"):
        train(config, writers=(FillDisk(),))
    (path / "kept").replace(path / "metrics.jsonl")
    outcome = train(change(config, resume=str(path)), writers=QUIET)
    assert [row["step"] for row in outcome.folder.metrics()] == [1, 2, 3, 3]


def test_c08_c15_a_zero_gradient_moves_nothing(bandit_policy: Path):
    """Without a filter and a regulariser a flat batch has nothing to teach; momentum must not move the parameters."""
    config = tiny_config(
        bandit_policy, "grpo", "no_filter", algorithm={"entropy_coef": 0.0}, collapse={"every": 0}, steps=3
    )
    parts = build(config)
    policy = parts.sampler(parts.state.params, version=0)
    rollout = parts.training_rollout(policy, 0)
    rng = np.random.default_rng(0)
    state = learn(parts, parts.state, with_rewards(rollout, rng.normal(size=(4, 4)).tolist())).state  # gains momentum
    before = jax.device_get((state.params, state.opt_state))
    result = learn(parts, state, with_rewards(rollout, [[1.0] * 4] * 4))
    parts.close()
    assert result.metrics["update/skipped"] == 1 and result.metrics["update/count"] == 0
    assert int(result.state.step) == 2
    after = jax.device_get((result.state.params, result.state.opt_state))
    jax.tree.map(np.testing.assert_array_equal, before, after)


@pytest.mark.slow
def test_a_killed_run_has_the_rollouts_of_an_uninterrupted_one_though_a_budget_cuts_them(
    bandit_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    budget = {"every": 4, "rollouts_every": 1, "rollouts_per_sample": 16, "rollouts_budget_mb": 0.02}

    def config(name: str, **changes: object) -> Config:
        return tiny_config(bandit_policy, steps=10, folder=str(tmp_path / name), checkpoint=budget, **changes)

    train(config("whole"), writers=())
    publish = loop_module._Run._publish

    def dies(run: Any, actor: Any) -> None:
        if run.step == 7:
            raise OSError("killed")
        publish(run, actor)

    with monkeypatch.context() as patch:
        patch.setattr(loop_module._Run, "_publish", dies)
        with pytest.raises(OSError, match="killed"):
            train(config("killed"), writers=())
    train(config("killed", resume=str(tmp_path / "killed")), writers=())
    whole, killed = ((tmp_path / name / "rollouts.jsonl").read_text() for name in ("whole", "killed"))
    assert killed == whole
    assert '"step": 1,' not in whole.splitlines()[0]  # some were cut
