"""The experiment runner: children, seeds, failures, signals, the table."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from experiments._aggregate import aggregate
from experiments._runner import RunFailedError, Variant, child_environment, processors, run_variants
from ragen_jax.config.schema import Config
from ragen_jax.report.statistics import mean_interval

CHILD = """
    import json, os, pathlib, signal, sys, time
    text = pathlib.Path(sys.argv[1].removeprefix("config=")).read_text()
    config = json.loads(text)
    folder = pathlib.Path(config["folder"])
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"layout": 1}))
    (folder / "config.json").write_text(text)
    print("begin", flush=True)
    if config["steps"] == 13:
        print("a very unlucky number", file=sys.stderr)
        sys.exit(3)
    if config["steps"] == 99:
        got = []
        signal.signal(signal.SIGTERM, lambda *_: got.append(1))
        (folder / "ready").touch()
        while not got:
            time.sleep(0.01)
        time.sleep(0.1)
        (folder / "saved").write_text(str(len(got)))
        sys.exit(128 + signal.SIGTERM)
    if config["steps"] == 77:  # somebody stops this child, and it saves
        sys.exit(128 + signal.SIGTERM)
    if config["steps"] == 66:
        print("error: rollout.prompts=0 is too small", file=sys.stderr)
        print("seed=-1 is too small", file=sys.stderr)
        sys.exit(2)
    summary = {
        "seed": config["seed"],
        "steps": config["steps"],
        "success_after": config["seed"] / 10,
        "threads": os.environ["OMP_NUM_THREADS"],
        "cpus": len(os.sched_getaffinity(0)),
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    print("end", flush=True)
"""


@pytest.fixture(autouse=True)
def fake_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "fake_train.py").write_text(textwrap.dedent(CHILD))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))


def test_variants_times_seeds_are_run_and_gathered(tmp_path: Path) -> None:
    stream = io.StringIO()
    variants = [Variant("plain", Config(steps=1)), Variant("top-p0.9", Config(steps=2))]
    result = run_variants(
        variants, seeds=(0, 1, 2), folder=tmp_path / "out", jobs=2, module="fake_train", stream=stream
    )
    assert json.loads((tmp_path / "out" / "aggregate.json").read_text()) == result
    assert result["seeds"] == [0, 1, 2]
    assert result["runs"]["top-p0.9"] == ["top-p0.9-seed0", "top-p0.9-seed1", "top-p0.9-seed2"]
    mean, low, high = mean_interval([0.0, 0.1, 0.2])
    assert result["variants"]["top-p0.9"]["success_after"] == {
        "mean": mean,
        "interval": [low, high],
        "n": 3,
        "per_seed": {"0": 0.0, "1": 0.1, "2": 0.2},
    }
    assert result["variants"]["plain"]["steps"]["mean"] == 1
    assert result["variants"]["plain"]["threads"]["per_seed"] == {"0": "1", "1": "1", "2": "1"}
    if len(processors()) >= 2:
        assert result["variants"]["plain"]["cpus"]["mean"] == 1
    lines = stream.getvalue().splitlines()
    assert len(lines) == 12
    assert "plain seed 0    | begin" in lines
    assert "top-p0.9 seed 2 | end" in lines
    assert (tmp_path / "out" / "plain-seed1.log").read_text() == "begin\nend\n"


def test_a_failure_names_command_and_log_and_starts_nothing_new(tmp_path: Path) -> None:
    variants = [Variant("bad", Config(steps=13)), Variant("good", Config(steps=1))]
    with pytest.raises(RunFailedError) as caught:
        run_variants(variants, seeds=(0, 1), folder=tmp_path / "out", jobs=1, module="fake_train", stream=io.StringIO())
    text = str(caught.value)
    assert "bad seed 0 ended with code 3" in text
    assert f"-m fake_train config={tmp_path / 'out' / 'bad-seed0.config.json'}" in text
    assert "a very unlucky number" in text
    assert "3 runs not started" in text
    assert not (tmp_path / "out" / "aggregate.json").exists()
    assert not (tmp_path / "out" / "good-seed0").exists()


def test_arms_that_fail_of_the_same_cause_tell_it_once(tmp_path: Path) -> None:
    variants = [Variant("one", Config(steps=66)), Variant("two", Config(steps=66))]
    with pytest.raises(RunFailedError) as caught:
        run_variants(variants, seeds=(0,), folder=tmp_path / "out", jobs=2, module="fake_train", stream=io.StringIO())
    lines = str(caught.value).splitlines()
    assert lines[0] == "one seed 0 ended with code 2"
    assert "two seed 0 ended with code 2" in lines
    assert lines[-2:] == ["error: rollout.prompts=0 is too small", "seed=-1 is too small"]
    assert lines.count(lines[-2]) == 1 and "begin" not in lines


def test_a_child_that_was_stopped_alone_has_not_finished(tmp_path: Path) -> None:
    variants = [Variant("stopped", Config(steps=77)), Variant("good", Config(steps=1))]
    with pytest.raises(RunFailedError) as caught:
        run_variants(variants, seeds=(0,), folder=tmp_path / "out", jobs=1, module="fake_train", stream=io.StringIO())
    first, *rest = str(caught.value).splitlines()
    assert first.startswith("stopped seed 0 was stopped by SIGTERM; go on with: ")
    assert first.endswith(f"-m fake_train resume={tmp_path / 'out' / 'stopped-seed0'}")
    assert rest == ["", "1 runs not started"]
    assert not (tmp_path / "out" / "aggregate.json").exists()


def test_a_child_without_a_summary_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "modules" / "silent_train.py").write_text(
        textwrap.dedent(CHILD).replace('(folder / "summary.json")', '(folder / "other.json")')
    )
    with pytest.raises(ValueError, match=r"plain-seed0 has no summary\.json"):
        run_variants(
            [Variant("plain", Config(steps=1))],
            seeds=(0,),
            folder=tmp_path / "out",
            jobs=1,
            module="silent_train",
            stream=io.StringIO(),
        )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stop_reaches_every_child_once(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    ready = [out / f"waits-seed{seed}" / "ready" for seed in (0, 1)]

    def signal_when_ready() -> None:
        deadline = time.monotonic() + 30
        while not all(path.exists() for path in ready) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=signal_when_ready)
    thread.start()
    before = signal.getsignal(number)
    stream = io.StringIO()
    with pytest.raises(SystemExit) as caught:
        run_variants(
            [Variant("waits", Config(steps=99))],
            seeds=(0, 1, 2),
            folder=out,
            jobs=2,
            module="fake_train",
            stream=stream,
        )
    thread.join()
    assert caught.value.code == 128 + number
    assert [(out / f"waits-seed{seed}" / "saved").read_text() for seed in (0, 1)] == ["1", "1"]
    assert not (out / "waits-seed2").exists()
    assert f"stopped by {number.name}\n" in stream.getvalue()
    assert f"waits seed 1 was stopped by SIGTERM; go on with: {sys.executable}" in stream.getvalue()
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    ("names", "seeds", "jobs", "named"),
    [
        ([], (0,), 1, r"variant names \[\]"),
        (["a", "a"], (0,), 1, r"variant names \['a', 'a'\]"),
        (["a"], (), 1, r"seeds \[\]"),
        (["a"], (1, 1), 1, r"seeds \[1, 1\]"),
        (["a"], (0,), 0, "jobs=0"),
        (["a/b"], (0,), 1, "variant name 'a/b'"),
    ],
)
def test_impossible_grids_are_refused(
    tmp_path: Path, names: list[str], seeds: tuple[int, ...], jobs: int, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        run_variants([Variant(name, Config()) for name in names], seeds=seeds, folder=tmp_path / "out", jobs=jobs)
    assert not (tmp_path / "out").exists()


def test_a_used_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not empty"):
        run_variants([Variant("a", Config())], seeds=(0,), folder=tmp_path, jobs=1)


def test_child_environment_adds_to_what_is_there() -> None:
    environment = child_environment({"XLA_FLAGS": "--xla_a=1", "HOME": "/h"})
    assert environment["XLA_FLAGS"] == "--xla_a=1 --xla_cpu_multi_thread_eigen=false"
    assert environment["HOME"] == "/h"
    assert environment["OMP_NUM_THREADS"] == "1"


def test_aggregate_keeps_gaps_and_texts() -> None:
    table = aggregate({"a": {0: {"seed": 0, "x": 1.0, "y": None, "t": "end"}, 1: {"seed": 1, "x": None, "t": "end"}}})
    assert table == {
        "a": {
            "x": {"mean": 1.0, "interval": None, "n": 1, "per_seed": {"0": 1.0, "1": None}},
            "y": {"per_seed": {"0": None, "1": None}},
            "t": {"per_seed": {"0": "end", "1": "end"}},
        }
    }


def test_the_runner_needs_no_jax() -> None:
    program = "import sys, experiments._runner; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
