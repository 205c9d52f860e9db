"""The report that all benches share, and the bench of the core."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.bench import _report, core
from experiments.bench._report import Target, finish, median_seconds, options, run_bench


def test_the_last_line_is_the_record_and_the_saved_file_equals_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(_report, "RESULTS", tmp_path / "bench")
    targets = {"speedup": Target(at_least=2.0), "wait_ms": Target(at_most=5.0)}
    assert finish("sample", {"speedup": 3.14159, "wait_ms": 5.0}, targets, argv=["--save"], save=True)
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert record["ratios"] == {"speedup": 3.142, "wait_ms": 5.0}
    assert record["targets"] == {"speedup": ">= 2", "wait_ms": "<= 5"}
    assert record["holds"] is True
    assert record["command"] == "python -m experiments.bench.sample --save"
    assert {"python", "jax", "device"} <= record["versions"].keys()
    assert json.loads((tmp_path / "bench" / "sample.json").read_text()) == record


@pytest.mark.parametrize("value", [1.9, float("nan")])
def test_a_missed_target_is_said(value: float, capsys: pytest.CaptureFixture[str]):
    assert not finish("sample", {"speedup": value}, {"speedup": Target(at_least=2.0)}, argv=[], save=False)
    record = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert record["holds"] is False and record["ratios"]["speedup"] in (1.9, None)


def test_a_target_without_a_measurement_is_refused():
    with pytest.raises(ValueError, match="no measurement for the targets speedup"):
        finish("sample", {"wait_ms": 1.0}, {"speedup": Target(at_least=2.0)}, argv=[], save=False)


def test_the_median_leaves_the_first_calls_out(monkeypatch: pytest.MonkeyPatch):
    clock = iter([0.0, 1.0, 10.0, 12.0, 20.0, 26.0])
    monkeypatch.setattr(_report.time, "perf_counter", lambda: next(clock))
    calls: list[int] = []
    assert median_seconds(lambda: calls.append(1), repeats=3, warm_up=2) == 2.0
    assert len(calls) == 5


def test_a_program_ends_with_1_where_a_target_is_missed_and_with_2_where_it_cannot_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def without_torch(argv: object) -> bool:
        raise ValueError("torch is not installed")

    monkeypatch.delenv("RAGEN_TRACEBACK", raising=False)
    run_bench(lambda argv: True)
    for main, code in ((lambda argv: False, 1), (without_torch, 2)):
        with pytest.raises(SystemExit) as left:
            run_bench(main)
        assert left.value.code == code
    assert capsys.readouterr().err == "error: torch is not installed\n"


def test_options():
    assert options("text", []).quick is False
    assert options("text", ["--quick", "--save"]).save is True
    with pytest.raises(SystemExit):
        options("text", ["--fast"])


@pytest.mark.slow
def test_the_bench_of_the_core_measures_what_it_has_targets_for(capsys: pytest.CaptureFixture[str]):
    core.main(["--quick"])
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert record["ratios"].keys() == record["targets"].keys() == core.TARGETS.keys()
    assert all(value > 0 for value in record["ratios"].values())
