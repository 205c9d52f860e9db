"""Many runs as one table: mean, interval and the values of the single seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ragen_jax.report.statistics import mean_interval

Summaries = Mapping[str, Mapping[int, Mapping[str, Any]]]


def aggregate(summaries: Summaries) -> dict[str, dict[str, Any]]:
    """Gather ``summary.json`` contents.

    Args:
      summaries: variant -> seed -> summary.

    Returns:
      Variant -> field -> ``per_seed`` (seed as text -> value) and, for fields that are numbers, ``mean``, ``interval``
      (95 % Student interval, None for a single value) and ``n``, the seeds that have a number.
    """
    return {variant: _fields(by_seed) for variant, by_seed in summaries.items()}


def _fields(by_seed: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(name for summary in by_seed.values() for name in summary if name != "seed")
    return {name: _field({seed: summary.get(name) for seed, summary in by_seed.items()}) for name in names}


def _field(values: Mapping[int, Any]) -> dict[str, Any]:
    field: dict[str, Any] = {"per_seed": {str(seed): value for seed, value in values.items()}}
    known = [value for value in values.values() if value is not None]
    numbers = [float(value) for value in known if isinstance(value, int | float) and not isinstance(value, bool)]
    if numbers and len(numbers) == len(known):
        mean, low, high = mean_interval(numbers)
        interval = [low, high] if math.isfinite(low) else None
        field = {"mean": mean, "interval": interval, "n": len(numbers), **field}
    return field
