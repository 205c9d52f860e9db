"""A small random network and ragged prompts, shared by the tests of the device side."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from ragen_jax.models.config import ModelConfig
from ragen_jax.models.transformer import init_params

MODEL = ModelConfig(
    name="test",
    vocab_rows=40,
    width=16,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=4,
    mlp_width=24,
    rope_theta=1e4,
    init_scale=0.35,
)
VOCAB = 37  # fewer than the rows: the last three ids are never drawn or scored


def random_params(seed: int = 0, config: ModelConfig = MODEL) -> dict[str, Any]:
    """Parameters with random biases and norms too, so that no term can be missing unnoticed."""
    params = init_params(config, jax.random.key(seed))
    rng = np.random.default_rng(seed)

    def shake(path: Any, leaf: Any) -> Any:
        name = path[-1].key
        if "bias" in name or "norm" in name:
            return leaf + 0.3 * rng.normal(size=leaf.shape).astype(np.float32)
        return leaf

    return jax.tree_util.tree_map_with_path(shake, params)


@dataclasses.dataclass(frozen=True)
class Ragged:
    """Prompts of different lengths, left padded."""

    prompts: list[list[int]]
    tokens: np.ndarray
    mask: np.ndarray


def ragged_prompts(lengths: list[int], *, width: int, seed: int = 0) -> Ragged:
    """Random prompts of the given lengths in ``width`` slots."""
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(3, VOCAB, length).tolist() for length in lengths]
    tokens = np.zeros((len(lengths), width), np.int32)
    mask = np.zeros((len(lengths), width), bool)
    for row, prompt in enumerate(prompts):
        tokens[row, width - len(prompt) :] = prompt
        mask[row, width - len(prompt) :] = True
    return Ragged(prompts, tokens, mask)
