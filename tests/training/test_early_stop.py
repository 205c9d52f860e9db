"""Early stopping: each rule alone, together, and across a checkpoint."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.config.schema import EarlyStopSection
from ragen_jax.training.early_stop import EarlyStopState, update

RULES = EarlyStopSection(
    window=2, baseline_steps=2, fraction=0.1, statistic="variance", low_success=0.01, low_success_validations=2
)
EMPTY = 3


def _stop_index(rows: Sequence[dict[str, float | None]], rules: EarlyStopSection = RULES) -> tuple[int, str] | None:
    state = EarlyStopState()
    for index, row in enumerate(rows):
        state, reason = update(state, row, rules=rules, max_empty_steps=EMPTY)
        if reason is not None:
            return index, reason
    return None


def _steps(*variances: float | None) -> list[dict[str, float | None]]:
    return [{"filter/reward_variance_mean": v, "filter/kept_count": 4} for v in variances]


def test_variance_collapse_stops_after_the_window() -> None:
    index, reason = _stop_index(_steps(1.0, 3.0, 0.19, 0.5, 0.19, 0.1, 1.0)) or (None, "")
    assert index == 5
    assert "reward variance within groups stayed below 0.1 of its early mean (0.2) for 2 consecutive steps" in reason


def test_the_threshold_itself_does_not_stop() -> None:
    assert _stop_index(_steps(1.0, 1.0, 0.1, 0.1, 0.1)) is None


def test_baseline_steps_never_stop() -> None:
    assert _stop_index(_steps(0.0, 0.0, 0.0, 0.0)) is None


def test_the_standard_deviation_is_read_by_its_own_name() -> None:
    rules = dataclasses.replace(RULES, statistic="std")
    assert _stop_index(_steps(1.0, 1.0, 0.0, 0.0), rules) is None
    rows = [{"filter/reward_std_mean": v, "filter/kept_count": 4} for v in (1.0, 1.0, 0.05, 0.05)]
    assert (_stop_index(rows, rules) or (None,))[0] == 3


@pytest.mark.parametrize("value", [None, float("nan")])
def test_a_number_that_is_not_finite_breaks_the_streak(value: float | None) -> None:
    assert _stop_index(_steps(1.0, 1.0, 0.0, value, 0.0, value)) is None


def test_empty_steps_stop_and_take_no_part_in_the_variance_rule() -> None:
    full = {"filter/reward_variance_mean": 1.0, "filter/kept_count": 4}
    empty = {"filter/reward_variance_mean": 0.0, "filter/kept_count": 0}
    assert _stop_index([full, full, empty, empty, full, empty, empty]) is None
    index, reason = _stop_index([full, full, empty, empty, empty]) or (None, "")
    assert index == 4
    assert reason == "the filter kept nothing in 3 consecutive steps"


def test_low_validation_success() -> None:
    rows: list[dict[str, float | None]] = [{"validation/success": v} for v in (0.0, 0.02, 0.0, 0.009)]
    rows.insert(3, {"filter/kept_count": 4})  # a step without validation does not break the streak
    index, reason = _stop_index(rows) or (None, "")
    assert index == 4
    assert "validation success was below 0.01 in 2 consecutive validations" in reason


def test_rules_can_be_switched_off() -> None:
    off = dataclasses.replace(RULES, window=0, low_success_validations=0)
    rows = [
        {"filter/reward_variance_mean": v, "filter/kept_count": 0, "validation/success": 0.0}
        for v in (1.0, 1.0, 0.0, 0.0, 0.0, 0.0)
    ]
    state = EarlyStopState()
    for row in rows:
        state, reason = update(state, row, rules=off, max_empty_steps=0)
        assert reason is None


@given(
    variances=st.lists(st.sampled_from([0.0, 0.05, 1.0, 2.0]), max_size=12), cut=st.integers(min_value=0, max_value=12)
)
@settings(max_examples=25, deadline=None)
def test_c34_state_survives_a_checkpoint(variances: list[float], cut: int) -> None:
    whole = resumed = EarlyStopState()
    for index, row in enumerate(_steps(*variances)):
        if index == cut:
            resumed = EarlyStopState.from_json(json.loads(json.dumps(resumed.to_json())))
        whole, expected = update(whole, row, rules=RULES, max_empty_steps=EMPTY)
        resumed, reason = update(resumed, row, rules=RULES, max_empty_steps=EMPTY)
        assert (resumed, reason) == (whole, expected)
