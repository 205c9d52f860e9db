"""A small GGUF file, and a forward pass in NumPy that reads GGUF tensors as they are (rotation in pairs)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

HEADS, KV, HD, LAYERS, WIDTH, MLP = 4, 2, 8, 2, 32, 48
BYTES = [chr(c) for c in range(0x21, 0x7F)]
TOKENS = ["<unk>", "<|im_start|>", "<|im_end|>", *BYTES, "\u0120", "\u010a", "he", "ll", "hell"]
MERGES = ["h e", "l l", "he ll"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_gguf(
    path: Path,
    *,
    architecture: str = "llama",
    header: Mapping[str, Any] | None = None,
    shapes: Mapping[str, tuple[int, ...] | None] | None = None,
    seed: int = 0,
) -> Path:
    """Random float32 weights in the layout of a llama GGUF file.

    ``header`` changes values by the writer's methods without "add_", ``shapes`` those of tensors; None leaves one out.
    """
    from gguf import GGUFWriter, TokenType

    rng = np.random.default_rng(seed)
    writer = GGUFWriter(path, architecture)
    fields = {
        "block_count": LAYERS,
        "context_length": 512,
        "embedding_length": WIDTH,
        "feed_forward_length": MLP,
        "head_count": HEADS,
        "head_count_kv": KV,
        "rope_freq_base": 10_000.0,
        "layer_norm_rms_eps": 1e-5,
        "tokenizer_model": "gpt2",
        "tokenizer_pre": "smollm",
        "token_list": TOKENS,
        "token_types": [TokenType.CONTROL] * 3 + [TokenType.NORMAL] * (len(TOKENS) - 3),
        "token_merges": MERGES,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "chat_template": TEMPLATE,
    }
    for name, value in (fields | dict(header or {})).items():
        if value is not None:
            getattr(writer, f"add_{name}")(value)
    tensors: dict[str, tuple[int, ...] | None] = {
        "token_embd.weight": (len(TOKENS), WIDTH),
        "output_norm.weight": (WIDTH,),
    }
    for layer in range(LAYERS):
        tensors |= {
            f"blk.{layer}.attn_norm.weight": (WIDTH,),
            f"blk.{layer}.attn_q.weight": (HEADS * HD, WIDTH),
            f"blk.{layer}.attn_k.weight": (KV * HD, WIDTH),
            f"blk.{layer}.attn_v.weight": (KV * HD, WIDTH),
            f"blk.{layer}.attn_output.weight": (WIDTH, HEADS * HD),
            f"blk.{layer}.ffn_norm.weight": (WIDTH,),
            f"blk.{layer}.ffn_gate.weight": (MLP, WIDTH),
            f"blk.{layer}.ffn_up.weight": (MLP, WIDTH),
            f"blk.{layer}.ffn_down.weight": (WIDTH, MLP),
        }
    for name, shape in (tensors | dict(shapes or {})).items():
        if shape is not None:
            mean = 1.0 if name.endswith("norm.weight") else 0.0
            writer.add_tensor(name, (mean + 0.2 * rng.standard_normal(shape)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def read_gguf(path: Path) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Dequantised tensors [out, in] in float64, and the numbers of the header."""
    from gguf import GGUFReader, dequantize

    reader = GGUFReader(path)
    tensors = {
        t.name: dequantize(t.data, t.tensor_type).reshape(tuple(int(n) for n in t.shape[::-1])).astype(np.float64)
        for t in reader.tensors
    }
    names = {
        "layers": "llama.block_count",
        "heads": "llama.attention.head_count",
        "kv": "llama.attention.head_count_kv",
        "theta": "llama.rope.freq_base",
        "eps": "llama.attention.layer_norm_rms_epsilon",
    }
    return tensors, {key: float(reader.fields[name].contents()) for key, name in names.items()}


def numpy_logits(tensors: Mapping[str, np.ndarray], header: Mapping[str, float], tokens: np.ndarray) -> np.ndarray:
    """Logits [T, V] of one row of tokens [T], float64, straight from the GGUF tensors."""
    layers, heads, kv = int(header["layers"]), int(header["heads"]), int(header["kv"])
    x = tensors["token_embd.weight"][tokens]
    length = len(tokens)
    causal = np.tril(np.ones((length, length), bool))

    def norm(v: np.ndarray, name: str) -> np.ndarray:
        return v / np.sqrt((v * v).mean(-1, keepdims=True) + header["eps"]) * tensors[f"{name}.weight"]

    def rotate_pairs(v: np.ndarray) -> np.ndarray:
        hd = v.shape[-1]
        angle = np.arange(length)[:, None, None] * header["theta"] ** (-np.arange(0, hd, 2) / hd)
        even, odd = v[..., 0::2], v[..., 1::2]
        out = np.empty_like(v)
        out[..., 0::2] = even * np.cos(angle) - odd * np.sin(angle)
        out[..., 1::2] = odd * np.cos(angle) + even * np.sin(angle)
        return out

    for i in range(layers):
        y = norm(x, f"blk.{i}.attn_norm")
        q = rotate_pairs((y @ tensors[f"blk.{i}.attn_q.weight"].T).reshape(length, heads, -1))
        k = rotate_pairs((y @ tensors[f"blk.{i}.attn_k.weight"].T).reshape(length, kv, -1))
        v = (y @ tensors[f"blk.{i}.attn_v.weight"].T).reshape(length, kv, -1)
        k, v = np.repeat(k, heads // kv, axis=1), np.repeat(v, heads // kv, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
        scores = np.where(causal, scores, -np.inf)
        weight = np.exp(scores - scores.max(-1, keepdims=True))
        weight /= weight.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", weight, v).reshape(length, -1) @ tensors[f"blk.{i}.attn_output.weight"].T
        y = norm(x, f"blk.{i}.ffn_norm")
        gate = y @ tensors[f"blk.{i}.ffn_gate.weight"].T
        up = y @ tensors[f"blk.{i}.ffn_up.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ tensors[f"blk.{i}.ffn_down.weight"].T
    head = tensors.get("output.weight", tensors["token_embd.weight"])
    return norm(x, "output_norm") @ head.T
