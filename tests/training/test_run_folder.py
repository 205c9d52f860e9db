"""Run folders: layout, refusals, names, the rollout budget."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.config import Config, to_json
from ragen_jax.training import json_lines
from ragen_jax.training.run_folder import LAYOUT_VERSION, RolloutLog, RunFolder, claim_folder

CONFIG = Config(steps=3)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", to_json(CONFIG), metadata={"seed": 4})


def test_create_then_open(run: RunFolder) -> None:
    opened = RunFolder.open(run.path, write=True)
    assert opened.config() == CONFIG
    facts = opened.facts()
    assert facts["layout"] == LAYOUT_VERSION
    assert facts["seed"] == 4
    assert facts["versions"]["jax"]
    assert opened.metrics() == []
    assert sorted(path.name for path in run.path.iterdir()) == ["checkpoints", "config.json", "run.json", "tensorboard"]


def test_summary_round_trip(run: RunFolder) -> None:
    with pytest.raises(ValueError, match=r"has no summary\.json"):
        run.summary()
    run.write_summary({"steps": 3, "mi_start": None})
    assert run.summary() == {"steps": 3, "mi_start": None}


def test_existing_content_is_refused(run: RunFolder) -> None:
    before = sorted(run.path.rglob("*"))
    with pytest.raises(ValueError, match=r"run is not empty: name a new folder, or continue it with resume="):
        RunFolder.create(run.path, "{}", metadata={})
    assert sorted(run.path.rglob("*")) == before
    assert run.config() == CONFIG


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    assert RunFolder.create(tmp_path, "{}", metadata={}).run_file.is_file()


@pytest.mark.parametrize("missing", ["run.json", "config.json", "checkpoints"])
def test_not_a_run_folder_names_what_is_missing(run: RunFolder, missing: str) -> None:
    victim = run.path / missing
    shutil.rmtree(victim) if victim.is_dir() else victim.unlink()
    with pytest.raises(ValueError, match=f"is not a run folder: it has no {missing}"):
        RunFolder.open(run.path)


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such folder"):
        RunFolder.open(tmp_path / "nothing")


def test_other_layout_is_refused(run: RunFolder) -> None:
    run.run_file.write_text(json.dumps({**run.facts(), "layout": 99}))
    with pytest.raises(ValueError, match=f"has layout 99, this version reads layout {LAYOUT_VERSION}"):
        RunFolder.open(run.path)


@pytest.mark.parametrize("content", [b"", b'{"layout": 1', b"[1]", b"\xff\xfe"])
def test_a_damaged_run_json_is_named(run: RunFolder, content: bytes) -> None:
    run.run_file.write_bytes(content)
    with pytest.raises(ValueError, match=r"run/run\.json is damaged"):
        RunFolder.open(run.path)


def test_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be written"):
        RunFolder.create(tmp_path / "file" / "run", "{}", metadata={})
    with pytest.raises(ValueError, match="cannot be written"):
        claim_folder(tmp_path / "file" / "runs", experiment="train", preset="x", seed=0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_is_refused(run: RunFolder) -> None:
    run.path.chmod(0o555)
    with pytest.raises(ValueError, match="cannot be written"):
        RunFolder.open(run.path, write=True)
    run.path.chmod(0o755)


def test_a_new_folder_in_a_read_only_place_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(ValueError, match=r"run cannot be written: .* does not allow it; name another folder"):
        RunFolder.check_new(tmp_path / "deep" / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["/proc", "/sys"])
def test_a_place_where_even_root_cannot_write_is_refused(place: str) -> None:
    if not Path(place).is_dir():
        pytest.skip(f"this system has no {place}")
    with pytest.raises(ValueError, match=r"cannot be (made|written)"):
        RunFolder.create(Path(place) / "run", "{}", metadata={})


def test_file_system_that_refuses_is_reported(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    RunFolder.open(run.path)
    with pytest.raises(ValueError, match=r"run cannot be written \(Read-only file system\)"):
        RunFolder.open(run.path, write=True)


def test_names_count_up_and_are_claimed(tmp_path: Path) -> None:
    names = [claim_folder(tmp_path, experiment="train", preset="tiny", seed=s).name for s in (0, 0, 1, 0)]
    assert names == ["train-tiny-seed0-1", "train-tiny-seed0-2", "train-tiny-seed1-1", "train-tiny-seed0-3"]
    (tmp_path / "train-tiny-seed0-1").rmdir()
    assert claim_folder(tmp_path, experiment="train", preset="tiny", seed=0).name == "train-tiny-seed0-4"


def test_rollouts_stay_within_their_budget(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    log = RolloutLog(path, budget_bytes=1000)
    for step in range(40):
        log.append(step, [{"text": "x" * 60}])
        assert path.stat().st_size <= 1000
    steps = [row["step"] for row in json_lines.read_rows(path)]
    assert steps == list(range(steps[0], 40))
    line = path.stat().st_size // len(steps)
    assert path.stat().st_size > 1000 - line  # as many as fit


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 100), min_size=20, max_size=20),
    budget=st.integers(1, 2000),
    stops=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=3),
)
def test_rollouts_of_a_resumed_run_equal_those_of_an_uninterrupted_one(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], budget: int, stops: list[tuple[int, int]]
) -> None:
    """``stops``: each (step after which the process is killed, checkpoint from which the next one goes on)."""
    folder = tmp_path_factory.mktemp("rollouts")

    def run(name: str, *, saved: int | None, until: int) -> bytes:
        path = folder / name
        log = RolloutLog(path, budget_bytes=budget, last_step=saved)
        for step in range((saved or 0) + 1, until + 1):
            log.append(step, [{"text": "ä" * sizes[step - 1]}, {"text": "b"}])
        return path.read_bytes()

    saved = None
    for killed, going_on in stops:
        reached = max(saved or 0, min(killed, len(sizes)))
        if reached > (saved or 0):
            run("resumed", saved=saved, until=reached)
            saved = min(going_on, reached)
    if saved == len(sizes):
        saved -= 1
    assert run("resumed", saved=saved, until=len(sizes)) == run("whole", saved=None, until=len(sizes))


def test_one_rollout_above_the_budget_is_dropped(tmp_path: Path) -> None:
    log = RolloutLog(tmp_path / "rollouts.jsonl", budget_bytes=50)
    log.append(1, [{"text": "x" * 100}])
    assert json_lines.read_rows(tmp_path / "rollouts.jsonl") == []


def test_resume_drops_later_rollouts(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    log = RolloutLog(path, budget_bytes=10_000)
    for step in range(4):
        log.append(step, [{"k": 0}, {"k": 1}])
    RolloutLog(path, budget_bytes=10_000, last_step=1).append(2, [{"k": 9}])
    assert [(row["step"], row["k"]) for row in json_lines.read_rows(path)] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 9)]


def test_budget_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="budget_bytes=0"):
        RolloutLog(tmp_path / "rollouts.jsonl", budget_bytes=0)
