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


def returns_to_go(rewards, mask, *, gamma):
    """For every response token the rewards of the later ones, each discounted by the response tokens between."""
    out = np.zeros(rewards.shape)
    for b in range(rewards.shape[0]):
        tokens = np.flatnonzero(mask[b])
        for position, t in enumerate(tokens):
            out[b, t] = math.fsum(gamma**n * float(rewards[b, s]) for n, s in enumerate(tokens[position:]))
    return out


def bi_level_gae(rewards, values, mask, turns, *, gamma, lam, turn_gamma):
    """The two passes one after the other: turn ends first, whose targets then stand for the rewards of their turns."""
    advantages = np.zeros(rewards.shape)
    returns = np.zeros(rewards.shape)
    for b in range(rewards.shape[0]):
        tokens = [int(t) for t in np.flatnonzero(mask[b])]
        runs: list[list[int]] = []
        for t in tokens:
            if runs and turns[b, runs[-1][-1]] == turns[b, t]:
                runs[-1].append(t)
            else:
                runs.append([t])
        value, advantage = 0.0, 0.0
        target = {}
        for run in reversed(runs):
            end = run[-1]
            own = float(values[b, end])
            advantage = float(rewards[b, end]) + turn_gamma * value - own + turn_gamma * lam * advantage
            value = own
            target[end] = advantage + own
        for run in runs:
            value, advantage = 0.0, 0.0
            for t in reversed(run):
                reward = target.get(t, float(rewards[b, t]))
                own = float(values[b, t])
                advantage = reward + gamma * value - own + gamma * lam * advantage
                value = own
                advantages[b, t] = advantage
                returns[b, t] = advantage + own
    return advantages, returns


def whiten(values, over):
    """Minus the mean, over the unbiased standard deviation, both of the values where ``over`` is true."""
    chosen = [float(v) for v in np.asarray(values)[over]]
    mean = math.fsum(chosen) / len(chosen)
    return (np.asarray(values, np.float64) - mean) / math.sqrt(variance(chosen) + 1e-8)


def normalize_rewards(rewards, ids, valid, *, method):
    out = np.zeros(len(rewards))
    for i in set(ids.tolist()):
        rows = [b for b in range(len(rewards)) if ids[b] == i and valid[b]]
        members = [float(rewards[b]) for b in rows]
        if method == "identity":
            shifted = members
        elif len(set(members)) < 2:
            shifted = [0.0] * len(members)
        else:
            mean = math.fsum(members) / len(members)
            std = math.sqrt(variance(members)) if method != "mean" else 1.0
            shifted = [(r - mean) / std for r in members]
        if method == "asym_clip":
            shifted = [min(max(r, -1.0), 3.0) for r in shifted]
        out[rows] = shifted
    return out
