"""GGUF files of the Llama architecture as Hugging Face folders (extra ``realmodel``).

Weights are dequantised, the query and key rows put back from the interleaved order of GGUF into halves, and the
tokenizer is rebuilt from the vocabulary and merges in the file. From then on the model is an ordinary folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ragen_jax.models.config import ModelConfig
from ragen_jax.models.convert import write_shards
from ragen_jax.models.hf_config import hf_fields

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_CONTROL = 3  # token type of markers such as <|im_end|>


def gguf_to_folder(path: str | Path, folder: str | Path, *, dtype: str = "float32") -> Path:
    """Write the model in a GGUF file as a Hugging Face folder.

    Args:
      path: GGUF file of architecture "llama".
      folder: new or empty.
      dtype: of the written weights.

    Returns:
      The folder.

    Raises:
      ModuleNotFoundError: the extra ``realmodel`` is not installed.
      ValueError: another architecture, a rotary stretch or a pre-tokenizer that is not known, a broken file, or a
        folder that is not empty.
    """
    reader = _open(Path(path))
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty: name a new folder")
    fields = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    config = _model_config(fields, tied="output.weight" not in tensors, source=str(path))
    folder.mkdir(parents=True, exist_ok=True)
    eos, pad = int(fields["tokenizer.ggml.eos_token_id"]), int(fields.get("tokenizer.ggml.padding_token_id", 0))
    record = hf_fields(config, dtype=dtype, eos_token_id=eos, pad_token_id=pad)
    (folder / "config.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    _write_tokenizer(fields, folder, source=str(path))
    write_shards(folder, _weights(tensors, config, dtype, source=str(path)))
    return folder


def _open(path: Path) -> Any:
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "reading GGUF needs the extra realmodel: pip install 'ragen_jax[realmodel]'"
        ) from error
    if not path.is_file():
        raise ValueError(f"{path} is no file: name a GGUF file")
    try:
        return GGUFReader(path)
    except (ValueError, IndexError, KeyError) as error:
        raise ValueError(f"{path} is no complete GGUF file: {error}") from error


def _model_config(fields: dict[str, Any], *, tied: bool, source: str) -> ModelConfig:
    architecture = fields.get("general.architecture")
    if architecture != "llama":
        raise ValueError(f"{source} holds architecture {architecture!r}; only 'llama' is read from GGUF")
    if fields.get("llama.rope.scaling.type", "none") != "none":
        raise ValueError(f"{source} stretches its rotary positions; load the model's Hugging Face folder instead")
    heads, width = int(fields["llama.attention.head_count"]), int(fields["llama.embedding_length"])
    return ModelConfig(
        name=str(fields.get("general.basename", Path(source).stem)),
        vocab_rows=len(fields["tokenizer.ggml.tokens"]),
        width=width,
        layers=int(fields["llama.block_count"]),
        heads=heads,
        kv_heads=int(fields["llama.attention.head_count_kv"]),
        head_dim=int(fields.get("llama.attention.key_length", width // heads)),
        mlp_width=int(fields["llama.feed_forward_length"]),
        rope_theta=float(fields["llama.rope.freq_base"]),
        # The file keeps float32; the shortest decimal with that value is what the model was trained with.
        norm_eps=float(str(np.float32(fields["llama.attention.layer_norm_rms_epsilon"]))),
        tied=tied,
        qkv_bias=False,
        max_context=int(fields.get("llama.context_length", 0)),
    )


def _weights(
    tensors: dict[str, Any], config: ModelConfig, dtype: str, *, source: str
) -> Iterator[tuple[str, np.ndarray]]:
    import jax.numpy as jnp
    from gguf import dequantize

    for name, tensor in tensors.items():
        weight = dequantize(tensor.data, tensor.tensor_type).reshape(tuple(int(n) for n in tensor.shape[::-1]))
        parts = name.split(".")
        if parts[0] == "blk" and parts[2] in _LAYER_NAMES:
            if parts[2] in ("attn_q", "attn_k"):
                weight = halves(weight, heads=config.heads if parts[2] == "attn_q" else config.kv_heads)
            new = f"model.layers.{parts[1]}.{_LAYER_NAMES[parts[2]]}.weight"
        elif parts[0] in _TOP_NAMES:
            new = f"{_TOP_NAMES[parts[0]]}.weight"
        else:
            raise ValueError(f"{source}: tensor {name} has no place in a llama model")
        yield new, np.ascontiguousarray(weight).astype(jnp.dtype(dtype))


def halves(weight: np.ndarray, *, heads: int) -> np.ndarray:
    """Rows of a query or key matrix [heads * hd, d]: from pairs (0, 1), (2, 3), ... to halves (0, hd/2), (1, hd/2 + 1).

    GGUF keeps the two rows that rotate together side by side, Hugging Face half a head apart.
    """
    rows, width = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


def _write_tokenizer(fields: dict[str, Any], folder: Path, *, source: str) -> None:
    """``tokenizer.json`` and its configuration from vocabulary, merges and template in the file."""
    from tokenizers import AddedToken, decoders, pre_tokenizers
    from tokenizers import Tokenizer as Backend
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    kind = (fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise ValueError(f"{source} has a tokenizer of kind {kind}; only ('gpt2', 'smollm') is rebuilt from GGUF")
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    backend = Backend(BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    # Digits one by one, then the usual splitting of byte-level BPE.
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    types = fields["tokenizer.ggml.token_type"]
    control = [token for token, kind_of in zip(tokens, types, strict=True) if kind_of == _CONTROL]
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=tokens[int(fields["tokenizer.ggml.bos_token_id"])],
        eos_token=tokens[int(fields["tokenizer.ggml.eos_token_id"])],
        pad_token=tokens[int(fields.get("tokenizer.ggml.padding_token_id", 0))],
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = fields["tokenizer.chat_template"]
    wrapped.save_pretrained(str(folder))
