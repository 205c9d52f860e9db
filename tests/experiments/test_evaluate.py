"""Evaluation of saved steps: arguments, errors, and the numbers of a real tiny run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jax.numpy as jnp
import pytest

from experiments import evaluate
from ragen_jax.config import Config, compose, to_json
from ragen_jax.config.keys import key_types, set_key
from ragen_jax.learner.checkpoint import Checkpointer
from ragen_jax.training.loop import train
from ragen_jax.training.run_folder import RunFolder

TINY = ("paper", "frozen_lake_tiny", "grpo", "cpu_debug")


def _config(folder: Path) -> Config:
    config = compose(*TINY)
    for key, value in {
        "steps": 2,
        "folder": str(folder),
        "model.init": "random",
        "rollout.max_new_tokens": 6,
        "rollout.group_size": 2,
        "checkpoint.every": 1,
        "checkpoint.keep": 2,
        "validation.prompts": 4,
        "validation.samples": 2,
    }.items():
        config = set_key(config, key, value)
    return config


@pytest.fixture
def saved(tmp_path: Path) -> RunFolder:
    """A run folder with checkpoints of steps 1 and 2, without a training."""
    run = RunFolder.create(tmp_path / "run", to_json(_config(tmp_path / "run")), metadata={})
    with Checkpointer(run.checkpoints, keep=2) as checkpointer:
        for step in (1, 2):
            checkpointer.save(step, {"x": jnp.zeros(2)}, {})
    return run


def test_the_newest_step_and_the_settings_of_the_run_are_taken(saved: RunFolder) -> None:
    run, config, step, seeds = evaluate.read_arguments([f"run={saved.path}"])
    assert seeds == (config.seed,)
    assert evaluate.read_arguments([f"run={saved.path}", "seeds=3,4"])[3] == (3, 4)
    assert (run.path, step) == (saved.path, 2)
    assert config == saved.config()


def test_keys_of_an_evaluation(saved: RunFolder) -> None:
    argv = [f"run={saved.path}", "step=1", "samples=3", "validation.temperature=0.5", "validation.top_p=0.9", "seed=4"]
    _, config, step, _ = evaluate.read_arguments(argv)
    assert (step, config.validation.samples, config.validation.temperature) == (1, 3, 0.5)
    assert (config.validation.top_p, config.seed) == (0.9, 4)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["step=7"], "no complete checkpoint of step 7; there are 1, 2"),
        (["step=last"], "step=last is not a whole number"),
        (["optim.lr=1"], "optim.lr=1 cannot change in an evaluation"),
        (["rollout.temperature=2"], "rollout.temperature=2 cannot change in an evaluation"),
        (["preset=paper"], "preset=paper cannot change in an evaluation"),
        (["validation.prompt=3"], "validation.prompts"),
        (["samples=many"], "validation.samples='many' is not a whole number"),
    ],
)
def test_arguments_that_cannot_be_used(saved: RunFolder, tokens: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate.read_arguments([f"run={saved.path}", *tokens])


def test_help_names_what_may_change(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        evaluate.main(["--help"])
    printed = capsys.readouterr().out
    assert all(name in printed for name in (*evaluate.OWN, "validation.*", "validation.top_p"))
    assert all(f"{key}=" in printed for key in key_types() if key.startswith("validation."))
    assert "optim.lr" not in printed


def test_help_about_a_run_shows_its_values(saved: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        evaluate.main([f"run={saved.path}", "--help"])
    assert re.search(r"validation\.prompts=INT\s+distinct validation prompts\. \(default: 4\)", capsys.readouterr().out)


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="which run"):
        evaluate.read_arguments([])
    with pytest.raises(ValueError, match=r"is not a run folder: it has no run\.json"):
        evaluate.read_arguments([f"run={tmp_path}"])
    empty = RunFolder.create(tmp_path / "empty", to_json(_config(tmp_path / "empty")), metadata={})
    with pytest.raises(ValueError, match="has no complete checkpoint to evaluate"):
        evaluate.read_arguments([f"run={empty.path}"])


def test_impossible_truncation_is_refused(saved: RunFolder) -> None:
    run, config, step, _ = evaluate.read_arguments([f"run={saved.path}", "validation.top_p=0"])
    with pytest.raises(ValueError, match=r"validation\.top_p=0"):
        evaluate.evaluate(run, config, step)


@pytest.mark.slow
def test_an_evaluation_repeats_the_validation_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = train(_config(tmp_path / "run"), writers=())
    logged = [row for row in outcome.folder.metrics() if "validation/success" in row][-1]
    evaluate.main([f"run={outcome.folder.path}"])
    printed = capsys.readouterr().out
    (path,) = (outcome.folder.path / "evaluations").iterdir()
    record = json.loads(path.read_text())
    assert record["step"] == 2
    assert len(record["prompts"]) == 4
    assert sum(prompt["episodes"] for prompt in record["prompts"]) == 8
    expected = {name: logged[name] for name in record["metrics"]}
    assert record["metrics"] == pytest.approx(expected, rel=1e-6)
    assert "95 % interval" in printed
    assert str(path) in printed

    evaluate.main([f"run={outcome.folder.path}", "step=1", "samples=1", "validation.top_k=3"])
    assert len(list(path.parent.iterdir())) == 2
    evaluate.main([f"run={outcome.folder.path}"])
    assert json.loads(path.read_text()) == record
