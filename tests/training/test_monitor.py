"""What the monitor says about planted steps, and that its memory survives JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ragen_jax.config.schema import AlarmSection
from ragen_jax.core.regimes import REGIMES, UNCERTAIN
from ragen_jax.training.monitor import SERIES, MonitorState, Report, regime, update
from ragen_jax.types import RolloutBatch

ROWS, TOKENS = 16, 64


def batch(tokens: np.ndarray | None = None, valid: np.ndarray | None = None) -> RolloutBatch:
    """Sixteen rows of 64 sampled tokens; only what the monitor reads is there."""
    if tokens is None:
        tokens = np.random.default_rng(0).integers(0, 200, (ROWS, TOKENS))
    everything = np.ones((ROWS, TOKENS), bool)
    empty = np.zeros(0)
    return RolloutBatch(
        prompt_tokens=empty,
        prompt_mask=empty,
        prompt_class=empty,
        tokens=tokens.astype(np.int32),
        attention_mask=everything,
        response_mask=everything,
        turn_ids=empty,
        token_rewards=empty,
        returns=np.zeros(ROWS, np.float32),
        penalties=empty,
        behaviour_log_probs=empty,
        policy_version=np.int32(0),
        valid=np.ones(ROWS, bool) if valid is None else valid,
    )


def numbers(
    *, mi: float = 2.0, entropy: float = 1.0, scored: float = 16, success: float = 0.5, variance: float = 0.2
) -> dict[str, float]:
    """Metrics of a step with 16 rollouts and a ceiling of 2.08 nats."""
    family = "collapse/first_turn"
    return {
        f"{family}/mi_sequence_nats": mi,
        f"{family}/mi_sequence_low_nats": mi - 0.1,
        f"{family}/mi_sequence_high_nats": mi + 0.1,
        f"{family}/mi_sequence_ceiling_nats": 2.08,
        f"{family}/conditional_entropy_token_nats": entropy,
        f"{family}/conditional_entropy_token_low_nats": entropy - 0.05,
        f"{family}/conditional_entropy_token_high_nats": entropy + 0.05,
        f"{family}/scored": scored,
        f"{family}/unscored": ROWS - scored,
        "rollout/success": success,
        "rollout/valid_format": scored / ROWS,
        "rollout/reasoning_tokens": 20.0,
        "filter/reward_variance_mean": variance,
    }


def steps(*rows: dict[str, float], settings: AlarmSection | None = None) -> tuple[MonitorState, list[Report]]:
    state, reports = MonitorState(), []
    for row in rows:
        state, report = update(state, row, batch(), settings=settings or AlarmSection())
        reports.append(report)
    return state, reports


def test_c40_one_repeated_symbol_raises_the_alarm_and_ordinary_rollouts_do_not():
    settings = AlarmSection(repeated_share=0.5)
    state, report = update(MonitorState(), {}, batch(np.full((ROWS, TOKENS), 7)), settings=settings)
    assert report.metrics["alarm/repeated_share"] == report.metrics["alarm/repetition"] == 1.0
    assert report.warnings == ("100% of the responses repeat one symbol",) and report.repeating == report.warnings[0]
    state, report = update(state, {}, batch(np.full((ROWS, TOKENS), 7)), settings=settings)
    assert report.warnings == () and report.repeating is not None  # said once, still true
    state, report = update(state, {}, batch(), settings=settings)
    assert report.metrics["alarm/repetition"] == 0.0 and report.repeating is None and not state.repeating


def test_the_share_counts_valid_rows():
    tokens = np.asarray(batch().tokens).copy()
    tokens[:5] = 7
    valid = np.arange(ROWS) < 10
    for share, alarm in ((0.5, 1.0), (0.6, 0.0)):
        settings = AlarmSection(repeated_share=share)
        report = update(MonitorState(), {}, batch(tokens, valid), settings=settings)[1]
        assert report.metrics["alarm/repeated_share"] == 0.5 and report.metrics["alarm/repetition"] == alarm


def test_a_collapse_is_named_once_with_what_drove_it():
    state, reports = steps(numbers(), numbers(), numbers(mi=0.2, entropy=1.8), numbers(mi=0.1, entropy=1.9))
    assert [report.notes for report in reports][:2] == [("regime diverse reasoning (probability 1.00)",), ()]
    assert reports[2].warnings[0] == (
        "regime template collapse after diverse reasoning (probability 1.00, driven by mutual information)"
    )
    assert not [text for text in reports[3].warnings if text.startswith("regime")]
    assert state.regime == "template_collapse" and state.start_entropy == 1.0
    assert reports[2].metrics["regime/template_collapse"] == pytest.approx(1.0, abs=1e-3)
    assert sum(reports[2].metrics[f"regime/{name}"] for name in REGIMES) == pytest.approx(1.0, abs=1e-5)


def test_an_uncertain_step_changes_no_regime():
    state, reports = steps(numbers(), numbers(mi=1.04))
    assert reports[1].metrics["regime/uncertain"] == 1.0 and state.regime == "diverse_reasoning"
    assert reports[0].metrics["regime/uncertain"] == 0.0


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"entropy": 0.1}, "compressed_reasoning"),
        ({"mi": 0.1, "entropy": 0.1, "success": 0.1}, "low_entropy_collapse"),
        ({"mi": 0.1, "entropy": 0.1, "success": 1.0}, "converged"),
        ({"mi": 0.0, "entropy": 0.0, "scored": 0}, "format_collapse"),
    ],
)
def test_regimes_come_from_the_metrics_of_a_step(changes: dict[str, float], name: str):
    verdict = regime(numbers(**changes), start_entropy=1.0, episodes=64)
    assert REGIMES[int(verdict.regime)] == name


@pytest.mark.parametrize(
    "gone",
    ["mi_sequence_low_nats", "conditional_entropy_token_high_nats"],
)
def test_a_measure_without_an_interval_carries_no_verdict(gone: str):
    row = numbers(mi=0.0, entropy=1.8)
    assert REGIMES[int(regime(row, start_entropy=1.0, episodes=64).regime)] == "template_collapse"
    del row[f"collapse/first_turn/{gone}"]
    assert int(regime(row, start_entropy=1.0, episodes=64).regime) == UNCERTAIN


def test_one_prompt_has_no_ceiling_and_raises_no_collapse_warning():
    row = numbers(mi=0.0) | {
        f"collapse/first_turn/{name}": 0.0
        for name in ("mi_sequence_ceiling_nats", "mi_sequence_low_nats", "mi_sequence_high_nats")
    }
    state, reports = steps(row)
    assert reports[0].metrics["regime/uncertain"] == 1.0 and state.regime == ""
    assert reports[0].warnings == () and reports[0].notes == ()


def test_the_entropy_of_the_first_measured_step_is_the_scale():
    unmeasured = {"rollout/success": 0.5}
    state, _ = steps(unmeasured, numbers(scored=0, entropy=0.0), numbers(entropy=3.0), numbers(entropy=1.0))
    assert state.start_entropy == 3.0


def test_change_points_are_found_in_the_metrics_and_named():
    rng = np.random.default_rng(1)
    rows = [numbers(variance=0.2 * (1 + 0.1 * x)) for x in rng.normal(size=30)]
    rows += [numbers(variance=0.05 * (1 + 0.1 * x)) for x in rng.normal(size=10)]
    _, reports = steps(*rows)
    falls = [step for step, report in enumerate(reports) if report.metrics["alarm/change_reward_variance"] == -1]
    assert len(falls) == 1 and 31 < falls[0] < 37
    said = [text for text in reports[falls[0]].warnings if "reward variance fell to a new level" in text]
    assert len(said) == 1 and "filter/reward_variance_mean" in said[0]
    others = [name for name in SERIES if name != "reward_variance"]
    assert not any(report.metrics[f"alarm/change_{name}"] for report in reports for name in others)


def test_alarms_that_are_off_say_nothing():
    _, reports = steps(numbers(), settings=AlarmSection(repeated_share=0.0, change_points=False))
    assert not [name for name in reports[0].metrics if name.startswith("alarm/")]


def test_the_memory_survives_json():
    assert MonitorState.from_json(json.loads(json.dumps(MonitorState().to_json()))) == MonitorState()
    rows = [numbers(variance=float(x)) for x in np.random.default_rng(2).random(9)]
    state, _ = steps(*rows[:5])
    saved = MonitorState.from_json(json.loads(json.dumps(state.to_json())))
    assert saved == state
    for row in rows[5:]:
        state, first = update(state, row, batch(), settings=AlarmSection())
        saved, second = update(saved, row, batch(), settings=AlarmSection())
        assert first == second and saved == state
