"""``python -m experiments.train`` as a user starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragen_jax.training.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
TINY = (
    "preset=paper,bandit_tiny,grpo,cpu_debug",
    "model.preset=tiny-critic",
    "model.init=random",
    "rollout.max_new_tokens=12",
    "rollout.max_context=12",
    "rollout.length_bucket=12",
    "filter.max_empty_steps=0",
)

pytestmark = pytest.mark.slow


def start(*tokens: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "experiments.train", *tokens],
        cwd=ROOT,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def test_a_run_prints_progress_and_says_where_it_is(tmp_path: Path) -> None:
    code, out, err = finish(start(*TINY, f"folder={tmp_path / 'run'}"))
    assert code == 0, err
    assert f"results in {tmp_path / 'run'}" in out
    assert "Traceback" not in err
    shown = out + err
    assert "3/3" in shown and "MI" in shown
    run = RunFolder.open(tmp_path / "run")
    assert run.summary()["stop_reason"] == "finished"
    assert run.facts()["preset"] == ["paper", "bandit_tiny", "grpo", "cpu_debug"]


def test_sigterm_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(*TINY, "steps=100000", "validation.seed=1000000", f"folder={folder}")
    deadline = time.monotonic() + 200
    run = RunFolder(folder)
    while time.monotonic() < deadline and process.poll() is None:
        if run.metrics_file.exists() and len(run.metrics_file.read_text(encoding="utf-8").splitlines()) >= 4:
            break
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    code, out, err = finish(process)
    assert code == 128 + signal.SIGTERM, err
    summary = run.summary()
    assert summary["stop_reason"] == "interrupted by SIGTERM"
    done = summary["steps"]
    assert done >= 3
    assert f"resume={folder}" in out + err

    code, _, err = finish(start(f"resume={folder}", f"steps={done + 2}"))
    assert code == 0, err
    assert run.summary()["stop_reason"] == "finished" and run.summary()["steps"] == done + 2
    steps = [row["step"] for row in run.metrics() if "update/skipped" in row]
    assert steps == list(range(1, done + 3))
