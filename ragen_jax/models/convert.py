"""Weights between Hugging Face folders (sharded safetensors) and our parameter tree, without torch.

One leaf is read at a time, layer by layer into a preallocated array that goes to its devices before the next one is
begun: the peak is the model and one stack of layers.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ragen_jax.files import check_new, new_folder
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.generation import GENERATION, generation_fields
from ragen_jax.models.hf_config import hf_fields, read_model_config
from ragen_jax.models.shards import SHARD_BYTES, Shards, write_shards
from ragen_jax.types import Array, Params

DTYPES = ("float32", "bfloat16")
# What a tokenizer needs; a saved model takes them along.
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
)
_EMBEDDING, _HEAD = "model.embed_tokens.weight", "lm_head.weight"
_IGNORED = ("rotary_emb.inv_freq",)  # a buffer of old checkpoints, made anew from the configuration


def load_model(
    folder: str | Path,
    *,
    dtype: str = "float32",
    place: Callable[[str, np.ndarray], Array] | None = None,
) -> tuple[ModelConfig, Params]:
    """Read a model from a Hugging Face folder.

    Args:
      folder: with ``config.json`` and ``model.safetensors`` or its shards and their index.
      dtype: of the parameters, "float32" or "bfloat16"; the files may hold another one.
      place: puts a finished leaf on its devices, given its path such as "layers/query"; by default it becomes an array
        on the default device.

    Returns:
      Shapes and parameters.

    Raises:
      ValueError: see ``read_model_config``; a file that is missing, cut or broken (named, with the tensor), a tensor
        that is missing, unknown, of another shape or not finite, an untied model without an output head, or a tied one
        with a head of its own.
    """
    _check_dtype(dtype)
    folder = Path(folder)
    config = read_model_config(folder)
    files = Shards(folder)
    leaves = _leaves(config)
    # A tensor of two names may have been saved under this one.
    if config.tied and _HEAD in files and _EMBEDDING not in files:
        leaves["embedding"] = leaves["embedding"]._replace(names=(_HEAD,))
    _check_tensors(folder, files, config, leaves)
    place = place or (lambda _, stack: jnp.asarray(stack))
    params: Params = {"layers": {}}
    for path, leaf in leaves.items():
        stack = np.empty((len(leaf.names), *leaf.shape), jnp.dtype(dtype))
        for index, name in enumerate(leaf.names):
            _read_into(stack[index], leaf, files, name)
        if path == "embedding" and config.tied and _HEAD in files:
            _check_head(stack[0], leaf, files)
        section, key = _place(params, path)
        section[key] = place(path, stack if section is not params else stack[0])
    return config, params


def save_model(
    folder: str | Path,
    config: ModelConfig,
    params: Params,
    *,
    tokenizer_folder: str | Path,
    eos_token_id: int,
    pad_token_id: int,
    chat_template: str | None = None,
    dtype: str = "float32",
    shard_bytes: int = SHARD_BYTES,
) -> Path:
    """Write a folder that Hugging Face loads: ``config.json``, safetensors (several above ``shard_bytes``), tokenizer.

    The folder appears when it is complete; what fails leaves nothing behind. Token ids and sampling defaults that stand
    beside the tokenizer go along, see ``models.generation``.

    Args:
      folder: new or empty.
      config: shapes.
      params: parameters; whole arrays on the host or on devices of this process.
      tokenizer_folder: whose tokenizer files go along.
      eos_token_id: token that ends a turn.
      pad_token_id: filling of batches.
      chat_template: Jinja text that takes the place of the tokenizer's own template.
      dtype: of the saved tensors, "float32" or "bfloat16".
      shard_bytes: largest size of one file.

    Returns:
      The folder.

    Raises:
      ValueError: the folder holds something, or the tokenizer's folder has no ``tokenizer.json`` or a broken file.
      OSError: the disk has too little room, or a file cannot be written.
    """
    _check_dtype(dtype)
    folder, tokenizer_folder = Path(folder), Path(tokenizer_folder)
    check_new(folder)
    if not (tokenizer_folder / "tokenizer.json").is_file():
        raise ValueError(f"{tokenizer_folder} has no tokenizer.json to go along with the model")
    ids, generation = generation_fields(tokenizer_folder, eos_token_id=eos_token_id, pad_token_id=pad_token_id)
    fields = hf_fields(config, dtype=dtype, token_ids=ids)
    copied = [name for name in TOKENIZER_FILES if (tokenizer_folder / name).is_file()]
    needed = weight_bytes(config, dtype) + sum((tokenizer_folder / name).stat().st_size for name in copied)
    with new_folder(folder, needed=needed) as draft:
        (draft / "config.json").write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
        (draft / GENERATION).write_text(json.dumps(generation, indent=2) + "\n", encoding="utf-8")
        for name in copied:
            shutil.copyfile(tokenizer_folder / name, draft / name)
        if chat_template is not None:  # transformers reads this file before the template in tokenizer_config.json
            (draft / "chat_template.jinja").write_text(chat_template, encoding="utf-8")
        write_shards(draft, _hf_tensors(config, params, dtype), shard_bytes=shard_bytes)
    return folder


def weight_bytes(config: ModelConfig, dtype: str) -> int:
    """Size of the weights of a model in ``dtype``."""
    return config.parameter_count() * jnp.dtype(dtype).itemsize


def tensor_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor in the files of a model."""
    return {name: leaf.there for leaf in _leaves(config).values() for name in leaf.names}


def _check_dtype(dtype: str) -> None:
    if dtype not in DTYPES:
        raise ValueError(f"dtype={dtype!r}: use {' or '.join(DTYPES)}")


class _Leaf(NamedTuple):
    """One of our parameters and the tensors that it is made of.

    Attributes:
      names: Hugging Face names, one a layer where we stack layers.
      shape: ours, of one layer.
      matrix: (in, out) of one layer as a matrix, which Hugging Face keeps as [out, in]; None for what is kept alike.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    matrix: tuple[int, int] | None = None

    @property
    def there(self) -> tuple[int, ...]:
        """Shape of one tensor in the files."""
        if self.matrix is not None:
            return self.matrix[::-1]
        return self.shape if self.names[0].endswith("weight") else (math.prod(self.shape),)

    def ours(self, tensor: np.ndarray) -> np.ndarray:
        """One tensor of the files as we keep it."""
        return (tensor if self.matrix is None else tensor.T).reshape(self.shape)

    def theirs(self, tensor: np.ndarray) -> np.ndarray:
        """Inverse of ``ours``."""
        return (
            tensor.reshape(self.there) if self.matrix is None else np.ascontiguousarray(tensor.reshape(self.matrix).T)
        )


def _leaves(config: ModelConfig) -> dict[str, _Leaf]:
    """Path of every leaf of the parameter tree, and where it comes from."""
    d, hd, h, kv, f = config.width, config.head_dim, config.heads, config.kv_heads, config.mlp_width

    def layers(name: str, *shape: int, matrix: tuple[int, int] | None = None) -> _Leaf:
        return _Leaf(tuple(f"model.layers.{i}.{name}" for i in range(config.layers)), shape, matrix)

    leaves = {
        "embedding": _Leaf((_EMBEDDING,), (config.vocab_rows, d)),
        "final_norm": _Leaf(("model.norm.weight",), (d,)),
        "layers/attention_norm": layers("input_layernorm.weight", d),
        "layers/query": layers("self_attn.q_proj.weight", d, h, hd, matrix=(d, h * hd)),
        "layers/key": layers("self_attn.k_proj.weight", d, kv, hd, matrix=(d, kv * hd)),
        "layers/value": layers("self_attn.v_proj.weight", d, kv, hd, matrix=(d, kv * hd)),
        "layers/output": layers("self_attn.o_proj.weight", h, hd, d, matrix=(h * hd, d)),
        "layers/mlp_norm": layers("post_attention_layernorm.weight", d),
        "layers/gate": layers("mlp.gate_proj.weight", d, f, matrix=(d, f)),
        "layers/up": layers("mlp.up_proj.weight", d, f, matrix=(d, f)),
        "layers/down": layers("mlp.down_proj.weight", f, d, matrix=(f, d)),
    }
    if not config.tied:
        leaves["head"] = _Leaf((_HEAD,), (config.vocab_rows, d))
    if config.qkv_bias:
        leaves["layers/query_bias"] = layers("self_attn.q_proj.bias", h, hd)
        leaves["layers/key_bias"] = layers("self_attn.k_proj.bias", kv, hd)
        leaves["layers/value_bias"] = layers("self_attn.v_proj.bias", kv, hd)
    if config.qk_norm:
        leaves["layers/query_norm"] = layers("self_attn.q_norm.weight", hd)
        leaves["layers/key_norm"] = layers("self_attn.k_norm.weight", hd)
    return leaves


def _check_tensors(folder: Path, files: Shards, config: ModelConfig, leaves: dict[str, _Leaf]) -> None:
    """Refuse tensors that are missing, that nobody reads, or that are of another shape or type, by their headers."""
    wanted = {name: leaf.there for leaf in leaves.values() for name in leaf.names}
    facts = f"{config.layers} layers, biases {config.qkv_bias}, norms {config.qk_norm}"
    hint = f"does config.json ({facts}) belong to them?"
    missing = sorted(wanted.keys() - files.names())
    if _HEAD in missing:
        raise ValueError(
            f"{folder}: config.json says tie_word_embeddings=false but the files hold no {_HEAD}: the model would have "
            "no output head; set tie_word_embeddings=true if the head is the embedding"
        )
    if missing:
        raise ValueError(f"{folder}: {len(missing)} tensors are missing, first {missing[0]}: {hint}")
    if config.tied and _HEAD in files:
        wanted[_HEAD] = leaves["embedding"].there
    extra = sorted(name for name in files.names() - wanted.keys() if not name.endswith(_IGNORED))
    if extra:
        raise ValueError(f"{folder}: {len(extra)} tensors have no place in the model, first {extra[0]}: {hint}")
    for name, shape in wanted.items():
        files.check(name, shape, model=config.name)


def _read_into(row: np.ndarray, leaf: _Leaf, files: Shards, name: str) -> None:
    with np.errstate(over="ignore"):  # a number that the dtype cannot hold becomes infinite, and is refused as such
        row[...] = leaf.ours(files.read(name))
    if not is_finite(row):
        raise ValueError(
            f"{files.path(name)}: tensor {name} holds NaN or infinity in {row.dtype}: no model can be run with it; use "
            "another checkpoint, or download the file again"
        )


def is_finite(array: np.ndarray) -> bool:
    """True for float32 or bfloat16 numbers that all are finite.

    Read as integers, infinity and NaN are the largest of either sign: two maxima and no copy, which costs a fraction of
    what reading the file does.
    """
    infinity = np.array([np.inf, -np.inf], array.dtype)
    signed, unsigned = (np.dtype(f"{kind}{array.itemsize}") for kind in "iu")
    return bool(
        array.view(signed).max() < infinity.view(signed)[0] and array.view(unsigned).max() < infinity.view(unsigned)[1]
    )


def _check_head(embedding: np.ndarray, leaf: _Leaf, files: Shards) -> None:
    """Refuse a tied model whose files hold an output head that is not the embedding; transformers would read it."""
    head = np.empty_like(embedding)
    _read_into(head, leaf, files, _HEAD)
    if not np.array_equal(head, embedding):
        raise ValueError(
            f"{files.path(_HEAD)}: config.json says tie_word_embeddings=true, but {_HEAD} is not the embedding: set "
            "tie_word_embeddings=false to use that head, or remove the tensor"
        )


def _place(params: Params, path: str) -> tuple[dict[str, Any], str]:
    """The dict that holds a leaf, and its key there."""
    section, _, key = path.rpartition("/")
    return (params[section] if section else params), key


def _hf_tensors(config: ModelConfig, params: Params, dtype: str) -> Iterator[tuple[str, np.ndarray]]:
    """Name and content of every tensor, one at a time."""
    for path, leaf in _leaves(config).items():
        section, key = _place(params, path)
        for index, name in enumerate(leaf.names):
            one = section[key][index] if section is not params else section[key]
            yield name, leaf.theirs(np.asarray(one)).astype(jnp.dtype(dtype))
