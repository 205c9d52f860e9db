"""A decoder written from its description, one token sequence at a time, float64, no cache and no batching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ragen_jax.models.config import ModelConfig


def hidden_states(params: dict[str, Any], config: ModelConfig, tokens: Sequence[int]) -> np.ndarray:
    """Final hidden states [T, d] of one unpadded sequence at positions 0, 1, 2, ..."""
    p = _as_float64(params)
    x = p["embedding"][list(tokens)]
    length = len(tokens)
    half = config.head_dim // 2
    angles = np.arange(length)[:, None] * config.rope_theta ** (-np.arange(half) / half)
    for layer in range(config.layers):
        w = {name: leaf[layer] for name, leaf in p["layers"].items()}
        y = _norm(x, w["attention_norm"], config.norm_eps)
        mixed = np.zeros((length, config.heads, config.head_dim))
        for head in range(config.heads):
            source = head // (config.heads // config.kv_heads)
            query = y @ w["query"][:, head] + w["query_bias"][head]
            key = y @ w["key"][:, source] + w["key_bias"][source]
            value = y @ w["value"][:, source] + w["value_bias"][source]
            query, key = _rotate(query, angles), _rotate(key, angles)
            for t in range(length):
                scores = np.array([query[t] @ key[s] for s in range(t + 1)]) / np.sqrt(config.head_dim)
                weights = np.exp(scores - scores.max())
                mixed[t, head] = (weights / weights.sum()) @ value[: t + 1]
        x = x + np.einsum("thk,hkd->td", mixed, w["output"])
        y = _norm(x, w["mlp_norm"], config.norm_eps)
        gate = y @ w["gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w["up"])) @ w["down"]
    return _norm(x, p["final_norm"], config.norm_eps)


def logits(params: dict[str, Any], config: ModelConfig, tokens: Sequence[int], *, vocab_size: int) -> np.ndarray:
    """Logits [T, vocab_size]; row t predicts token t + 1."""
    table = np.asarray(params["embedding"], np.float64)[:vocab_size]
    return hidden_states(params, config, tokens) @ table.T


def continuation_log_probs(
    params: dict[str, Any],
    config: ModelConfig,
    prompt: Sequence[int],
    continuation: Sequence[int],
    *,
    vocab_size: int,
    temperature: float = 1.0,
) -> np.ndarray:
    """Log-probs [len(continuation)] (nats) of a continuation after a prompt."""
    scores = logits(params, config, [*prompt, *continuation], vocab_size=vocab_size) / temperature
    shifted = scores - scores.max(axis=1, keepdims=True)
    table = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return np.array([table[len(prompt) - 1 + t, token] for t, token in enumerate(continuation)])


def _norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def _rotate(x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate(
        [first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)], axis=-1
    )


def _as_float64(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _as_float64(leaf) for name, leaf in tree.items()}
    return np.asarray(tree, np.float64)
