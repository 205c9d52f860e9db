"""Rules that end a run early, as a pure function of a small state and the metrics of a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from ragen_jax.config.schema import EarlyStopSection

_STATISTIC = {"variance": "filter/reward_variance_mean", "std": "filter/reward_std_mean"}
_KEPT = "filter/kept_count"
_SUCCESS = "validation/success"


@dataclasses.dataclass(frozen=True)
class EarlyStopState:
    """What the rules remember; saved with each checkpoint.

    Attributes:
      baseline: statistic of the first steps, until there are ``baseline_steps`` of them.
      below: consecutive steps whose statistic was below the threshold.
      low_validations: consecutive validations below ``low_success``.
      empty_steps: consecutive steps with nothing kept.
    """

    baseline: tuple[float, ...] = ()
    below: int = 0
    low_validations: int = 0
    empty_steps: int = 0

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {**dataclasses.asdict(self), "baseline": list(self.baseline)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """From a JSON object."""
        return cls(**{**record, "baseline": tuple(record["baseline"])})


def update(
    state: EarlyStopState, metrics: Mapping[str, float | None], *, rules: EarlyStopSection, max_empty_steps: int
) -> tuple[EarlyStopState, str | None]:
    """Take the metrics of a step, of a validation, or of both.

    RAGEN-2 stops when the reward variance stays below 10 % of its early mean for 5 consecutive steps. A step whose
    metrics lack a rule's name leaves that rule as it is. A step with nothing kept takes no part in the variance rule,
    but a run of them stops by its own rule. A statistic that is not finite (None or NaN) is not below any threshold.

    Args:
      state: memory of the rules.
      metrics: reads ``filter/reward_variance_mean`` (or ``filter/reward_std_mean``), ``filter/kept_count`` and
        ``validation/success``.
      rules: thresholds; 0 in ``window`` or ``low_success_validations`` turns that rule off.
      max_empty_steps: consecutive steps with nothing kept that stop the run, 0 = never.

    Returns:
      The next state and, when the run should stop, the reason as one sentence.
    """
    reason = None
    if _KEPT in metrics:
        empty = metrics[_KEPT] == 0
        state = dataclasses.replace(state, empty_steps=state.empty_steps + 1 if empty else 0)
        if max_empty_steps and state.empty_steps >= max_empty_steps:
            reason = f"the filter kept nothing in {state.empty_steps} consecutive steps"

    if rules.window and _STATISTIC[rules.statistic] in metrics and state.empty_steps == 0:
        state, variance_reason = _variance_rule(state, metrics[_STATISTIC[rules.statistic]], rules)
        reason = reason or variance_reason

    if _SUCCESS in metrics:
        success = metrics[_SUCCESS]
        low = success is not None and success < rules.low_success
        state = dataclasses.replace(state, low_validations=state.low_validations + 1 if low else 0)
        if rules.low_success_validations and state.low_validations >= rules.low_success_validations:
            reason = reason or (
                f"validation success was below {rules.low_success:g} in {state.low_validations} consecutive validations"
            )
    return state, reason


def _variance_rule(
    state: EarlyStopState, value: float | None, rules: EarlyStopSection
) -> tuple[EarlyStopState, str | None]:
    if value is None or value != value:
        return dataclasses.replace(state, below=0), None
    if len(state.baseline) < rules.baseline_steps:
        return dataclasses.replace(state, baseline=(*state.baseline, float(value))), None
    threshold = rules.fraction * sum(state.baseline) / len(state.baseline)
    state = dataclasses.replace(state, below=state.below + 1 if value < threshold else 0)
    if state.below < rules.window:
        return state, None
    return state, (
        f"the reward {rules.statistic} within groups stayed below {rules.fraction:g} of its early mean "
        f"({threshold:.3g}) for {state.below} consecutive steps"
    )
