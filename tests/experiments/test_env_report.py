"""The report of all environments, and the scripted players behind it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from experiments import env_report, slip_table
from experiments._env_policies import GENERAL, SHEETS, sheet
from ragen_jax.envs import ENVS, StepResult, make_env
from tests.env_fixtures import every_env

FAST = ("bandit", "frozen_lake", "sokoban", "countdown")


def test_the_command_prints_a_table_and_saves_the_same_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    env_report.main([f"envs={','.join(FAST)}", "n=30", f"save={file}"])
    table = capsys.readouterr().out
    record = json.loads(file.read_text())
    assert [row["name"] for row in record["environments"]] == list(FAST)
    for row in record["environments"]:
        assert row["train_validation_overlap"] == 0
        assert row["instances"] == 30
        assert sum(row["difficulty"]["counts"].values()) == 30
        assert row["oracle"]["success"] > row["random"]["success"]
        for score in (row["oracle"], row["random"], *row["adversaries"]):
            assert score["low"] <= score["success"] <= score["high"]
            assert score["episodes"] == 30
        assert row["resets_per_cpu_second"] > 0 < row["steps_per_cpu_second"]
        line = next(line for line in table.splitlines() if line.startswith(f"| {row['name']} |"))
        assert f"{row['oracle']['success']:.3g} [" in line
    scores = {row["name"]: row for row in record["environments"]}
    assert scores["bandit"]["distinct"]["validation"] <= 16  # its validation table
    assert scores["bandit"]["oracle"]["success"] == 1
    assert 0.2 < scores["bandit"]["random"]["success"] < 0.8
    assert scores["countdown"]["oracle"]["mean_return"] == 1


def test_json_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    env_report.main(["envs=bandit", "n=5", "--json"])
    record = json.loads(capsys.readouterr().out)
    assert record["command"] == "python -m experiments.env_report envs=bandit n=5 --json"
    assert record["episodes_per_player"] == 5


def test_what_cannot_be_made_is_left_out_unless_it_was_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env_report, "ENVS", env_report.ENVS.__class__("environment", (("http", "x:y"),)))
    env_report.main([])
    assert re.search(r"^Left out: http, no environment server at", capsys.readouterr().out, re.MULTILINE)
    with pytest.raises(OSError, match="no environment server"):
        env_report.main(["envs=http"])


def test_a_folder_that_is_not_there_is_named_before_anything_is_played(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"save=.*nowhere/x\.json: there is no folder .*nowhere, make it first"):
        env_report.main(["envs=bandit", "n=2", f"save={tmp_path / 'nowhere' / 'x.json'}"])


@pytest.mark.parametrize("argument", ["n=1", "n=many", "episodes=3", "--fast"])
def test_a_wrong_argument_is_refused(argument: str) -> None:
    with pytest.raises(ValueError, match=re.escape(argument)):
        env_report.main([argument])
    with pytest.raises(KeyError, match="did you mean 'sokoban'"):
        env_report.main(["envs=sokobann"])


@every_env
def test_every_player_answers_whatever_it_is_shown(name: str) -> None:
    """Two episodes each; the oracle is tested with the environments."""
    if name == "deepcoder":
        pytest.skip("every program costs a judgement; the report plays them")
    env = make_env(name)
    known = sheet(name)
    for player in (known.random, *known.adversaries):
        score = env_report.play(env, player, 2)
        assert score.episodes == 2
    assert known.unit(env)


def test_players_without_skill_are_paid_less_than_the_solver() -> None:
    env = make_env("countdown")
    assert all(env_report.play(env, player, 20).success == 0 for player in SHEETS["countdown"].adversaries)


@every_env
def test_what_a_player_earns_does_not_depend_on_what_ran_before(name: str) -> None:
    if name == "deepcoder":
        pytest.skip("every program costs a judgement; the report plays them")
    env = make_env(name)
    for player in sheet(name).adversaries:
        assert env_report.play(env, player, 3) == env_report.play(env, player, 3), player.name


def test_players_of_retry_try_another_answer_at_each_attempt() -> None:
    env = make_env("metamathqa_retry", checker="exact")
    env.reset(10_000)
    golds = next(player for player in sheet("metamathqa_retry").adversaries if "golds" in player.name)
    act, rng = golds.start(), np.random.default_rng(0)
    said = [act(env, "That is not right.", rng) for _ in range(6)]
    assert len(set(said[:5])) == 5 and said[5] == said[0]
    score = env_report.play(env, golds, 200)
    assert score.success > 0.05  # more than any one answer
    assert score.mean_return < score.success  # later attempts pay less
    numbers = next(player for player in sheet("metamathqa_retry").adversaries if player.name.startswith("numbers"))
    assert numbers.start()(env, "9 lives", rng) in re.findall(r"\d+", env.problem.question)


def test_an_unknown_environment_gets_the_general_players() -> None:
    assert sheet("mine").adversaries == GENERAL
    env = make_env("bandit")
    env.reset(0)
    assert sheet("mine").random.act(env, "", np.random.default_rng(0)) in env.choices


def test_an_episode_without_an_end_is_an_error() -> None:
    class Endless(type(make_env("bandit"))):
        def step(self, answer: str) -> StepResult:
            return StepResult(self.reset(0), 0.0, terminated=False, truncated=False, info={"success": False})

    with pytest.raises(RuntimeError, match="did not end within max_turns=1"):
        env_report.play(Endless(make_env("bandit").config), GENERAL[0], 1)


RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_the_page_of_results_shows_the_saved_numbers() -> None:
    page = (RESULTS / "environments.md").read_text(encoding="utf-8")
    record = json.loads((RESULTS / "environments.json").read_text(encoding="utf-8"))
    slips = json.loads((RESULTS / "slip_table.json").read_text(encoding="utf-8"))
    for table in (*env_report.table(record["environments"], {}).split("\n\n"), slip_table.table(slips["rows"])):
        assert table.strip() in page
    assert record["command"] in page and slips["command"] in page
    assert [row["name"] for row in record["environments"]] == [name for name in ENVS if name != "http"]
    assert all(row["train_validation_overlap"] == 0 for row in record["environments"])
    assert all(score["episodes"] >= 200 for row in record["environments"] for score in (row["oracle"], row["random"]))


def test_every_environment_says_how_hard_its_instances_are() -> None:
    for name in ("bandit", "sudoku", "game_2048"):
        row = env_report.report(name, 3)
        assert row["difficulty"]["meaning"]
        assert sum(row["difficulty"]["counts"].values()) == 3
    assert all(sheet.difficulty for sheet in SHEETS.values())
