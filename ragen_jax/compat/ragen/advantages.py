"""Group estimators for rows in any order, with the released code's answer for a group of one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragen_jax import core

Floats = NDArray[np.float64]


class GroupAdvantages(NamedTuple):
    """Advantages of rows.

    Attributes:
      advantages: [B, T], 0 outside the mask.
      group_std: [B] unbiased std of the row's group, in reward units; 1 for a group of one.
    """

    advantages: Floats
    group_std: Floats


def grpo_advantages(
    scores: ArrayLike,
    index: ArrayLike,
    mask: ArrayLike,
    *,
    norm_by_std: bool = True,
    episode_ids: ArrayLike | None = None,
) -> GroupAdvantages:
    """``(s - mean) / (std + 1e-6)`` of the row's group, or ``s - mean``, on every token of the mask.

    A group of one keeps its raw score as advantage (mean 0, std 1); core gives 0. Rows that are turns of one episode
    count once in the statistics. Groups of two and more are ``core.group_advantages_by_id``.

    Args:
      scores: [B] sums of token rewards.
      index: [B] group of each row, any labels.
      mask: [B, T] trained tokens.
      norm_by_std: divide by the standard deviation.
      episode_ids: [B], equal for the rows of one episode of a group; the first row's score counts.

    Returns:
      Advantages and the std of each row's group.

    Raises:
      ValueError: shapes that do not fit.
    """
    rewards, groups, tokens = _check(scores, index, mask)
    row_of = np.arange(len(rewards))
    if episode_ids is not None:
        episodes = np.unique(np.asarray(episode_ids), return_inverse=True)[1]
        if episodes.shape != groups.shape:
            raise ValueError(f"episode_ids {episodes.shape} must have one entry per row, {groups.shape}")
        pairs = np.stack([groups, episodes], axis=1)
        _, first, row_of = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        rewards, groups = rewards[first], groups[first]
    advantages, std = _relative(rewards, groups, norm_by_std=norm_by_std)
    return GroupAdvantages(advantages[row_of][:, None] * tokens, std[row_of])


def rloo_advantages(scores: ArrayLike, index: ArrayLike, mask: ArrayLike) -> Floats:
    """``(s - mean) n / (n - 1)`` of the row's group of n on every token of the mask, [B, T].

    A group of one keeps its raw score; ``core.leave_one_out`` gives 0. Arguments as :func:`grpo_advantages`.
    """
    rewards, groups, tokens = _check(scores, index, mask)
    centred, _ = _relative(rewards, groups, norm_by_std=False)
    count = np.bincount(groups)[groups]
    return (centred * np.where(count > 1, count / np.maximum(count - 1, 1), 1.0))[:, None] * tokens


def reinforce_plus_plus_baseline_advantages(scores: ArrayLike, index: ArrayLike, mask: ArrayLike) -> Floats:
    """``s - mean`` of the row's group on every token, whitened over all tokens of the mask, [B, T].

    A group of one keeps its raw score. Arguments as :func:`grpo_advantages`.
    """
    rewards, groups, tokens = _check(scores, index, mask)
    centred, _ = _relative(rewards, groups, norm_by_std=False)
    return np.asarray(core.masked_whiten(centred[:, None] * tokens, tokens > 0), np.float64)


def reinforce_plus_plus_advantages(
    token_level_rewards: ArrayLike, mask: ArrayLike, *, gamma: float = 1.0
) -> tuple[Floats, Floats]:
    """Discounted rewards to go, whitened over the mask; and the rewards to go.

    A running sum that starts anew at every masked position: a reward behind the last token of the mask is lost, as is
    every reward of a later turn. ``core`` carries rewards over masked positions.

    Args:
      token_level_rewards: [B, T].
      mask: [B, T] trained tokens.
      gamma: discount per position.

    Returns:
      advantages (0 outside the mask) and returns, each [B, T].

    Raises:
      ValueError: shapes that differ.
    """
    rewards, tokens = np.asarray(token_level_rewards, np.float64), np.asarray(mask, np.float64)
    if rewards.ndim != 2 or rewards.shape != tokens.shape:
        raise ValueError(f"token_level_rewards {rewards.shape} and mask {tokens.shape} must both be [B, T]")
    returns = np.zeros_like(rewards)
    running = np.zeros(len(rewards))
    for position in reversed(range(rewards.shape[1])):
        running = rewards[:, position] + gamma * running
        returns[:, position] = running
        running = running * tokens[:, position]
    return np.asarray(core.masked_whiten(returns, tokens > 0), np.float64), returns


def _relative(rewards: NDArray[np.float32], groups: NDArray[np.intp], *, norm_by_std: bool) -> tuple[Floats, Floats]:
    sizes = np.bincount(groups)
    shared = core.group_advantages_by_id(rewards, groups, num_groups=len(sizes), normalize_by_std=norm_by_std)
    std = np.array([rewards[groups == group].std(ddof=1) if n > 1 else 1.0 for group, n in enumerate(sizes)])
    alone = sizes[groups] == 1
    raw = rewards / (1.0 + core.grouping.STD_EPS) if norm_by_std else rewards
    return np.where(alone, raw, np.asarray(shared, np.float64)), std[groups]


def _check(
    scores: ArrayLike, index: ArrayLike, mask: ArrayLike
) -> tuple[NDArray[np.float32], NDArray[np.intp], Floats]:
    rewards, labels, tokens = np.asarray(scores, np.float32), np.asarray(index), np.asarray(mask, np.float64)
    if rewards.ndim != 1 or rewards.shape != labels.shape or tokens.ndim != 2 or len(tokens) != len(rewards):
        raise ValueError(f"scores {rewards.shape}, index {labels.shape}, mask {tokens.shape}: give [B], [B] and [B, T]")
    return rewards, np.unique(labels, return_inverse=True)[1], tokens
