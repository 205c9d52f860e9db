"""Collapse metrics of flat samples, with the released code's definitions and suffixes.

Taken in float64: where matched and marginal nearly cancel, float32 leaves four digits of their difference. With
distinct prompts the values are those of ``core.collapse_metrics(mix="per_token")``, which a test compares.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

_TOP = (2, 4, 8)
Floats = NDArray[np.float64]


class EmaState(NamedTuple):
    """Moving averages of the marginal's std, one per matrix.

    Attributes:
      per_token: of the length-normalised scores, nats per token.
      sequence: of the sums, nats per sequence.
    """

    per_token: float
    sequence: float


def collapse_metrics(
    log_prob_sum: ArrayLike,
    lengths: ArrayLike,
    column_ids: ArrayLike | None = None,
    prompt_ids: Mapping[Any, Any] | Sequence[Any] | None = None,
    *,
    std_eps: float = 1e-3,
    column_order: Sequence[Hashable] | None = None,
    group_ids: ArrayLike | None = None,
) -> dict[str, float]:
    """Everything that the released code logs for one sampling, by suffix; the first step of its moving averages.

    Differences from ``core.collapse_metrics``:

    * per-token values mix length-normalised scores (``mix="per_token"`` there; the paper's definition is "sequence").
    * columns with the same prompt stay apart in the mixture, and ``mi_upper_bound`` is ln N all the same; core merges
      them and lowers the ceiling.
    * ``retrieval_accuracy`` takes the first of equal best columns; core counts ties as shares. A column with the same
      prompt is a hit in both.
    * ``retrieval_chance_level@k`` is ``min(1, k * chance)``, which is too high with equal prompts; core has
      ``1 - C(N - m, k) / C(N, k)``.

    Args:
      log_prob_sum: [S, N] log-prob of each reasoning under each column's prompt, summed over its tokens, nats.
      lengths: [S] tokens of each reasoning; 0 counts as 1.
      column_ids: [S] own column of each sample: its number 0 .. N - 1, or any labels, of which there must be N; their
        sorted order is then the order of the columns, unless ``column_order`` says otherwise.
      prompt_ids: prompt tokens of each column, by label or in column order. Without it every column is its own prompt.
      std_eps: added to standard deviations, nats.
      column_order: [N] label of each column.
      group_ids: another name for ``column_ids``.

    Returns:
      Values by suffix, see ``metric_names`` for our names; nothing when N is 1.

    Raises:
      ValueError: shapes that do not fit, no samples, log-probs that are not finite, or a label without a column.

    >>> two = [[-1.0, -3.0], [-3.0, -1.0]]
    >>> round(collapse_metrics(two, [2, 2], [0, 1])["mi_estimate"], 4)
    0.3799
    """
    metrics, _ = collapse_metrics_with_ema(
        log_prob_sum,
        lengths,
        column_ids,
        prompt_ids,
        std_eps=std_eps,
        column_order=column_order,
        group_ids=group_ids,
    )
    return metrics


def collapse_metrics_with_ema(
    log_prob_sum: ArrayLike,
    lengths: ArrayLike,
    column_ids: ArrayLike | None = None,
    prompt_ids: Mapping[Any, Any] | Sequence[Any] | None = None,
    state: EmaState | None = None,
    *,
    std_eps: float = 1e-3,
    ema_decay: float = 0.9,
    column_order: Sequence[Hashable] | None = None,
    group_ids: ArrayLike | None = None,
) -> tuple[dict[str, float], EmaState | None]:
    """:func:`collapse_metrics` with the moving averages of earlier steps: state in, state out.

    The released code keeps one state per sampling (first turn, trajectory), and loses it when a run is resumed.

    Args:
      log_prob_sum: see :func:`collapse_metrics`, like all that is not named here.
      lengths: [S].
      column_ids: [S].
      prompt_ids: by label or in column order.
      state: from the last measured step; None starts anew.
      std_eps: nats.
      ema_decay: ``e = decay * e + (1 - decay) * std``; the first std starts it.
      column_order: [N].
      group_ids: another name for ``column_ids``.

    Returns:
      Values by suffix and the next state; nothing and the old state when N is 1.

    Raises:
      ValueError: see :func:`collapse_metrics`; or a decay outside [0, 1).
    """
    if (column_ids is None) == (group_ids is None):
        raise ValueError("give column_ids or group_ids, one of them")
    sums, tokens = _check_arrays(log_prob_sum, lengths)
    order = None if column_order is None else list(column_order)
    labels = np.asarray(column_ids if group_ids is None else group_ids).tolist()
    columns, order = _columns(labels, samples=len(sums), count=sums.shape[1], order=order)
    if len(order) < 2:
        return {}, state
    if not 0 <= ema_decay < 1:
        raise ValueError(f"ema_decay={ema_decay} must lie in [0, 1)")
    means = sums / np.maximum(tokens, 1)[:, None]
    metrics = {"mi_upper_bound": float(np.log(len(order)))}
    averages = []
    for scores, spelled, before in ((means, str, 0), (sums, _of_sums, 1)):
        matched, marginal = _matched_and_marginal(scores, columns)
        std = float(marginal.std())
        average = std if state is None else ema_decay * state[before] + (1 - ema_decay) * std
        averages.append(average)
        values = _statistics(matched, marginal, std=std, average=average, std_eps=std_eps)
        metrics |= {spelled(name): value for name, value in values.items()}
    del metrics["matched_log_prob_mean_seq"], metrics["marginal_log_prob_mean_seq"]  # not among the released keys
    same_prompt = _same_prompt(prompt_ids, order)
    metrics |= _retrieval(means, columns, same_prompt)
    return metrics, EmaState(*averages)


def first_turn_columns(
    group_ids: Sequence[Hashable], prompts: Sequence[Sequence[int]]
) -> tuple[list[Hashable], dict[Hashable, tuple[int, ...]]]:
    """Columns of a first-turn sampling: the groups that occur, ascending, and the one prompt of each.

    Args:
      group_ids: [S] group of each sample.
      prompts: [S] prompt tokens of each sample.

    Returns:
      ``column_order`` and ``prompt_ids`` for :func:`collapse_metrics`.

    Raises:
      ValueError: two samples of a group have different prompts. (The released code loses that step's metrics.)
    """
    if len(group_ids) != len(prompts):
        raise ValueError(f"{len(group_ids)} group_ids and {len(prompts)} prompts: give one of each per sample")
    first: dict[Hashable, int] = {}
    for sample, group in enumerate(group_ids):
        earlier = first.setdefault(group, sample)
        if tuple(prompts[earlier]) != tuple(prompts[sample]):
            raise ValueError(f"prompt mismatch in group {group}: samples {earlier} and {sample} have different prompts")
    order = np.unique(np.asarray(list(first))).tolist()
    return order, {group: tuple(prompts[first[group]]) for group in order}


def should_compute(
    step: int, *, compute_freq: int, first_turn_enabled: bool = True, multi_turn_enabled: bool = True
) -> bool:
    """Whether the released code measures at this training step: at step 1 and at multiples of the frequency.

    Raises:
      ValueError: a negative step or a frequency below 1.
    """
    if step < 0 or compute_freq < 1:
        raise ValueError(f"step={step} must be at least 0 and compute_freq={compute_freq} at least 1")
    return (first_turn_enabled or multi_turn_enabled) and step > 0 and (step == 1 or step % compute_freq == 0)


def _check_arrays(log_prob_sum: ArrayLike, lengths: ArrayLike) -> tuple[Floats, NDArray[np.int64]]:
    sums, tokens = np.asarray(log_prob_sum, np.float64), np.asarray(lengths)
    if sums.ndim != 2 or not sums.size or tokens.shape != sums.shape[:1]:
        raise ValueError(
            f"log_prob_sum {sums.shape} and lengths {tokens.shape}: give [S, N] and [S], S and N at least 1"
        )
    if not np.isfinite(sums).all():
        sample, column = (int(index) for index in np.argwhere(~np.isfinite(sums))[0])
        raise ValueError(
            f"log-prob of sample {sample} under column {column} is {sums[sample, column]}; drop the sample"
        )
    if (tokens < 0).any():
        raise ValueError(f"lengths hold {tokens.min()}; a reasoning has at least 0 tokens")
    return sums, tokens.astype(np.int64)


def _columns(
    labels: list[Any], *, samples: int, count: int, order: list[Any] | None
) -> tuple[NDArray[np.intp], list[Any]]:
    """Own column of each sample, and the label of each column."""
    if len(labels) != samples:
        raise ValueError(f"{len(labels)} column_ids for {samples} samples; give one each")
    if order is None:
        numbered = all(isinstance(label, int) and 0 <= label < count for label in labels)
        order = list(range(count)) if numbered else np.unique(np.asarray(labels)).tolist()
    if len(order) != count or len(set(order)) != count:
        raise ValueError(f"{count} columns of scores, but {len(set(order))} labels: {order}; give column_order")
    place = {label: column for column, label in enumerate(order)}
    unknown = [label for label in labels if label not in place]
    if unknown:
        raise ValueError(f"column_ids hold {unknown[0]!r}, which is no column: {order}")
    return np.array([place[label] for label in labels]), order


def _matched_and_marginal(scores: Floats, columns: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Score under the own column and log-mean-exp over all columns, each [S]."""
    top = scores.max(axis=1)
    marginal = top + np.log(np.exp(scores - top[:, None]).mean(axis=1))
    return scores[np.arange(len(scores)), columns], marginal


def _statistics(matched: Floats, marginal: Floats, *, std: float, average: float, std_eps: float) -> dict[str, float]:
    own, mixture, gain = float(matched.mean()), float(marginal.mean()), float((matched - marginal).mean())
    return {
        "mi_estimate": gain,
        "matched_log_prob_mean": own,
        "marginal_log_prob_mean": mixture,
        "conditional_entropy_est": -own,
        "reasoning_entropy_est": -mixture,
        "marginal_std": std,
        "marginal_std_ema": average,
        "mi_zscore": gain / (std + std_eps),
        "mi_zscore_ema": gain / (average + std_eps),
    }


def _of_sums(name: str) -> str:
    """Key of the value of the sums: ``mi_seq_estimate`` and ``..._entropy_seq_est``, but ``marginal_std_seq``."""
    for ending in ("_estimate", "_est"):
        if name.endswith(ending):
            return f"{name.removesuffix(ending)}_seq{ending}"
    return f"{name}_seq"


def _same_prompt(prompt_ids: Mapping[Any, Any] | Sequence[Any] | None, order: list[Any]) -> NDArray[np.bool_]:
    """Which columns have equal prompts, [N, N]."""
    if prompt_ids is None:
        return np.eye(len(order), dtype=bool)
    if isinstance(prompt_ids, Mapping):
        by_name = {str(label): tokens for label, tokens in prompt_ids.items()}
        missing = [label for label in order if str(label) not in by_name]
        if missing:
            raise ValueError(f"prompt_ids lacks column {missing[0]!r}; give the tokens of every column")
        tokens = [by_name[str(label)] for label in order]
    else:
        tokens = list(prompt_ids)
    if len(tokens) != len(order):
        raise ValueError(f"{len(tokens)} prompt_ids for {len(order)} columns; give one each")
    prompts = [tuple(np.ravel(column).tolist()) for column in tokens]
    return np.array([[one == other for other in prompts] for one in prompts])


def _retrieval(means: Floats, columns: NDArray[np.intp], same_prompt: NDArray[np.bool_]) -> dict[str, float]:
    count = means.shape[1]
    hits = np.take_along_axis(same_prompt[columns], np.argsort(-means, axis=1, kind="stable"), axis=1)
    chance = float(same_prompt[columns].mean())
    metrics = {}
    for k in (1, *_TOP):
        drawn = min(k, count)
        suffix = "" if k == 1 else f"@{k}"
        accuracy = float(hits[:, :drawn].any(axis=1).mean())
        level = min(1.0, chance * drawn)
        metrics[f"retrieval_accuracy{suffix}"] = accuracy
        metrics[f"retrieval_chance_level{suffix}"] = level
        metrics[f"retrieval_above_chance{suffix}"] = accuracy - level
    return metrics
