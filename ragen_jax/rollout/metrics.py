"""Numbers about a batch of episodes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ragen_jax.rollout.episodes import Episode, RolloutInfo


def rollout_metrics(info: RolloutInfo) -> dict[str, float]:
    """Metrics of the rows whose environment worked; each name says what is averaged over what.

    Per episode, then mean over episodes: ``rollout/success``, ``rollout/return`` (environment rewards, no penalty),
    ``rollout/penalty`` (zero or negative), ``rollout/truncated``, ``rollout/turns``, ``rollout/response_tokens``, and
    ``env/<key>`` for the numbers of the environment's info, over the episodes that have the key.
    Per turn, mean over all turns: ``rollout/valid_format`` (well formed), ``rollout/cut_replies`` (token cap reached),
    ``rollout/closed_reasoning`` (has reasoning that can be scored).
    Mean over turns with closed reasoning: ``rollout/reasoning_tokens``.
    Mean over groups: ``rollout/reward_variance`` (unbiased variance of the returns within a group; zero for a group
    of one), ``rollout/pass_at_group`` (some member succeeded).
    Over all rows: ``rollout/invalid_rows`` (count), ``rollout/invalid_share``.

    Args:
      info: records of a batch.

    Returns:
      Name to number. Without a single valid row only the two ``invalid`` entries.
    """
    valid = [episode for episode in info.episodes if episode.error is None]
    invalid = len(info.episodes) - len(valid)
    metrics = {"rollout/invalid_rows": float(invalid), "rollout/invalid_share": invalid / len(info.episodes)}
    if not valid:
        return metrics
    turns = [turn for episode in valid for turn in episode.turns]
    reasoning = [stop - start for start, stop in (turn.reasoning for turn in turns if turn.reasoning is not None)]
    groups = _valid_groups(info)
    metrics |= {
        "rollout/success": _mean(episode.success for episode in valid),
        "rollout/return": _mean(episode_return(episode) for episode in valid),
        "rollout/penalty": _mean(episode.penalty for episode in valid),
        "rollout/truncated": _mean(episode.truncated for episode in valid),
        "rollout/turns": _mean(len(episode.turns) for episode in valid),
        "rollout/response_tokens": _mean(sum(len(turn.token_ids) for turn in episode.turns) for episode in valid),
        "rollout/valid_format": _mean(turn.well_formed for turn in turns),
        "rollout/cut_replies": _mean(turn.cut for turn in turns),
        "rollout/closed_reasoning": len(reasoning) / len(turns),
        "rollout/reasoning_tokens": _mean(reasoning) if reasoning else 0.0,
        "rollout/reward_variance": _mean(_variance([episode_return(episode) for episode in group]) for group in groups),
        "rollout/pass_at_group": _mean(any(episode.success for episode in group) for group in groups),
    }
    for key in sorted({key for episode in valid for key in episode.metrics}):
        metrics[f"env/{key}"] = _mean(episode.metrics[key] for episode in valid if key in episode.metrics)
    return metrics


def episode_return(episode: Episode) -> float:
    """Sum of the environment rewards, without penalty."""
    return sum(turn.reward for turn in episode.turns)


def _valid_groups(info: RolloutInfo) -> list[list[Episode]]:
    """Valid members of each group that has any."""
    starts = range(0, len(info.episodes), info.group_size)
    groups = [info.episodes[start : start + info.group_size] for start in starts]
    members = [[episode for episode in group if episode.error is None] for group in groups]
    return [group for group in members if group]


def _variance(values: list[float]) -> float:
    return float(np.var(values, ddof=1)) if len(values) > 1 else 0.0


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
