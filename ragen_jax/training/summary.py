"""A run in a few numbers, from its metric rows."""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Mapping, Sequence
from typing import Any

# Metric families that measure collapse, the preferred one first, and what they are measured on.
_SOURCES = {"validation/collapse": "validation prompts", "collapse/first_turn": "training batches"}

Row = Mapping[str, Any]


def build_summary(
    rows: Sequence[Row],
    *,
    seed: int,
    stop_reason: str,
    wall_seconds: float,
    peak_rss: int,
    compilations: int,
    data_sources: Sequence[str],
) -> dict[str, Any]:
    """Content of ``summary.json``.

    The collapse numbers come from the fixed validation prompts when their mutual information was measured, and from the
    training batches otherwise; ``collapse_source`` says which. "start" is the first measurement, "end" the last. A
    number that was never measured, or was not finite, is None.

    Args:
      rows: rows of ``metrics.jsonl``, in order.
      seed: of the run.
      stop_reason: why the run ended; "finished" after its last step.
      wall_seconds: duration of the run, earlier parts of a resumed run included if the caller knows them.
      peak_rss: bytes, see ``peak_rss_bytes``.
      compilations: programs compiled by this process.
      data_sources: where the data came from, such as "frozen_lake: generated" or ``DataSource.describe``.

    Returns:
      A JSON object. Intervals are the 95 % intervals of the validation, clustered by prompt.

    Raises:
      ValueError: a validation row has no ``validation/success_low`` or ``validation/success_high``.
    """
    validations = [row for row in rows if "validation/success" in row]
    before = validations[0] if validations and validations[0]["step"] == 0 else None
    after = validations[-1] if validations else None
    measured = [family for family in _SOURCES if _measured(rows, f"{family}/mi_sequence_nats")]
    family = next(iter(measured or _SOURCES))
    mi_start, mi_end = _first(rows, f"{family}/mi_sequence_nats"), _last(rows, f"{family}/mi_sequence_nats")
    entropy = f"{family}/conditional_entropy_token_nats"
    valid_format = "validation/valid_format" if _measured(rows, "validation/valid_format") else "rollout/valid_format"
    return {
        "seed": seed,
        "steps": max((row["step"] for row in rows), default=0),
        "stop_reason": stop_reason,
        "success_before": _success(before),
        "success_before_interval": _success_interval(before),
        "success_after": _success(after),
        "success_after_interval": _success_interval(after),
        "return_end": _last(rows, "rollout/return"),
        "retrieval_accuracy": _last(rows, f"{family}/retrieval_accuracy"),
        "retrieval_chance": _last(rows, f"{family}/retrieval_chance"),
        "mi_start": mi_start,
        "mi_end": mi_end,
        "mi_ratio": mi_end / mi_start if mi_start and mi_end is not None and mi_start > 0 else None,
        "mi_ceiling": _last(rows, f"{family}/mi_sequence_ceiling_nats"),
        "conditional_entropy_start": _first(rows, entropy),
        "conditional_entropy_end": _last(rows, entropy),
        "collapse_source": _SOURCES[family] if measured else None,
        "valid_format_end": _last(rows, valid_format),
        "kept_ratio_mean": _kept_ratio(rows),
        "wall_seconds": wall_seconds,
        "peak_rss_bytes": peak_rss,
        "compilations": compilations,
        "data_sources": list(data_sources),
    }


def peak_rss_bytes(*, children: bool = False) -> int:
    """Largest resident memory of this process so far, in bytes.

    With ``children`` the largest one of the ended child processes is added: an upper bound, as the two peaks need not
    have come at the same time.
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if children:
        peak += resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB


def _measured(rows: Sequence[Row], name: str) -> bool:
    return any(name in row for row in rows)


def _first(rows: Sequence[Row], name: str) -> float | None:
    return next((row[name] for row in rows if name in row), None)


def _last(rows: Sequence[Row], name: str) -> float | None:
    return _first(rows[::-1], name)


def _success(row: Row | None) -> float | None:
    return None if row is None else row["validation/success"]


def _success_interval(row: Row | None) -> list[float] | None:
    if row is None or row["validation/success"] is None:
        return None
    ends = ("validation/success_low", "validation/success_high")
    for name in ends:
        if name not in row:
            raise ValueError(f"the validation row of step {row['step']} has no {name}: write all three together")
    return [row[name] for name in ends]


def _kept_ratio(rows: Sequence[Row]) -> float | None:
    ratios = [row["filter/kept_count"] / row["filter/groups"] for row in rows if "filter/kept_count" in row]
    return math.fsum(ratios) / len(ratios) if ratios else None
