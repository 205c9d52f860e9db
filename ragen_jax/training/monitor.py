"""What a run's numbers say about its health: regime, change points, repetition. Small state, saved with checkpoints."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Self

import jax
import numpy as np

from ragen_jax.config.schema import AlarmSection
from ragen_jax.core.change_points import ChangePointState, empty_change_points, update_change_points
from ragen_jax.core.intervals import NORMAL_95, Interval, proportion_interval
from ragen_jax.core.regimes import MEASURES, REGIMES, RegimeVerdict, classify_regime
from ragen_jax.core.repetition import repeated_share
from ragen_jax.types import RolloutBatch

# Series that are watched for changes of their level, and the metric of each.
SERIES = {
    "mutual_information": "collapse/first_turn/mi_sequence_nats",
    "reward_variance": "filter/reward_variance_mean",
    "valid_format": "rollout/valid_format",
    "reasoning_length": "rollout/reasoning_tokens",
    "gradient_ratio": "gradient_probe/all/dominance",
}
_FAMILY = "collapse/first_turn"
_HEALTHY = ("diverse_reasoning", "converged")

_classify_regime, _proportion_interval = jax.jit(classify_regime), jax.jit(proportion_interval)
_repeated_share = jax.jit(repeated_share)
_update_change_points = jax.jit(update_change_points)


@dataclasses.dataclass(frozen=True)
class MonitorState:
    """What is remembered from step to step.

    Attributes:
      start_entropy: H(Z|X) of the first step that measured it, nats per token; None before.
      regime: last regime that was certain; "" before.
      repeating: the last batch raised the alarm about repetition.
      change_points: fields of the ``ChangePointState`` of the watched series; None before the first step.
    """

    start_entropy: float | None = None
    regime: str = ""
    repeating: bool = False
    change_points: Mapping[str, tuple[float, ...]] | None = None

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """From a JSON object."""
        points = record["change_points"]
        return cls(**{**record, "change_points": points and {name: tuple(row) for name, row in points.items()}})


@dataclasses.dataclass(frozen=True)
class Report:
    """What the monitor found in one step.

    Attributes:
      metrics: ``regime/...`` and ``alarm/...``.
      notes: sentences about what changed for the better or for neither.
      warnings: sentences about what went wrong, or may have.
      repeating: why a run with ``alarm.stop`` should end now; None when it need not.
    """

    metrics: dict[str, float]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    repeating: str | None


def update(
    state: MonitorState, metrics: Mapping[str, float], batch: RolloutBatch, *, settings: AlarmSection
) -> tuple[MonitorState, Report]:
    """Look at a step.

    Args:
      state: memory.
      metrics: of the step; reads those of ``SERIES``, the first-turn collapse numbers and ``rollout/success``.
      batch: the batch that was measured.
      settings: which alarms are on.

    Returns:
      The next memory and what was found.
    """
    numbers: dict[str, float] = {}
    notes: list[str] = []
    warnings: list[str] = []
    repeating = None
    if settings.repeated_share:
        share = float(_repeated_share(batch.tokens, batch.response_mask, batch.valid))
        alarm = share >= settings.repeated_share
        numbers |= {"alarm/repeated_share": share, "alarm/repetition": float(alarm)}
        if alarm:
            repeating = f"{share:.0%} of the responses repeat one symbol"
            if not state.repeating:
                warnings.append(repeating)
        state = dataclasses.replace(state, repeating=alarm)
    if f"{_FAMILY}/scored" in metrics:
        if state.start_entropy is None and metrics[f"{_FAMILY}/scored"] > 0:
            state = dataclasses.replace(state, start_entropy=metrics[f"{_FAMILY}/conditional_entropy_token_nats"])
        episodes = int(np.asarray(batch.valid).sum())
        verdict = regime(metrics, start_entropy=state.start_entropy, episodes=episodes)
        named = {f"regime/{name}": float(p) for name, p in zip(REGIMES, verdict.probabilities, strict=True)}
        numbers |= named | {"regime/uncertain": float(verdict.regime < 0)}
        name = REGIMES[int(verdict.regime)] if verdict.regime >= 0 else state.regime
        if name != state.regime:
            (notes if name in _HEALTHY else warnings).append(_sentence(verdict, before=state.regime))
        state = dataclasses.replace(state, regime=name)
    if settings.change_points:
        state, changes = _watch(state, metrics)
        for (name, metric), change in zip(SERIES.items(), changes, strict=True):
            numbers[f"alarm/change_{name}"] = float(change)
            if change:
                way = "rose" if change > 0 else "fell"
                warnings.append(f"{name.replace('_', ' ')} {way} to a new level, now {metrics[metric]:.3g} ({metric})")
    return state, Report(numbers, tuple(notes), tuple(warnings), repeating)


def regime(metrics: Mapping[str, float], *, start_entropy: float | None, episodes: int) -> RegimeVerdict:
    """Regime of a step from its metrics: MI over its ceiling, H(Z|X) over its start, scored share, success.

    A measure without an interval (one scored rollout per prompt) or without a scale (a ceiling of 0: one prompt) is
    unknown.

    Args:
      metrics: first-turn collapse numbers and ``rollout/success`` (0 without it).
      start_entropy: H(Z|X) at the start of the run, nats per token; None when nothing was ever scored.
      episodes: episodes behind the success rate.
    """

    def scaled(name: str, low: str, high: str, scale: float) -> Interval:
        factor = 1.0 / scale if scale > 0 else math.nan
        numbers = (metrics.get(f"{_FAMILY}/{key}", math.nan) for key in (name, low, high))
        estimate, lowest, highest = (number * factor for number in numbers)
        error = (highest - lowest) / (2 * NORMAL_95)
        return Interval(*jax.device_put([np.float32(x) for x in (estimate, lowest, highest, error)]))

    def share(hits: float, count: float) -> Interval:
        return _proportion_interval(np.float32(hits), np.float32(count))

    scored, unscored = metrics[f"{_FAMILY}/scored"], metrics[f"{_FAMILY}/unscored"]
    verdict = _classify_regime(
        mi_share=scaled(
            "mi_sequence_nats",
            "mi_sequence_low_nats",
            "mi_sequence_high_nats",
            metrics[f"{_FAMILY}/mi_sequence_ceiling_nats"],
        ),
        entropy_share=scaled(
            "conditional_entropy_token_nats",
            "conditional_entropy_token_low_nats",
            "conditional_entropy_token_high_nats",
            start_entropy or 0.0,
        ),
        validity=share(scored, scored + unscored),
        success=share(metrics.get("rollout/success", 0.0) * episodes, episodes),
    )
    return RegimeVerdict(*jax.device_get(verdict))


def _sentence(verdict: RegimeVerdict, *, before: str) -> str:
    name = REGIMES[int(verdict.regime)].replace("_", " ")
    after = f" after {before.replace('_', ' ')}" if before else ""
    driver = f", driven by {MEASURES[int(verdict.driver)].replace('_', ' ')}" if verdict.driver >= 0 else ""
    return f"regime {name}{after} (probability {verdict.probabilities[int(verdict.regime)]:.2f}{driver})"


def _watch(state: MonitorState, metrics: Mapping[str, float]) -> tuple[MonitorState, list[int]]:
    fields = [field.name for field in dataclasses.fields(ChangePointState)]
    points = empty_change_points(len(SERIES))
    if state.change_points is not None:
        points = ChangePointState(
            **{name: np.asarray(state.change_points[name], getattr(points, name).dtype) for name in fields}
        )
    values = np.array([metrics.get(metric, math.nan) for metric in SERIES.values()], np.float32)
    points, alarms = jax.device_get(_update_change_points(points, values))
    record = {name: tuple(getattr(points, name).tolist()) for name in fields}
    return dataclasses.replace(state, change_points=record), alarms.tolist()
