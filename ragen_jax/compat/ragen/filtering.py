"""Group scores, the filter of a whole batch, and what the released code logs about it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragen_jax.compat.ragen.selection import ZERO_SCORE, select_groups

_STD, _MEAN, _SUM = "std", "mean", "sum"
# metric -> (what is measured, its statistic over the group)
_METRICS = {
    "reward_variance": ("reward", _STD),
    "reward_std": ("reward", _STD),
    "reward": ("reward", _MEAN),
    "reward_sum": ("reward", _SUM),
    "entropy": ("entropy", _MEAN),
    "entropy_variance": ("entropy", _STD),
    "entropy_std": ("entropy", _STD),
    "length": ("length", _MEAN),
}

Values = NDArray[np.float64]


class FilteredRows(NamedTuple):
    """What a filter leaves of a batch.

    Attributes:
      kept_rows: rows of the kept groups, in their old order.
      kept_groups: kept groups, ascending.
      row_std: per kept row, the std of its group before filtering, in the unit of the values.
      metrics: what the released code logs, under its keys.
    """

    kept_rows: list[int]
    kept_groups: list[int]
    row_std: list[float]
    metrics: dict[str, float]


def group_scores(values: ArrayLike, metric: str | None = None) -> NDArray[np.float32]:
    """Score of each group by the name of the metric, upper or lower case; ``None`` is "reward_variance".

    "reward_variance" (also "reward_std") is the unbiased *standard deviation* of the rewards, "reward" their mean,
    "reward_sum" their sum, "entropy" and "length" means, "entropy_variance" (also "entropy_std") a standard deviation.
    A std is taken in float64, so equal rewards give exactly 0; the released code takes it in float32, where they
    often give up to 1e-6 and pass for a group with signal. ``core.group_variance`` is the true variance.

    Args:
      values: [P, G] episode rewards, mean token entropies (nats) or lengths (tokens), as the metric says.
      metric: name of the score.

    Returns:
      [P] float32.

    Raises:
      ValueError: unknown metric, values that are not [P, G] finite numbers, or a std of groups of one.

    >>> group_scores([[0.0, 1.0], [1.0, 1.0]], "reward").tolist()
    [0.5, 1.0]
    """
    _, statistic = _metric(metric)
    groups = _as_groups(values)
    if statistic == _STD:
        return _std(groups).astype(np.float32)
    reduced = groups.mean(axis=1) if statistic == _MEAN else groups.sum(axis=1)
    return np.asarray(reduced, np.float32)


def filter_rows(
    values: ArrayLike,
    *,
    metric: str | None = None,
    strategy: str,
    value: float,
    filter_type: str = "largest",
    include_zero: bool = True,
    top_p_prob_mode: str = "linear",
    selection_eps: float = 0.01,
    num_groups: int | None = None,
    episode_ids: ArrayLike | None = None,
) -> FilteredRows:
    """Score the groups of a batch, keep some, and log it under the released code's keys.

    Rows may be single turns: with ``episode_ids`` they are first reduced to episodes (reward of the first row, sum of
    the lengths, mean of the entropies), and a row is kept when its episode is. The released code fails there as soon
    as an episode has two rows.

    Args:
      values: [P, G], or [rows] together with ``episode_ids`` and ``num_groups``; see :func:`group_scores`.
      metric: name of the score.
      strategy: see :func:`select_groups`, like the five options that follow.
      value: number of the strategy.
      filter_type: "largest" or "smallest".
      include_zero: let groups with score zero take part.
      top_p_prob_mode: "linear" or "softmax".
      selection_eps: slack of the "linear" threshold.
      num_groups: P, for values that are rows.
      episode_ids: [rows], equal for the rows of one episode; episodes are ordered by their first row.

    Returns:
      Kept rows and groups, their std, and the metrics.

    Raises:
      ValueError: see :func:`group_scores` and :func:`select_groups`; or episodes that do not divide into the groups.
    """
    kind, _ = _metric(metric)
    episode_of_row = np.arange(np.size(values))
    if episode_ids is not None:
        values, episode_of_row = _to_episodes(values, episode_ids, num_groups, kind=kind)
    groups = _as_groups(values)
    scores = group_scores(groups, metric)
    kept = select_groups(
        scores,
        strategy=strategy,
        value=value,
        filter_type=filter_type,
        include_zero=include_zero,
        top_p_prob_mode=top_p_prob_mode,
        selection_eps=selection_eps,
    )
    group_of_row = episode_of_row // groups.shape[1]
    rows = np.flatnonzero(np.isin(group_of_row, kept))
    std = _std(groups)
    return FilteredRows(
        kept_rows=[int(row) for row in rows],
        kept_groups=sorted(kept),
        row_std=[float(std[group_of_row[row]]) for row in rows],
        metrics=_log(groups, std, scores, sorted(kept), kind=kind),
    )


def trajectory_entropies(token_entropies: ArrayLike, mask: ArrayLike) -> Values:
    """Mean token entropy of each trajectory, [rows] nats; 0 for a row without tokens.

    Args:
      token_entropies: [rows, T] nats.
      mask: [rows, T], true on the tokens that count.

    Raises:
      ValueError: shapes that differ.
    """
    entropies, counted = np.asarray(token_entropies, np.float64), np.asarray(mask, bool)
    if entropies.shape != counted.shape or entropies.ndim != 2:
        raise ValueError(f"token_entropies {entropies.shape} and mask {counted.shape} must both be [rows, T]")
    totals = np.where(counted, entropies, 0.0).sum(axis=1)
    return np.asarray(totals / np.maximum(counted.sum(axis=1), 1), np.float64)


def _metric(metric: str | None) -> tuple[str, str]:
    name = "reward_variance" if metric is None else str(metric).lower()
    if name not in _METRICS:
        raise ValueError(f"unknown metric {metric!r}; use one of {', '.join(_METRICS)}")
    return _METRICS[name]


def _as_groups(values: ArrayLike) -> Values:
    array = np.asarray(values, np.float32).astype(np.float64)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"values have shape {array.shape}; give [P, G], one row per group")
    if not np.isfinite(array).all():
        group, member = (int(index) for index in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"value of rollout {member} of group {group} is {array[group, member]}; drop it first")
    return array


def _std(groups: Values) -> Values:
    if groups.shape[1] < 2:
        raise ValueError("groups of one have no standard deviation; use a group size of at least 2")
    return np.asarray(groups.std(axis=1, ddof=1), np.float64)


def _to_episodes(
    values: ArrayLike, episode_ids: ArrayLike, num_groups: int | None, *, kind: str
) -> tuple[Values, NDArray[np.intp]]:
    """Values per group and episode, [P, G], and the episode of each row."""
    rows, ids = np.asarray(values, np.float64), np.asarray(episode_ids)
    if rows.ndim != 1 or rows.shape != ids.shape or num_groups is None or num_groups < 1:
        raise ValueError(
            f"rows {rows.shape}, episode_ids {ids.shape}, num_groups={num_groups}: give [rows], [rows] and P"
        )
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    episode_of_row = place[inverse]
    count = len(first)
    if count % num_groups:
        raise ValueError(f"{count} episodes do not divide into {num_groups} groups")
    if kind == "reward":
        episodes = rows[np.sort(first)]
    else:
        share = 1.0 / np.bincount(episode_of_row)[episode_of_row] if kind == "entropy" else 1.0
        episodes = np.asarray(np.bincount(episode_of_row, weights=rows * share), np.float64)
    return episodes.reshape(num_groups, -1), episode_of_row


def _log(groups: Values, std: Values, scores: NDArray[np.float32], kept: list[int], *, kind: str) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for prefix, among in (("in_group", np.arange(len(groups))), ("chosen_in_group", np.asarray(kept, np.intp))):
        statistics = {"std": std[among], "max": groups[among].max(axis=1), "mean": groups[among].mean(axis=1)}
        if kind == "reward":
            statistics["sum"] = groups[among].sum(axis=1)
        for name, numbers in statistics.items():
            mean = float(numbers.mean()) if len(numbers) else 0.0
            metrics[f"rollout/{prefix}_{kind}_{name}"] = mean
            if name != "sum":
                metrics[f"rollout/{prefix}_{name}"] = mean
    metrics["rollout/filter_kept_count"] = float(len(kept))
    metrics["rollout/filter_kept_ratio"] = len(kept) / len(groups)
    metrics["rollout/filter_zero_count"] = float(np.sum(np.abs(scores) <= ZERO_SCORE))
    return metrics
