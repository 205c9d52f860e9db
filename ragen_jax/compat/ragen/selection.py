"""Which groups the released code keeps, from their scores alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

ZERO_SCORE = 1e-10  # a score of at most this size counts as zero
_MIN_P_EPS = 1e-10
_NAMES = {
    "strategy": ("top_p", "top_k", "top_k_abs", "min_p"),
    "filter_type": ("largest", "smallest"),
    "top_p_prob_mode": ("linear", "softmax"),
}

Scores = NDArray[np.float32]


def select_groups(
    scores: ArrayLike,
    *,
    strategy: str,
    value: float,
    filter_type: str = "largest",
    include_zero: bool = True,
    top_p_prob_mode: str = "linear",
    selection_eps: float = 0.01,
) -> list[int]:
    """Indices of the kept groups, in the order in which the strategy takes them; equal scores in index order.

    With ``include_zero=False`` groups with ``|score| <= 1e-10`` leave first, whatever the strategy.

    * ``top_p``: a value of 1 or more takes every group that is left, in index order. "linear" walks the scores, best
      first, until their sum reaches ``value * total - selection_eps``; a score of 0 or less ends the walk, and a walk
      that ends too early takes nothing. "softmax" takes groups until the softmax of the scores reaches the value.
    * ``top_k``: ``floor(value * P)`` groups, P counted before zeros left; at least one.
    * ``top_k_abs``: ``floor(value)`` groups, at least one.
    * ``min_p``: scores of at least ``value * max``; for "smallest" of at most ``min / value``. In index order.

    Differences from ``core.filters``:

    * zero is a test of the score, which float noise in the std of equal rewards escapes; core tests the range of the
      rewards. This function sees scores only.
    * the scores of a run are standard deviations (under the name reward variance); the paper sums variances.
    * ``top_p`` with value 1 takes zero groups too; core takes the fewest groups that hold all of the mass.
    * ``top_p`` "smallest" with a zero group in front takes nothing; core takes it and walks on.
    * negative scores end a "linear" walk, and a negative maximum makes ``min_p`` keep nothing; core refuses them.
    * ``min_p`` keeps everything when all scores are 0 and zeros are included; so does core.
    * the sum is compared exactly; core allows for a relative rounding of 1e-6.

    Args:
      scores: [P], any sign; rounded to float32.
      strategy: "top_p", "top_k", "top_k_abs" or "min_p".
      value: number of the strategy.
      filter_type: "largest" or "smallest" scores are taken first.
      include_zero: let groups with score zero take part.
      top_p_prob_mode: "linear" or "softmax"; read by ``top_p`` with a value below 1.
      selection_eps: slack on the "linear" threshold, in units of the score.

    Returns:
      Group indices; may be empty.

    Raises:
      ValueError: scores that are not [P] finite numbers; unknown strategy, filter type or mode, also one that would not
        be read.

    >>> select_groups([4.0, 3.0, 2.0, 1.0], strategy="top_p", value=0.9)
    [0, 1, 2]
    >>> select_groups([0.0, 0.0, 0.7], strategy="top_k", value=1.0, include_zero=False)
    [2]
    """
    _check_names(strategy=strategy, filter_type=filter_type, top_p_prob_mode=top_p_prob_mode)
    largest = filter_type == "largest"
    everything = _as_scores(scores)
    indices = np.arange(len(everything))
    if not include_zero:
        indices = indices[np.abs(everything) > ZERO_SCORE]
    if not len(indices):
        return []
    left = everything[indices]
    if strategy == "top_p":
        if value >= 1:
            return _as_list(indices)
        return _as_list(indices[_top_p(left, value, largest, top_p_prob_mode, selection_eps)])
    if strategy == "min_p":
        return _as_list(indices[_min_p(left, value, largest=largest)])
    count = int(value * len(everything)) if strategy == "top_k" else int(value)
    return _as_list(indices[_order(left, largest=largest)[: max(count, 1)]])


def _check_names(**given: str) -> None:
    """Refuse an unknown name, also where the given strategy would not read it."""
    for option, value in given.items():
        if value not in _NAMES[option]:
            raise ValueError(f"unknown {option} {value!r}; use one of {', '.join(_NAMES[option])}")


def _as_scores(scores: ArrayLike) -> Scores:
    array = np.asarray(scores, np.float32)
    if array.ndim != 1:
        raise ValueError(f"scores have shape {array.shape}; give one score per group, [P]")
    broken = np.flatnonzero(~np.isfinite(array))
    if len(broken):
        raise ValueError(f"score of group {broken[0]} is {array[broken[0]]}; drop groups with broken rewards first")
    return array


def _as_list(indices: NDArray[np.intp]) -> list[int]:
    return [int(index) for index in indices]


def _order(scores: Scores, *, largest: bool) -> NDArray[np.intp]:
    return np.argsort(-scores if largest else scores, kind="stable")


def _top_p(scores: Scores, value: float, largest: bool, mode: str, eps: float) -> NDArray[np.intp]:
    if mode == "linear":
        order = _order(scores, largest=largest)
        return order[: _linear_count(scores[order], value, eps)]
    signed = scores if largest else -scores
    weights = np.exp(signed - signed.max())
    probabilities = weights / weights.sum()
    order = _order(probabilities, largest=True)
    reached = int(np.searchsorted(np.cumsum(probabilities[order]), np.float32(value), side="left"))
    return order[: reached + 1]


def _linear_count(ordered: Sequence[np.float32] | Scores, value: float, eps: float) -> int:
    """Length of the walked prefix; 0 when the walk ends below the threshold."""
    threshold = np.float32(value * np.sum(ordered, dtype=np.float32) - eps)
    accumulated = np.float32(0.0)
    taken = 0
    for score in ordered:
        if accumulated >= threshold or score <= 0:
            break
        accumulated = np.float32(accumulated + score)
        taken += 1
    return taken if accumulated >= threshold else 0


def _min_p(scores: Scores, value: float, *, largest: bool) -> NDArray[np.intp]:
    if largest:
        keep = scores >= np.float32(value * scores.max() - _MIN_P_EPS)
    else:
        keep = scores <= np.float32(scores.min() / (value + _MIN_P_EPS) + _MIN_P_EPS)
    return np.flatnonzero(keep)
