"""Intervals for what a report claims. Host side, float64, no jax."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def wilson_interval(successes: float, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a proportion.

    (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n), with p = successes / n (Wilson 1927). Unlike the normal
    interval it stays inside [0, 1] and has a width at 0 and at n successes.

    Args:
      successes: how many of the trials succeeded.
      n: trials, 1 or more.
      confidence: coverage, within (0, 1).

    Returns:
      Low and high end.

    Raises:
      ValueError: n is below 1, or successes lie outside [0, n].
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: use 1 or more trials and successes within [0, n]")
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / n
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / scale
    return max(0.0, centre - half), min(1.0, centre + half)


def clustered_proportion_interval(
    successes: Sequence[float], trials: Sequence[int], *, confidence: float = 0.95
) -> tuple[float, float]:
    """Interval of a proportion whose trials come in clusters, such as rollouts of the same prompt.

    Trials of a cluster are not independent, clusters are. With y_c successes in m_c trials, p = Σ y_c / Σ m_c and
    C clusters: p ± t · √(C / (C − 1) · Σ (y_c − p m_c)²) / Σ m_c, t the Student quantile for C − 1 degrees of freedom,
    cut to [0, 1] (the ratio estimator of cluster sampling, Cochran 1977 section 2.11). For clusters of equal size this
    is the Student interval over cluster means. Where that interval says nothing, since every cluster holds one trial or
    all trials ended alike, it is the Wilson interval with one trial per cluster.

    Args:
      successes: [C], successes of each cluster.
      trials: [C], trials of each cluster, 1 or more.
      confidence: coverage, within (0, 1).

    Returns:
      Low and high end; (0, 1) for a single cluster of several trials.

    Raises:
      ValueError: no clusters, lists of different length, a cluster without trials, or with more successes than trials.
    """
    clusters = len(trials)
    if clusters == 0 or len(successes) != clusters:
        raise ValueError(f"{len(successes)} successes for {clusters} clusters: give one number for each, at least one")
    for won, size in zip(successes, trials, strict=True):
        if size < 1 or not 0 <= won <= size:
            raise ValueError(f"a cluster with {won} successes of {size}: use 1 or more trials and successes within")
    total = sum(trials)
    share = math.fsum(successes) / total
    if max(trials) == 1 or share in (0, 1):
        return wilson_interval(share * clusters, clusters, confidence=confidence)
    if clusters == 1:
        return 0.0, 1.0
    residuals = [won - share * size for won, size in zip(successes, trials, strict=True)]
    error = math.sqrt(clusters / (clusters - 1) * math.fsum(residual**2 for residual in residuals)) / total
    half = student_quantile(clusters - 1, confidence=confidence) * error
    return max(0.0, share - half), min(1.0, share + half)


def mean_interval(values: Sequence[float], *, confidence: float = 0.95) -> tuple[float, float, float]:
    """Mean and Student interval of a few independent values, such as one per seed.

    mean ± t · s / √n, with s the sample standard deviation (n − 1) and t the two-sided Student quantile for n − 1
    degrees of freedom. One value says nothing about spread: its interval is infinite.

    Args:
      values: 1 or more finite numbers.
      confidence: coverage, within (0, 1).

    Returns:
      Mean, low end, high end.

    Raises:
      ValueError: no values.
    """
    n = len(values)
    if n == 0:
        raise ValueError("no values: an interval needs at least 1")
    mean = math.fsum(values) / n
    if n == 1:
        return mean, -math.inf, math.inf
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = student_quantile(n - 1, confidence=confidence) * std / math.sqrt(n)
    return mean, mean - half, mean + half


def student_quantile(dof: int, *, confidence: float = 0.95) -> float:
    """The t with P(|T| < t) = confidence for Student's distribution with ``dof`` degrees of freedom.

    Raises:
      ValueError: dof is below 1, or confidence lies outside (0, 1).
    """
    if dof < 1 or not 0 < confidence < 1:
        raise ValueError(f"dof={dof}, confidence={confidence}: use dof of 1 or more and a confidence within (0, 1)")
    low, high = 0.0, 1.0
    while _student_coverage(high, dof) < confidence:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if _student_coverage(middle, dof) < confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _student_coverage(t: float, dof: int) -> float:
    """P(|T| < t) by the finite series in θ = atan(t / √dof) (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    theta = math.atan(t / math.sqrt(dof))
    cos, sin = math.cos(theta), math.sin(theta)
    odd = dof % 2 == 1
    term = cos if odd else 1.0
    total = term if dof > 1 else 0.0
    for k in range(3 if odd else 2, dof - 1, 2):
        term *= cos * cos * ((k - 1) / k)
        total += term
    return 2 / math.pi * (theta + sin * total) if odd else sin * total
