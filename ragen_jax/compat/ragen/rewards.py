"""Reward normalisation and the placing of rewards on tokens, as the released code does both."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

_STD_EPS = 1e-6  # a std of at most this size counts as zero; also added before dividing
_ASYM_CLIP = (-1.0, 3.0)
_GROUPINGS = ("state", "batch", "inductive")
_METHODS = ("identity", "mean", "mean_std", "asym_clip")


class TurnScores(NamedTuple):
    """Rewards and trained positions on the shifted indices: position t is the prediction of token t + 1.

    Attributes:
      score_tensor: [B, T - 1] float32.
      loss_mask: [B, T - 1] float32, 1 on trained predictions.
    """

    score_tensor: NDArray[np.float32]
    loss_mask: NDArray[np.float32]


def normalize_rewards(
    env_outputs: Sequence[Mapping[str, Any]],
    episode_rewards: ArrayLike,
    penalties: ArrayLike | None = None,
    *,
    grouping: str = "state",
    method: str = "identity",
) -> list[float]:
    """Episode rewards plus penalties, normalised within groups.

    "mean" subtracts the mean of the group, "mean_std" also divides by ``std + 1e-6`` (unbiased), "asym_clip" then clips
    to [-1, 3]. A std of at most 1e-6 gives 0. When every group has one member, nothing is normalised; a single member
    among larger groups becomes 0. After "mean_std" every group has std 1 and a filter on the variance of these rewards
    says nothing: our training filters on rewards before normalisation.

    Args:
      env_outputs: one mapping per episode with ``group_id`` and, for "inductive", ``tag``.
      episode_rewards: [B] sums of the environment's rewards.
      penalties: [B] zero or negative; none by default.
      grouping: "state" (the same prompt), "batch" (all) or "inductive" (the same environment tag).
      method: "identity", "mean", "mean_std" or "asym_clip".

    Returns:
      [B] floats, float32 precision.

    Raises:
      ValueError: unknown grouping or method, lengths that differ, rewards that are not finite, or a missing field.

    >>> normalize_rewards([{"group_id": 0}, {"group_id": 0}], [1.0, 0.0], [0.0, -1.0], method="mean")
    [1.0, -1.0]
    """
    if grouping not in _GROUPINGS:
        raise ValueError(f"unknown grouping {grouping!r}; use one of {', '.join(_GROUPINGS)}")
    if method not in _METHODS:
        raise ValueError(f"unknown method {method!r}; use one of {', '.join(_METHODS)}")
    rewards = np.asarray(episode_rewards, np.float32).astype(np.float64)
    penalty = np.zeros_like(rewards) if penalties is None else np.asarray(penalties, np.float32).astype(np.float64)
    if rewards.ndim != 1 or rewards.shape != penalty.shape or len(env_outputs) != len(rewards):
        raise ValueError(
            f"{len(env_outputs)} env_outputs, episode_rewards {rewards.shape}, penalties {penalty.shape}: "
            "give B of each"
        )
    rewards = rewards + penalty
    broken = np.flatnonzero(~np.isfinite(rewards))
    if len(broken):
        raise ValueError(f"reward of episode {broken[0]} is {rewards[broken[0]]}; drop broken episodes first")
    members: dict[Hashable, list[int]] = {}
    for episode, output in enumerate(env_outputs):
        members.setdefault(_group_of(output, grouping), []).append(episode)
    if method != "identity" and any(len(rows) > 1 for rows in members.values()):
        for rows in members.values():
            rewards[rows] = _normalized(rewards[rows], method)
    return [float(reward) for reward in rewards.astype(np.float32)]


def turn_score_tensor(
    input_ids: ArrayLike,
    turn_scores: Sequence[Sequence[float]],
    *,
    start_token: int,
    end_token: int,
    newline_after_end: bool,
    use_turn_scores: bool = True,
    enable_response_mask: bool = True,
) -> TurnScores:
    """Rewards and loss mask of whole conversations, found by counting start-of-role tokens.

    The first role is the system, then user and assistant alternate; the predictions made from the tokens of an
    assistant message are trained, its template tokens and the next start token among them. A turn's reward stands on
    the end token of its message, or with ``newline_after_end`` one token later; without turn scores their sum stands
    last. ``rollout.assemble`` differs: masks come from recorded spans and hold sampled tokens only. Where an end token
    has no newline behind it, the released code loses the last reward of shorter episodes; here it is kept.

    Args:
      input_ids: [B, T] token ids, left padded with ids other than the two below.
      turn_scores: B sequences, one reward per assistant message.
      start_token: begins every message.
      end_token: ends every message.
      newline_after_end: the template puts a newline behind the end token (Qwen: yes, Llama 3: no).
      use_turn_scores: place each turn's reward apart.
      enable_response_mask: train assistant messages only; otherwise everything behind the system message.

    Returns:
      Both arrays.

    Raises:
      ValueError: shapes that do not fit, or a number of rewards that differs from the number of closed messages.
    """
    ids = np.asarray(input_ids)
    if ids.ndim != 2 or len(ids) != len(turn_scores):
        raise ValueError(f"input_ids {ids.shape} and {len(turn_scores)} turn_scores: give [B, T] and B")
    message = np.cumsum(ids == start_token, axis=1)
    assistant = (message > 1) & (message % 2 == 1)
    trained = assistant if enable_response_mask else message > 1
    scores = np.zeros(ids.shape, np.float32)
    for row, rewards in enumerate(turn_scores):
        if not use_turn_scores:
            scores[row, -1] = np.sum(rewards, dtype=np.float32)
            continue
        ends = np.flatnonzero((ids[row] == end_token) & assistant[row]) + int(newline_after_end)
        if len(ends) != len(rewards) or (ends >= ids.shape[1]).any():
            raise ValueError(f"row {row} has {len(ends)} closed replies and {len(rewards)} turn scores; give one each")
        scores[row, ends] = rewards
    return TurnScores(score_tensor=scores[:, 1:], loss_mask=trained[:, :-1].astype(np.float32))


def _group_of(output: Mapping[str, Any], grouping: str) -> Hashable:
    if grouping == "batch":
        return None
    field = "group_id" if grouping == "state" else "tag"
    if field not in output:
        raise ValueError(f"an env_output without {field!r}, which grouping={grouping!r} needs: {dict(output)}")
    key: Hashable = output[field]
    return key


def _normalized(rewards: NDArray[np.float64], method: str) -> NDArray[np.float64]:
    centred = rewards - rewards.mean()
    if method == "mean":
        return np.asarray(centred, np.float64)
    std = rewards.std(ddof=1) if len(rewards) > 1 else 0.0
    scaled = centred / (std + _STD_EPS) if std > _STD_EPS else np.zeros_like(rewards)
    return np.asarray(np.clip(scaled, *_ASYM_CLIP) if method == "asym_clip" else scaled, np.float64)
