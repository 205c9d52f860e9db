"""Random checkpoints in the Hugging Face layout, made with NumPy: the same bytes with and without torch."""

from __future__ import annotations

import contextlib
import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

from ragen_jax.models.config import ModelConfig
from ragen_jax.models.head import logits
from ragen_jax.models.transformer import continuation_pass, prompt_pass
from ragen_jax.types import Params

BASE: dict[str, Any] = {
    "vocab_size": 160,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
KINDS: dict[str, dict[str, Any]] = {
    "qwen2_tied": BASE | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]},
    "qwen2_untied": BASE | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": False},
    "qwen3": BASE | {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 16},
    "llama3_scaled": BASE
    | {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "rope_theta": 5e5,
        "rms_norm_eps": 1e-5,
        "rope_scaling": LLAMA3,
    },
    "llama_head_dim": BASE
    | {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "rope_theta": 1e4,
        "head_dim": 12,
        "tie_word_embeddings": False,
    },
}

_STRETCH = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_context": 64}
_WEAKER = LLAMA3 | {"factor": 8.0, "rope_theta": 5e5}
# Rotary fields of a llama in more than one place, base, and stretch: as transformers reads them.
ROPE_AS_TRANSFORMERS: dict[str, tuple[dict[str, Any], float, dict[str, Any] | None]] = {
    "scaling_beside_default": (
        {"rope_theta": 5e5, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}, "rope_scaling": LLAMA3},
        5e5,
        _STRETCH,
    ),
    "scaling_with_a_base": (
        {"rope_parameters": {"rope_theta": 1e4}, "rope_scaling": LLAMA3 | {"rope_theta": 5e5}},
        5e5,
        _STRETCH,
    ),
    "two_scalings": ({"rope_theta": 5e5, "rope_parameters": _WEAKER, "rope_scaling": LLAMA3}, 5e5, _STRETCH),
    "default_beside_scaling": (
        {"rope_theta": 1e4, "rope_parameters": _WEAKER, "rope_scaling": {"rope_type": "default"}},
        1e4,
        None,
    ),
    "empty_scaling": (
        {"rope_theta": 1e4, "rope_parameters": LLAMA3 | {"rope_theta": 5e5}, "rope_scaling": {}},
        5e5,
        _STRETCH,
    ),
    "context_at_the_top": (
        {"rope_theta": 5e5, "rope_scaling": LLAMA3, "original_max_position_embeddings": 16},
        5e5,
        _STRETCH | {"original_context": 16},
    ),
}


def tensors(fields: dict[str, Any], *, seed: int) -> dict[str, np.ndarray]:
    """Large random weights, norms and biases: with the usual small ones many faults stay unseen."""
    rng = np.random.default_rng(seed)
    d, f = fields["hidden_size"], fields["intermediate_size"]
    heads, kv = fields["num_attention_heads"], fields["num_key_value_heads"]
    hd = fields.get("head_dim", d // heads)

    def normal(*shape: int, scale: float) -> np.ndarray:
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    def norm(size: int) -> np.ndarray:
        return (1 + 0.3 * rng.standard_normal(size)).astype(np.float32)

    made = {"model.embed_tokens.weight": normal(fields["vocab_size"], d, scale=0.09), "model.norm.weight": norm(d)}
    if not fields["tie_word_embeddings"]:
        made["lm_head.weight"] = normal(fields["vocab_size"], d, scale=0.09)
    for index in range(fields["num_hidden_layers"]):
        name = f"model.layers.{index}."
        made |= {
            f"{name}input_layernorm.weight": norm(d),
            f"{name}post_attention_layernorm.weight": norm(d),
            f"{name}self_attn.q_proj.weight": normal(heads * hd, d, scale=0.18),
            f"{name}self_attn.k_proj.weight": normal(kv * hd, d, scale=0.18),
            f"{name}self_attn.v_proj.weight": normal(kv * hd, d, scale=0.12),
            f"{name}self_attn.o_proj.weight": normal(d, heads * hd, scale=0.64 * (heads * hd) ** -0.5),
            f"{name}mlp.gate_proj.weight": normal(f, d, scale=0.12),
            f"{name}mlp.up_proj.weight": normal(f, d, scale=0.12),
            f"{name}mlp.down_proj.weight": normal(d, f, scale=0.08),
        }
        if fields["model_type"] == "qwen2":
            made |= {
                f"{name}self_attn.q_proj.bias": normal(heads * hd, scale=0.3),
                f"{name}self_attn.k_proj.bias": normal(kv * hd, scale=0.3),
                f"{name}self_attn.v_proj.bias": normal(kv * hd, scale=0.3),
            }
        if fields["model_type"] == "qwen3":
            made |= {f"{name}self_attn.q_norm.weight": norm(hd), f"{name}self_attn.k_norm.weight": norm(hd)}
    return made


def write_checkpoint(folder: Path, fields: dict[str, Any], weights: dict[str, np.ndarray]) -> Path:
    """A folder with ``config.json`` and one safetensors file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def random_checkpoint(folder: Path, kind: str, *, seed: int = 0) -> Path:
    """A random checkpoint of one of ``KINDS``."""
    return write_checkpoint(folder, KINDS[kind], tensors(KINDS[kind], seed=seed))


def some_tokens(*, rows: int = 3, length: int = 80, vocab: int = 160, seed: int = 1) -> np.ndarray:
    """Random ids [rows, length]."""
    return np.random.default_rng(seed).integers(0, vocab, (rows, length)).astype(np.int32)


def our_logits(
    config: ModelConfig, params: Params, tokens: np.ndarray, *, prompt: int, dtype: str = "float32", pad: int = 0
) -> np.ndarray:
    """Logits [rows, length - prompt + 1, V] after each token from the last of the first ``prompt`` ones on.

    The first part goes through the prompt pass, left padded by ``pad`` slots, the rest through the continuation pass.
    """
    with jax.default_matmul_precision("highest"):
        head = np.pad(tokens[:, :prompt], ((0, 0), (pad, 0)))
        mask = np.pad(np.ones((len(tokens), prompt), bool), ((0, 0), (pad, 0)))
        cache = prompt_pass(params, config, head, mask, dtype=dtype)
        hidden = continuation_pass(params, config, cache, jnp.asarray(tokens[:, None, prompt:]))[:, 0]
        states = jnp.concatenate([cache.last_hidden[:, None], hidden], axis=1)
        return np.asarray(logits(params, config, states, vocab_size=config.vocab_rows))


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Files of this process cannot grow beyond ``size``: writing fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
