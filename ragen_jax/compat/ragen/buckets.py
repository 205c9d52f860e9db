"""Buckets of groups by reward standard deviation, as the released gradient analysis makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragen_jax.core.snr import rv_buckets

FIXED_EDGES = (1.0, 2.0, 3.0, 4.0, 5.0)  # of the buckets [0, 1), [1, 2) ... [5, inf), reward units


class Bucket(TypedDict):
    """One bucket, as the released code's dictionary of it.

    Attributes:
      rows: rows of its groups, ascending.
      group_ids: its groups, by rising std for quantiles, in their old order otherwise.
      std_values: their standard deviations, in reward units.
      std_mean: mean of these.
    """

    rows: list[int]
    group_ids: list[int]
    std_values: list[float]
    std_mean: float


def split_into_buckets(
    group_std: ArrayLike,
    group_ids: Sequence[int] | None = None,
    *,
    bucket_count: int = 6,
    mode: str = "quantile",
    rows_per_group: int = 2,
) -> dict[str, Bucket]:
    """Split groups by their reward standard deviation; "bucket_1" holds the smallest, "all" everything.

    "quantile" sorts by std (ties in group order) and gives each bucket ``floor(n / bucket_count)`` groups, the rest to
    the last; fewer groups than buckets make one bucket a group. "fixed_rv" uses the edges 1, 2, 3, 4, 5 whatever
    ``bucket_count`` says, and leaves empty buckets out. The released code calls the std a variance here as well.

    Args:
      group_std: [P], in reward units.
      group_ids: [P] names of the groups; 0 .. P - 1 by default.
      bucket_count: number of quantiles.
      mode: "quantile" or "fixed_rv".
      rows_per_group: rows of a group, which stand together in the batch: group i has rows ``i * rows_per_group`` on.

    Returns:
      Buckets by name, "all" first.

    Raises:
      ValueError: unknown mode; no groups; a std that is negative or not finite; numbers below 1; ids that do not fit.

    >>> split_into_buckets([0.3, 0.1, 0.2], bucket_count=3)["bucket_1"]["group_ids"]
    [1]
    """
    std = np.asarray(group_std, np.float32)
    ids = list(range(std.size)) if group_ids is None else [int(group) for group in group_ids]
    if std.ndim != 1 or not std.size or len(ids) != std.size:
        raise ValueError(f"group_std has shape {std.shape} and there are {len(ids)} group_ids; give P of each")
    if not (np.isfinite(std) & (std >= 0)).all():
        raise ValueError(f"group_std holds {std[~(np.isfinite(std) & (std >= 0))][0]}; a std is a number of at least 0")
    if bucket_count < 1 or rows_per_group < 1:
        raise ValueError(f"bucket_count={bucket_count} and rows_per_group={rows_per_group} must be at least 1")
    order = np.arange(std.size)
    members = {"all": order}
    if mode == "quantile":
        bucket = np.asarray(rv_buckets(std, count=bucket_count))
        order = np.argsort(std, kind="stable")
    elif mode == "fixed_rv":
        bucket = np.asarray(rv_buckets(std, edges=FIXED_EDGES))
    else:
        raise ValueError(f"unknown mode {mode!r}; use 'quantile' or 'fixed_rv'")
    members |= {f"bucket_{number + 1}": order[bucket[order] == number] for number in np.unique(bucket)}
    return {name: _bucket(groups, std, ids, rows_per_group) for name, groups in members.items()}


def scale_group_counts(base_n_groups: Sequence[int], target: int) -> list[int]:
    """Share out ``target`` groups in the proportion of ``base_n_groups``, by largest remainders, ties to the first.

    Args:
      base_n_groups: groups of each environment tag.
      target: groups wanted in all.

    Returns:
      Groups of each tag; they sum to ``target``.

    Raises:
      ValueError: negative counts, or nothing to share by.

    >>> scale_group_counts([3, 3, 3], 10)
    [4, 3, 3]
    """
    total = sum(base_n_groups)
    if total < 1 or min(base_n_groups) < 0 or target < 0:
        raise ValueError(f"base_n_groups={list(base_n_groups)}, target={target}: give counts of at least 0, not all 0")
    scaled = [count * target // total for count in base_n_groups]
    remainders = [count * target % total for count in base_n_groups]
    by_remainder = sorted(range(len(scaled)), key=lambda tag: -remainders[tag])
    for tag in by_remainder[: target - sum(scaled)]:
        scaled[tag] += 1
    return scaled


def _bucket(groups: NDArray[np.intp], std: NDArray[np.float32], ids: list[int], rows_per_group: int) -> Bucket:
    rows = sorted(int(group) * rows_per_group + row for group in groups for row in range(rows_per_group))
    return Bucket(
        rows=rows,
        group_ids=[ids[group] for group in groups],
        std_values=[float(value) for value in std[groups]],
        std_mean=float(std[groups].mean()),
    )
