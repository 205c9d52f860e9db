"""Group statistics, advantages and losses as float64 loops, written from the formulas."""

from __future__ import annotations

import math

import numpy as np


def variance(rewards: list[float]) -> float:
    if len(rewards) < 2:
        return 0.0
    mean = math.fsum(rewards) / len(rewards)
    return math.fsum((r - mean) ** 2 for r in rewards) / (len(rewards) - 1)


def group_advantages(rewards, valid, *, normalize_by_std):
    out = np.zeros(rewards.shape)
    for i, row in enumerate(rewards):
        members = [float(r) for r, v in zip(row, valid[i], strict=True) if v]
        if len(set(members)) < 2:
            continue
        mean = math.fsum(members) / len(members)
        scale = math.sqrt(variance(members)) + 1e-6 if normalize_by_std else 1.0
        out[i] = [(float(r) - mean) / scale if v else 0.0 for r, v in zip(row, valid[i], strict=True)]
    return out


def gae(rewards, values, mask, *, gamma, lam):
    """Close up the response tokens of a row, run the textbook recursion, put the answers back."""
    advantages = np.zeros(rewards.shape)
    returns = np.zeros(rewards.shape)
    for b in range(rewards.shape[0]):
        tokens = np.flatnonzero(mask[b])
        for position, t in enumerate(tokens):
            later = tokens[position:]
            deltas = [
                float(rewards[b, s])
                + gamma * (float(values[b, tokens[position + n + 1]]) if n + 1 < len(later) else 0.0)
                - float(values[b, s])
                for n, s in enumerate(later)
            ]
            advantages[b, t] = math.fsum((gamma * lam) ** n * delta for n, delta in enumerate(deltas))
            returns[b, t] = advantages[b, t] + float(values[b, t])
    return advantages, returns


def ppo(log_prob, old, advantage, *, clip_low, clip_high, clip_dual):
    ratio = math.exp(min(max(log_prob - old, -20.0), 20.0))
    clipped_ratio = min(max(ratio, 1 - clip_low), 1 + clip_high)
    loss = max(-advantage * ratio, -advantage * clipped_ratio)
    if advantage < 0 and clip_dual:
        loss = min(loss, -advantage * clip_dual)
    return loss


def aggregate(values, mask, *, mode, constant_length=None):
    rows = [[float(v) for v, m in zip(vs, ms, strict=True) if m] for vs, ms in zip(values, mask, strict=True)]
    rows = [row for row in rows if row]
    if not rows:
        return 0.0
    if mode == "token-mean":
        return sum(map(sum, rows)) / sum(map(len, rows))
    if mode == "seq-mean-token-mean":
        return sum(sum(row) / len(row) for row in rows) / len(rows)
    return sum(map(sum, rows)) / len(rows) / (constant_length or 1.0)


def smallest_set(scores, rho):
    """Size of the smallest set that holds rho of the total, by walking down the sorted scores."""
    total = math.fsum(scores)
    reached = 0.0
    for count, score in enumerate(sorted(scores, reverse=True)):
        if reached >= rho * total - 1e-9 * total:
            return count
        reached += score
    return len(scores)
