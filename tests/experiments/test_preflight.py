"""The pre-flight verdict as a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import preflight
from tests.training_fixtures import tiny_config


def test_it_plays_the_prompts_of_the_first_steps_and_reads_what_the_filter_reads(bandit_policy: Path):
    config = tiny_config(bandit_policy, rollout={"group_size": 8})
    record = preflight.preflight(config, prompts=66)
    assert record["prompts"] == 68  # whole batches of four
    assert record["verdict"] in ("helps", "hurts", "undecided")
    low, high = record["dispersion"]["low"], record["dispersion"]["high"]
    assert low < record["dispersion"]["estimate"] < high
    expected = "helps" if low >= 1.16 else "hurts" if high <= 0.33 else "undecided"
    assert record["verdict"] == expected
    assert 0 <= record["flat_share"] < 1 and 0 < record["success"] < 1
    with pytest.raises(ValueError, match=r"rollout.group_size=1"):
        preflight.preflight(tiny_config(bandit_policy, rollout={"group_size": 1}), prompts=64)


def test_the_command_prints_and_saves_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(preflight, "preflight", lambda config, prompts: {"verdict": "undecided", "prompts": prompts})
    file = tmp_path / "verdict.json"
    preflight.main(["preset=bandit_tiny,grpo", "model.init=random", "prompts=100", f"save={file}"])
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads(file.read_text())
    assert record["prompts"] == 100
    assert record["command"].startswith("python -m experiments.preflight preset=bandit_tiny,grpo")


@pytest.mark.parametrize("prompts", ["63", "many"])
def test_too_few_prompts_are_refused(prompts: str):
    with pytest.raises(ValueError, match=f"prompts={prompts}"):
        preflight.main(["preset=bandit_tiny,grpo", "model.init=random", f"prompts={prompts}"])
