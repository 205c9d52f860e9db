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

from ragen_jax.files import check_new, new_folder
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.convert import tensor_shapes, weight_bytes
from ragen_jax.models.generation import GENERATION
from ragen_jax.models.hf_config import hf_fields
from ragen_jax.models.shards import write_shards

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
      ValueError: another architecture, a rotary stretch or a pre-tokenizer that is not known, a broken file, a field or
        a tensor that is missing, unknown or of another shape, or a folder that is not empty.
      OSError: the disk has too little room, or a file cannot be written.
    """
    path, folder = Path(path), Path(folder)
    check_new(folder)
    fields, tensors = _open(path)
    config = _model_config(fields, tied="output.weight" not in tensors)
    names = _hf_names(tensors, config, source=str(path))
    tokenizer = _tokenizer(fields)
    ids = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    record = hf_fields(config, dtype=dtype, token_ids=ids)
    with new_folder(folder, needed=weight_bytes(config, dtype)) as draft:
        (draft / "config.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        (draft / GENERATION).write_text(json.dumps(ids, indent=2) + "\n", encoding="utf-8")
        tokenizer.save_pretrained(str(draft))
        write_shards(draft, _weights(tensors, names, config, dtype, source=str(path)))
    return folder


class _Fields:
    """Header of a GGUF file; a field that is missing or of another type is named with the file."""

    def __init__(self, content: dict[str, Any], *, source: str) -> None:
        self.content = content
        self.source = source

    def whole(self, name: str, default: int | None = None) -> int:
        return int(self._read(name, default, int))

    def number(self, name: str) -> float:
        return float(self._read(name, None, int, float))

    def text(self, name: str) -> str:
        return str(self._read(name, None, str))

    def items(self, name: str) -> list[Any]:
        return list(self._read(name, None, list))

    def _read(self, name: str, default: Any, *kinds: type) -> Any:
        value = self.content.get(name, default)
        if not isinstance(value, kinds):
            found = "no such field" if value is None else f"{str(value)[:40]!r}"
            raise ValueError(
                f"{self.source}: {name} must be {' or '.join(kind.__name__ for kind in kinds)}, found {found}: load "
                "the model's Hugging Face folder instead"
            )
        return value


def _open(path: Path) -> tuple[_Fields, dict[str, Any]]:
    """Header and tensors by name."""
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "reading GGUF needs the extra realmodel: pip install 'ragen_jax[realmodel]'"
        ) from error
    if not path.is_file():
        raise ValueError(f"{path} is no file: name a GGUF file")
    try:
        reader = GGUFReader(path)
        content = {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, IndexError, KeyError) as error:
        raise ValueError(f"{path} is no complete GGUF file: {error}") from error
    return _Fields(content, source=str(path)), {tensor.name: tensor for tensor in reader.tensors}


def _model_config(fields: _Fields, *, tied: bool) -> ModelConfig:
    source, content = fields.source, fields.content
    architecture = content.get("general.architecture")
    if architecture != "llama":
        raise ValueError(f"{source} holds architecture {architecture!r}; only 'llama' is read from GGUF")
    if content.get("llama.rope.scaling.type", "none") != "none":
        raise ValueError(f"{source} stretches its rotary positions; load the model's Hugging Face folder instead")
    heads, width = fields.whole("llama.attention.head_count"), fields.whole("llama.embedding_length")
    head_dim = fields.whole("llama.attention.key_length", width // max(heads, 1))
    for name in ("llama.rope.dimension_count", "llama.attention.value_length"):
        if content.get(name, head_dim) != head_dim:
            raise ValueError(f"{source}: {name}={content[name]} is not supported, only the width of a head, {head_dim}")
    vocab_rows, layers = len(fields.items("tokenizer.ggml.tokens")), fields.whole("llama.block_count")
    kv_heads, mlp_width = fields.whole("llama.attention.head_count_kv"), fields.whole("llama.feed_forward_length")
    max_context, theta = fields.whole("llama.context_length", 0), fields.number("llama.rope.freq_base")
    norm_eps = np.float32(fields.number("llama.attention.layer_norm_rms_epsilon"))
    try:
        return ModelConfig(
            name=str(content.get("general.basename", Path(source).stem)),
            vocab_rows=vocab_rows,
            width=width,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            mlp_width=mlp_width,
            rope_theta=theta,
            # The file keeps float32; the shortest decimal with that value is what the model was trained with.
            norm_eps=float(str(norm_eps)),
            tied=tied,
            qkv_bias=False,
            max_context=max_context,
        )
    except ValueError as error:  # shapes that do not go together
        raise ValueError(f"{source}: {error}") from error


def _hf_names(tensors: dict[str, Any], config: ModelConfig, *, source: str) -> dict[str, str]:
    """Hugging Face name of every tensor; together they are the model, each in its shape."""
    wanted = tensor_shapes(config)
    names: dict[str, str] = {}
    for name, tensor in tensors.items():
        new = _hf_name(name)
        if new not in wanted:
            raise ValueError(
                f"{source}: tensor {name} has no place in a llama model of {config.layers} layers: load the model's "
                "Hugging Face folder instead"
            )
        if _shape(tensor) != wanted[new]:
            raise ValueError(
                f"{source}: tensor {name} has shape {_shape(tensor)}, its header needs {wanted[new]}: download the "
                "file again"
            )
        names[name] = new
    missing = sorted(wanted.keys() - set(names.values()))
    if missing:
        raise ValueError(f"{source}: {len(missing)} tensors are missing, first {missing[0]}: download the file again")
    return names


def _hf_name(name: str) -> str | None:
    """Hugging Face name of a weight, None for a tensor that a llama model does not have."""
    match name.split("."):
        case [kind, "weight"] if kind in _TOP_NAMES:
            return f"{_TOP_NAMES[kind]}.weight"
        case ["blk", layer, part, "weight"] if part in _LAYER_NAMES:
            return f"model.layers.{layer}.{_LAYER_NAMES[part]}.weight"
    return None


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in tensor.shape[::-1])


def _weights(
    tensors: dict[str, Any], names: dict[str, str], config: ModelConfig, dtype: str, *, source: str
) -> Iterator[tuple[str, np.ndarray]]:
    import jax.numpy as jnp
    from gguf import dequantize

    heads = {"q_proj": config.heads, "k_proj": config.kv_heads}
    for name, tensor in tensors.items():
        try:
            weight = dequantize(tensor.data, tensor.tensor_type).reshape(_shape(tensor))
        except NotImplementedError as error:
            raise ValueError(f"{source}: tensor {name} cannot be read: {error}; take a file of another kind") from error
        projection = names[name].split(".")[-2]
        if projection in heads:
            weight = halves(weight, heads=heads[projection])
        yield names[name], np.ascontiguousarray(weight).astype(jnp.dtype(dtype))


def halves(weight: np.ndarray, *, heads: int) -> np.ndarray:
    """Rows of a query or key matrix [heads * hd, d]: from pairs (0, 1), (2, 3), ... to halves (0, hd/2), (1, hd/2 + 1).

    GGUF keeps the two rows that rotate together side by side, Hugging Face half a head apart.
    """
    rows, width = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


def _tokenizer(fields: _Fields) -> Any:
    """The fast tokenizer of transformers from vocabulary, merges and template in the file."""
    from tokenizers import AddedToken, decoders, pre_tokenizers
    from tokenizers import Tokenizer as Backend
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    source, kind = fields.source, tuple(fields.content.get(f"tokenizer.ggml.{part}") for part in ("model", "pre"))
    if kind != ("gpt2", "smollm"):
        raise ValueError(f"{source} has a tokenizer of kind {kind}; only ('gpt2', 'smollm') is rebuilt from GGUF")
    tokens: list[str] = fields.items("tokenizer.ggml.tokens")
    types, merges = fields.items("tokenizer.ggml.token_type"), fields.items("tokenizer.ggml.merges")
    vocab = {token: index for index, token in enumerate(tokens)}
    pairs = [tuple(merge.split(" ")) for merge in merges]
    strange = next((pair for pair in pairs if len(pair) != 2 or "".join(pair) not in vocab), None)
    if len(types) != len(tokens) or strange is not None:
        raise ValueError(
            f"{source} has a broken tokenizer ({len(tokens)} tokens, {len(types)} token types, first merge without a "
            f"token: {strange}): download the file again"
        )

    def token(name: str, default: int | None = None) -> str:
        index = fields.whole(f"tokenizer.ggml.{name}", default)
        if not 0 <= index < len(tokens):
            raise ValueError(f"{source}: tokenizer.ggml.{name}={index} is none of the {len(tokens)} tokens")
        return tokens[index]

    backend = Backend(BPE(vocab=vocab, merges=pairs))
    # Digits one by one, then the usual splitting of byte-level BPE.
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    control = [text for text, kind_of in zip(tokens, types, strict=True) if kind_of == _CONTROL]
    backend.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in control])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=token("bos_token_id"),
        eos_token=token("eos_token_id"),
        pad_token=token("padding_token_id", 0),
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = fields.text("tokenizer.chat_template")
    return wrapped
