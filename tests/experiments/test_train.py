"""The command line of ``experiments.train``: one run, several seeds, a run to resume."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments import _arms, train
from ragen_jax.config import Config, to_json
from ragen_jax.training.run_folder import RunFolder


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What would have been run."""
    made: dict[str, Any] = {}

    def one(config: Config) -> Any:
        made["config"] = config
        summary = {"stop_reason": made.get("stop_reason", "finished")}
        return SimpleNamespace(folder=SimpleNamespace(path="somewhere"), summary=summary)

    def several(variants: Any, **arguments: Any) -> dict[str, Any]:
        made.update(arguments, variants=variants)
        return {}

    monkeypatch.setattr(train, "train", one)
    monkeypatch.setattr(_arms, "run_variants", several)
    monkeypatch.setattr(_arms, "initial_policy", lambda config: made.setdefault("prepared", config))
    return made


def test_one_run(calls: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    train.main(["preset=paper,countdown_tiny,grpo", "steps=3", "seed=5"])
    assert (calls["config"].env.name, calls["config"].steps, calls["config"].seed) == ("countdown", 3, 5)
    assert "results in somewhere" in capsys.readouterr().out
    assert "seeds" not in calls


def test_an_interrupted_run_does_not_look_finished(calls: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    for name, code in (("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)):
        calls["stop_reason"] = f"interrupted by {name}"
        with pytest.raises(SystemExit) as left:
            train.main(["preset=paper,countdown_tiny,grpo"])
        assert left.value.code == code
        assert "results in somewhere" in capsys.readouterr().out


def test_several_seeds(calls: dict[str, Any], tmp_path: Path) -> None:
    train.main(["preset=frozen_lake_tiny,grpo", "seeds=0,1,2", f"folder={tmp_path / 'out'}"])
    assert calls["seeds"] == (0, 1, 2)
    assert [variant.name for variant in calls["variants"]] == ["frozen_lake_tiny-grpo"]
    assert calls["folder"] == tmp_path / "out"
    assert calls["prepared"].model.init == "warm_start"
    assert "config" not in calls


def test_seeds_and_resume_contradict_each_other(calls: dict[str, Any], tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", to_json(Config()), metadata={}).path
    train.main([f"resume={run}"])
    assert calls["config"].resume == str(run)
    with pytest.raises(ValueError, match="continues one run"):
        train.main([f"resume={run}", "seeds=0,1"])


def test_a_folder_that_is_no_run_cannot_be_resumed(calls: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not a run folder: it has no run\.json"):
        train.main([f"resume={tmp_path}"])
    with pytest.raises(ValueError, match=r"is not a run folder: there is no such folder"):
        train.main([f"resume={tmp_path / 'nowhere'}"])
    assert not calls


def test_a_bad_configuration_is_refused_before_children_start(calls: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"rollout\.group_size=1"):
        train.main(["preset=frozen_lake_tiny,grpo", "rollout.group_size=1", "seeds=0,1"])
    with pytest.raises(ValueError, match=rf"seed={2**31} is too large"):
        train.main(["preset=frozen_lake_tiny,grpo", f"seeds=0,{2**31}"])
    assert "seeds" not in calls
