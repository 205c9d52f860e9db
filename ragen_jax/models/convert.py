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
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ragen_jax.models.config import ModelConfig
from ragen_jax.models.hf_config import hf_fields, read_model_config
from ragen_jax.types import Array, Params

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
SHARD_BYTES = 4 * 1024**3
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
        that is missing, unknown or of another shape, or an untied model without an output head.
    """
    folder = Path(folder)
    config = read_model_config(folder)
    files = _Shards(folder)
    leaves = _leaves(config)
    _check_names(files, config, {name for leaf in leaves.values() for name in leaf.names})
    place = place or (lambda _, stack: jnp.asarray(stack))
    params: Params = {"layers": {}}
    for path, leaf in leaves.items():
        stack = np.empty((len(leaf.names), *leaf.shape), jnp.dtype(dtype))
        for index, name in enumerate(leaf.names):
            tensor = files.read(name)
            if tensor.shape != leaf.there:
                raise ValueError(f"tensor {name} has shape {tensor.shape}, model {config.name!r} needs {leaf.there}")
            stack[index] = leaf.ours(tensor)
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

    Args:
      folder: new or empty.
      config: shapes.
      params: parameters; whole arrays on the host or on devices of this process.
      tokenizer_folder: whose tokenizer files go along.
      eos_token_id: token that ends a turn.
      pad_token_id: filling of batches.
      chat_template: Jinja text that takes the place of the tokenizer's own template.
      dtype: of the saved tensors.
      shard_bytes: largest size of one file.

    Returns:
      The folder.

    Raises:
      ValueError: the folder holds something, or the tokenizer's folder has no ``tokenizer.json``.
    """
    folder, tokenizer_folder = Path(folder), Path(tokenizer_folder)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty: name a new folder")
    if not (tokenizer_folder / "tokenizer.json").is_file():
        raise ValueError(f"{tokenizer_folder} has no tokenizer.json to go along with the model")
    folder.mkdir(parents=True, exist_ok=True)
    fields = hf_fields(config, dtype=dtype, eos_token_id=eos_token_id, pad_token_id=pad_token_id)
    (folder / "config.json").write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
    generation = {"eos_token_id": eos_token_id, "pad_token_id": pad_token_id}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n", encoding="utf-8")
    for name in TOKENIZER_FILES:
        if (tokenizer_folder / name).is_file():
            shutil.copyfile(tokenizer_folder / name, folder / name)
    if chat_template is not None:  # transformers reads this file before the template in tokenizer_config.json
        (folder / "chat_template.jinja").write_text(chat_template, encoding="utf-8")
    write_shards(folder, _hf_tensors(config, params, dtype), shard_bytes=shard_bytes)
    return folder


class _Shards:
    """The tensors of a folder by name; files are opened as they are needed."""

    def __init__(self, folder: Path) -> None:
        index = folder / INDEX
        if index.is_file():
            try:
                self.where = {str(k): folder / str(v) for k, v in json.loads(index.read_text())["weight_map"].items()}
            except (json.JSONDecodeError, KeyError, AttributeError) as error:
                raise ValueError(f"{index} is no index of safetensors shards: {error}") from error
        elif (folder / SINGLE).is_file():
            with _opened(folder / SINGLE) as file:
                self.where = dict.fromkeys(file.keys(), folder / SINGLE)
        else:
            raise ValueError(f"{folder} has neither {SINGLE} nor {INDEX}: download the safetensors files of the model")
        for path in sorted(set(self.where.values())):
            if not path.is_file():
                raise ValueError(f"{index} names {path.name}, which is not in {folder}: download it again")

    def read(self, name: str) -> np.ndarray:
        """One tensor."""
        path = self.where[name]
        with _opened(path) as file:
            try:
                tensor: np.ndarray = file.get_tensor(name)
            except SafetensorError as error:
                raise ValueError(f"{path}: tensor {name} cannot be read ({error}): download the file again") from error
        return tensor


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="numpy")
    except SafetensorError as error:
        size = path.stat().st_size
        raise ValueError(f"{path} ({size} bytes) is cut or broken ({error}): download the file again") from error


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
        "embedding": _Leaf(("model.embed_tokens.weight",), (config.vocab_rows, d)),
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
        leaves["head"] = _Leaf(("lm_head.weight",), (config.vocab_rows, d))
    if config.qkv_bias:
        leaves["layers/query_bias"] = layers("self_attn.q_proj.bias", h, hd)
        leaves["layers/key_bias"] = layers("self_attn.k_proj.bias", kv, hd)
        leaves["layers/value_bias"] = layers("self_attn.v_proj.bias", kv, hd)
    if config.qk_norm:
        leaves["layers/query_norm"] = layers("self_attn.q_norm.weight", hd)
        leaves["layers/key_norm"] = layers("self_attn.k_norm.weight", hd)
    return leaves


def _check_names(files: _Shards, config: ModelConfig, names: set[str]) -> None:
    missing = sorted(names - set(files.where))
    if "lm_head.weight" in missing:
        raise ValueError(
            "config.json says tie_word_embeddings=false but the files hold no lm_head.weight: the model would have no "
            "output head; set tie_word_embeddings=true if the head is the embedding"
        )
    if missing:
        raise ValueError(f"{len(missing)} tensors are missing, first {missing[0]}: {_hint(config)}")
    redundant = {"lm_head.weight"} if config.tied else set()  # some tied checkpoints hold the head twice
    extra = sorted(
        name for name in set(files.where) - names - redundant if not any(name.endswith(end) for end in _IGNORED)
    )
    if extra:
        raise ValueError(f"{len(extra)} tensors have no place in the model, first {extra[0]}: {_hint(config)}")


def _hint(config: ModelConfig) -> str:
    return (
        f"does config.json ({config.layers} layers, biases {config.qkv_bias}, norms {config.qk_norm}) belong to them?"
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


def write_shards(folder: Path, tensors: Iterator[tuple[str, np.ndarray]], *, shard_bytes: int = SHARD_BYTES) -> None:
    """Write tensors as they come: one file where everything fits, else numbered shards and their index."""
    shards: list[tuple[Path, list[str]]] = []
    pending: dict[str, np.ndarray] = {}
    size = total = 0

    def flush() -> None:
        path = folder / f"shard-{len(shards):05d}.part"
        save_file(pending, path, metadata={"format": "pt"})
        shards.append((path, list(pending)))
        pending.clear()

    for name, tensor in tensors:
        if pending and size + tensor.nbytes > shard_bytes:
            flush()
            size = 0
        pending[name] = tensor
        size += tensor.nbytes
        total += tensor.nbytes
    flush()
    if len(shards) == 1:
        shards[0][0].rename(folder / SINGLE)
        return
    where: dict[str, str] = {}
    for number, (path, names) in enumerate(shards, start=1):
        final = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        path.rename(folder / final)
        where |= dict.fromkeys(names, final)
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
