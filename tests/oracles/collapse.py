"""Collapse estimators as float64 loops over one reasoning at a time, written from the formulas."""

from __future__ import annotations

import itertools
import math

import numpy as np


def log_mean_exp(values: list[float]) -> float:
    top = max(values)
    return top + math.log(math.fsum(math.exp(v - top) for v in values) / len(values))


def rows(log_probs, lengths, valid):
    """Valid (prompt, scores, length) triples."""
    columns, group, _ = log_probs.shape
    for i, k in itertools.product(range(columns), range(group)):
        if valid[i, k]:
            yield i, [float(v) for v in log_probs[i, k]], int(lengths[i, k])


def metrics(log_probs, lengths, valid, column_class, *, mix="sequence", std_eps=1e-3, ks=(1, 2, 4, 8)):
    """Means over scored reasonings, per sequence and per token, with retrieval by enumerating tie orders."""
    columns = log_probs.shape[0]
    matched, marginal, matched_token, marginal_token, ceiling = [], [], [], [], []
    hits = {k: [] for k in ks}
    chances = {k: [] for k in ks}
    for i, scores, length in rows(log_probs, lengths, valid):
        own = [j for j in range(columns) if column_class[j] == column_class[i]]
        matched.append(scores[i])
        marginal.append(log_mean_exp(scores))
        matched_token.append(scores[i] / length)
        mixed = log_mean_exp([s / length for s in scores])
        marginal_token.append(marginal[-1] / length if mix == "sequence" else mixed)
        ceiling.append(-math.log(len(own) / columns))
        for k in ks:
            hits[k].append(hit_share(scores, own, k))
            chances[k].append(hit_share([0.0] * columns, own, k))
    std = float(np.std(marginal_token))
    gain_token = np.subtract(matched_token, marginal_token)
    result = {
        "mi_sequence_nats": np.mean(np.subtract(matched, marginal)),
        "mi_sequence_ceiling_nats": np.mean(ceiling),
        "mi_token_nats": np.mean(gain_token),
        "conditional_entropy_sequence_nats": -np.mean(matched),
        "conditional_entropy_token_nats": -np.mean(matched_token),
        "reasoning_entropy_sequence_nats": -np.mean(marginal),
        "reasoning_entropy_token_nats": -np.mean(marginal_token),
        "matched_token_nats": np.mean(matched_token),
        "marginal_token_nats": np.mean(marginal_token),
        "marginal_std_token_nats": std,
        "mi_zscore": np.mean(gain_token) / (std + std_eps),
        "marginal_std_sequence_nats": np.std(marginal),
        "mi_zscore_sequence": np.mean(np.subtract(matched, marginal)) / (np.std(marginal) + std_eps),
        "scored": len(matched),
        "unscored": valid.size - len(matched),
        "reasoning_length_tokens": np.mean(lengths[valid]),
    }
    for k in ks:
        suffix = "" if k == 1 else f"@{k}"
        result[f"retrieval_accuracy{suffix}"] = np.mean(hits[k])
        result[f"retrieval_chance{suffix}"] = np.mean(chances[k])
    return {name: float(value) for name, value in result.items()}


def hit_share(scores, own, k):
    """Share of the subsets of equal columns that put one of the own columns into the first k."""
    k = min(k, len(scores))
    matched = scores[own[0]]
    better = sum(s > matched for s in scores)
    draws = k - better
    if draws <= 0:
        return 0.0
    equal = [j for j, s in enumerate(scores) if s == matched]
    picks = list(itertools.combinations(equal, min(draws, len(equal))))
    return sum(any(j in own for j in pick) for pick in picks) / len(picks)


def sampled_mi(log_probs, valid, columns, column_class=None):
    """MI estimate under sampled columns, and the jackknife error of their draw, one reasoning at a time.

    ``log_probs`` is the whole matrix [C, G, C]; ``columns`` [C, S] names the own column and the drawn others.
    """
    count = len(columns)
    column_class = np.arange(count) if column_class is None else np.asarray(column_class)
    size = {c: int((column_class == c).sum()) for c in column_class.tolist()}

    def log_marginal(i, scores, drawn):
        own = size[column_class[i]]
        weights = [size[column_class[j]] for j in drawn]
        rest = np.average(np.exp([scores[j] for j in drawn]), weights=weights) if drawn else 0.0
        return math.log(own / count * math.exp(scores[i]) + (count - own) / count * rest)

    gains, variances, rows = [], [], []
    for i in range(count):
        drawn = []
        for j in columns[i, 1:]:
            if column_class[j] not in [column_class[d] for d in (i, *drawn)]:
                drawn.append(j)
        scored = [log_probs[i, k] for k in range(valid.shape[1]) if valid[i, k]]
        gains += [float(scores[i]) - log_marginal(i, scores, drawn) for scores in scored]
        rows.append(len(scored))
        missing = 1 - len(drawn) / max(len(size) - 1, 1)
        if missing == 0 or not drawn:
            variances.append(0.0)
            continue
        without = [
            np.mean([log_marginal(i, scores, [d for d in drawn if d != s]) for scores in scored] or [0.0])
            for s in drawn
        ]
        jackknife = (len(drawn) - 1) / len(drawn) * np.square(np.subtract(without, np.mean(without))).sum()
        variances.append(jackknife * missing)
    share = np.array(rows) / sum(rows)
    return float(np.mean(gains)), float(np.sqrt(np.sum(share**2 * np.array(variances))))
