"""Scores of a group as float64 lists, written from their names."""

from __future__ import annotations

import math

from tests.oracles.learning import variance


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


SCORES = {
    "reward_variance": variance,
    "reward_std": lambda values: math.sqrt(variance(values)),
    "reward_mean": mean,
    "reward_sum": math.fsum,
    "reward_max": lambda values: max(values, default=0.0),
    "entropy": mean,
    "entropy_variance": variance,
    "length": mean,
    "replayed_variance": variance,
}


def kept_by_count(scores: list[float], flat: list[bool], rho: float) -> set[int]:
    """The best ``ceil(rho * n)`` of the n prompts that are not flat, ties in prompt order."""
    among = [i for i in range(len(scores)) if not flat[i]]
    number = math.ceil(rho * len(among) - 1e-9)
    return set(sorted(among, key=lambda i: -scores[i])[:number])
