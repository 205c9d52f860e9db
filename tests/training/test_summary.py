"""The summary: right rows, right source, honest gaps."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from ragen_jax.training.summary import build_summary, peak_rss_bytes

FACTS: dict[str, Any] = {
    "seed": 3,
    "stop_reason": "finished",
    "wall_seconds": 12.5,
    "peak_rss": 1000,
    "compilations": 7,
    "data_sources": ["synthetic"],
}


def _validation(step: int, success: float, mi: float, entropy: float) -> dict[str, Any]:
    return {
        "step": step,
        "validation/success": success,
        "validation/success_low": success - 0.1,
        "validation/success_high": success + 0.2,
        "validation/valid_format": 0.9 + step / 1000,
        "validation/collapse/mi_sequence_nats": mi,
        "validation/collapse/mi_sequence_ceiling_nats": 3.47,
        "validation/collapse/conditional_entropy_token_nats": entropy,
        "validation/collapse/retrieval_accuracy": mi / 4,
        "validation/collapse/retrieval_chance": 1 / 32,
    }


def _train(step: int, kept: int) -> dict[str, Any]:
    return {
        "step": step,
        "rollout/return": step / 10,
        "rollout/valid_format": 0.5,
        "filter/kept_count": kept,
        "filter/groups": 8,
        "collapse/first_turn/mi_sequence_nats": 2.0 - step / 10,
        "collapse/first_turn/mi_sequence_ceiling_nats": 2.08,
        "collapse/first_turn/conditional_entropy_token_nats": 1.0,
        "collapse/first_turn/retrieval_accuracy": 0.5,
        "collapse/first_turn/retrieval_chance": 0.125,
    }


def test_every_promised_field() -> None:
    rows = [_validation(0, 0.25, 3.2, 1.2), _train(1, 8), _train(2, 2), _validation(2, 0.5, 0.8, 2.4)]
    summary = build_summary(rows, **FACTS)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary == {
        "seed": 3,
        "steps": 2,
        "stop_reason": "finished",
        "success_before": 0.25,
        "success_before_interval": [0.15, 0.45],
        "success_after": 0.5,
        "success_after_interval": [0.4, 0.7],
        "return_end": 0.2,
        "retrieval_accuracy": 0.2,
        "retrieval_chance": 1 / 32,
        "mi_start": 3.2,
        "mi_end": 0.8,
        "mi_ratio": 0.25,
        "mi_ceiling": 3.47,
        "conditional_entropy_start": 1.2,
        "conditional_entropy_end": 2.4,
        "collapse_source": "validation prompts",
        "valid_format_end": 0.902,
        "kept_ratio_mean": 0.625,
        "wall_seconds": 12.5,
        "peak_rss_bytes": 1000,
        "compilations": 7,
        "data_sources": ["synthetic"],
    }


def test_batch_numbers_are_named_as_such() -> None:
    summary = build_summary([_train(1, 8), _train(2, 8)], **FACTS)
    assert summary["collapse_source"] == "training batches"
    assert (summary["mi_start"], summary["mi_end"], summary["retrieval_chance"]) == (1.9, 1.8, 0.125)
    assert summary["valid_format_end"] == 0.5
    assert summary["success_before"] is summary["success_after"] is summary["success_after_interval"] is None


def test_a_first_validation_after_training_is_not_before() -> None:
    summary = build_summary([_train(1, 8), _validation(1, 0.5, 3.0, 1.0)], **FACTS)
    assert summary["success_before"] is None
    assert summary["success_after"] == 0.5


def test_a_run_without_steps() -> None:
    summary = build_summary([], **FACTS)
    assert summary["steps"] == 0
    assert summary["mi_ratio"] is summary["kept_ratio_mean"] is summary["collapse_source"] is None


@pytest.mark.parametrize(("start", "end"), [(None, 1.0), (1.0, None), (0.0, 1.0), (-0.1, 0.1)])
def test_ratio_needs_a_positive_start(start: float | None, end: float | None) -> None:
    rows = [_validation(0, 0.5, 1.0, 1.0), _validation(1, 0.5, 1.0, 1.0)]
    rows[0]["validation/collapse/mi_sequence_nats"] = start
    rows[1]["validation/collapse/mi_sequence_nats"] = end
    summary = build_summary(rows, **FACTS)
    assert (summary["mi_start"], summary["mi_end"], summary["mi_ratio"]) == (start, end, None)


@pytest.mark.parametrize("name", ["validation/success_low", "validation/success_high"])
def test_validation_without_an_interval_is_an_error(name: str) -> None:
    row = _validation(0, 0.5, 1.0, 1.0)
    del row[name]
    with pytest.raises(ValueError, match=f"step 0 has no {name}"):
        build_summary([row], **FACTS)


def test_peak_memory_is_in_bytes() -> None:
    with open("/proc/self/status") as stream:
        peak = next(int(line.split()[1]) * 1024 for line in stream if line.startswith("VmHWM"))
    assert peak_rss_bytes() == pytest.approx(peak, rel=0.05)
    before = peak_rss_bytes(children=True)
    subprocess.run(["true"], check=True)
    assert peak_rss_bytes(children=True) >= before
    assert peak_rss_bytes(children=True) > peak_rss_bytes()
