"""``config.json`` of a Hugging Face folder, read into a ``ModelConfig`` and written from one.

A field that changes the forward pass is read as transformers 5 reads it, or it is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragen_jax.files import read_json_object
from ragen_jax.models.config import ModelConfig, RopeScaling
from ragen_jax.registry import unknown_name

FAMILIES = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM"}


def read_model_config(folder: str | Path) -> ModelConfig:
    """Shapes of the model in a Hugging Face folder.

    Both spellings of the rotary fields are read: ``rope_theta`` and ``rope_scaling`` at the top, or both inside
    ``rope_parameters``. Where a file has both, ``rope_scaling`` counts, as in transformers.

    Raises:
      ValueError: no ``config.json``, one that is broken, an architecture or a feature that this decoder does not have,
        or a field that is missing or has no usable value.
    """
    folder = Path(folder)
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{folder} has no config.json: give the folder of a Hugging Face model")
    return model_config_from_fields(read_json_object(path), name=folder.resolve().name, source=str(path))


def model_config_from_fields(fields: Mapping[str, Any], *, name: str, source: str) -> ModelConfig:
    """``ModelConfig`` of the content of a ``config.json``.

    Args:
      fields: content of ``config.json``.
      name: name of the model.
      source: where the fields come from, for error messages.

    Raises:
      ValueError: see :func:`read_model_config`.
    """
    family = fields.get("model_type")
    if family not in FAMILIES:
        raise ValueError(f"{source}: {unknown_name('model_type', str(family), FAMILIES)}")
    layers = _whole(fields, "num_hidden_layers", source)
    _refuse(fields, source, family, layers)
    heads = _whole(fields, "num_attention_heads", source)
    # Files from before grouped queries do not state it. Were it something else, the tensors would have other shapes.
    grouped = fields.get("num_key_value_heads") is not None
    kv_heads = _whole(fields, "num_key_value_heads", source) if grouped else heads
    width, mlp_width = _whole(fields, "hidden_size", source), _whole(fields, "intermediate_size", source)
    vocab_rows = _whole(fields, "vocab_size", source)
    # Qwen3 always states it: its default in transformers is 128, whatever the width.
    stated = family == "qwen3" or fields.get("head_dim") is not None
    head_dim = _whole(fields, "head_dim", source) if stated else width // heads
    known_context = fields.get("max_position_embeddings") is not None
    max_context = _whole(fields, "max_position_embeddings", source) if known_context else 0
    theta, scaling = _rope(fields, source)
    norm_eps, tied = _positive(fields, "rms_norm_eps", source), _flag(fields, "tie_word_embeddings", source)
    try:
        return ModelConfig(
            name=name,
            vocab_rows=vocab_rows,
            width=width,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            mlp_width=mlp_width,
            rope_theta=theta,
            rope_scaling=scaling,
            norm_eps=norm_eps,
            tied=tied,
            qkv_bias=family == "qwen2",
            qk_norm=family == "qwen3",
            max_context=max_context,
        )
    except ValueError as error:  # shapes that do not go together
        raise ValueError(f"{source}: {error}") from error


def hf_fields(config: ModelConfig, *, dtype: str, token_ids: Mapping[str, Any]) -> dict[str, Any]:
    """Content of the ``config.json`` that describes a ``ModelConfig`` to Hugging Face.

    Args:
      config: shapes.
      dtype: of the weights.
      token_ids: ``eos_token_id``, ``pad_token_id`` and, where there is one, ``bos_token_id``.

    Raises:
      ValueError: a combination of features that no supported family has.
    """
    features = (config.qkv_bias, config.qk_norm)
    family = {(True, False): "qwen2", (False, True): "qwen3", (False, False): "llama"}.get(features)
    if family is None:
        raise ValueError(f"model {config.name!r} has query/key norms and biases at once; no Hugging Face family does")
    scaling = config.rope_scaling
    rope = (
        None
        if scaling is None
        else {
            "rope_type": "llama3",
            "factor": scaling.factor,
            "low_freq_factor": scaling.low_freq_factor,
            "high_freq_factor": scaling.high_freq_factor,
            "original_max_position_embeddings": scaling.original_context,
        }
    )
    return {
        "architectures": [FAMILIES[family]],
        "model_type": family,
        "vocab_size": config.vocab_rows,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.mlp_width,
        "hidden_act": "silu",
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "rope_scaling": rope,
        "tie_word_embeddings": config.tied,
        "max_position_embeddings": config.max_context or 32_768,
        "attention_bias": False,
        "use_sliding_window": False,
        "dtype": dtype,
        "torch_dtype": dtype,
        "bos_token_id": None,  # without the field, transformers takes 1 for a llama
        **token_ids,
    }


def _needed(fields: Mapping[str, Any], key: str, source: str) -> Any:
    if fields.get(key) is None:
        raise ValueError(f"{source} has no {key}; without it the model cannot be built as it was trained")
    return fields[key]


def _whole(fields: Mapping[str, Any], key: str, source: str) -> int:
    value = _needed(fields, key, source)
    if type(value) is not int or value < 1:
        raise ValueError(f"{source}: {key}={value!r} must be a whole number of 1 or more")
    return value


def _positive(fields: Mapping[str, Any], key: str, source: str) -> float:
    value = _needed(fields, key, source)
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise ValueError(f"{source}: {key}={value!r} must be a number above 0")
    return float(value)


def _flag(fields: Mapping[str, Any], key: str, source: str) -> bool:
    value = fields.get(key)
    if value is not None and type(value) is not bool:
        raise ValueError(f"{source}: {key}={value!r} must be true or false")
    return bool(value)


def _refuse(fields: Mapping[str, Any], source: str, family: str, layers: int) -> None:
    """Features that change the forward pass and that this decoder does not have."""
    # Without a number of tokens, transformers has a window of 4096; with null, none.
    if _flag(fields, "use_sliding_window", source) and fields.get("sliding_window", 4096) is not None:
        raise ValueError(
            f"{source}: use_sliding_window=true is not supported; every layer here reads the whole context: set it to "
            "false only where no context is longer than the window"
        )
    if fields.get("layer_types") not in (None, ["full_attention"] * layers):
        raise ValueError(
            f"{source}: layer_types={fields['layer_types']!r} is not supported, only 'full_attention' for each of the "
            f"{layers} layers"
        )
    for key in ("attention_bias", "mlp_bias"):
        if family != "qwen2" and _flag(fields, key, source):
            raise ValueError(f"{source}: {key}=true is not supported for model_type {family!r}")
    if fields.get("hidden_act", "silu") != "silu":
        raise ValueError(f"{source}: hidden_act={fields['hidden_act']!r} is not supported, only 'silu'")
    if fields.get("quantization_config"):
        raise ValueError(f"{source}: quantised weights are not supported; use the model's ordinary weights")
    if fields.get("transformers_weights") is not None:
        raise ValueError(
            f"{source}: transformers_weights={fields['transformers_weights']!r} is not supported; give the weights "
            "their usual name model.safetensors and remove the field"
        )


def _rope(fields: Mapping[str, Any], source: str) -> tuple[float, RopeScaling | None]:
    """Base and stretch of the rotary positions."""
    key = "rope_scaling" if fields.get("rope_scaling") else "rope_parameters"
    rope = fields.get(key) or {}
    if not isinstance(rope, Mapping) or any(isinstance(value, Mapping) for value in rope.values()):
        raise ValueError(f"{source}: {key}={rope!r} is not supported, only one object of fields for all layers")
    theta = rope.get("rope_theta", fields.get("rope_theta"))
    if theta is None:
        raise ValueError(
            f"{source} has no rope_theta, neither at the top nor in {key}; without it the model cannot be built as it "
            "was trained"
        )
    where = f"{source}: {key}"
    for part in (fields, rope):
        if part.get("partial_rotary_factor") not in (None, 1):
            raise ValueError(
                f"{source}: partial_rotary_factor={part['partial_rotary_factor']!r} is not supported; here heads "
                "rotate as a whole"
            )
    base = _positive({"rope_theta": theta}, "rope_theta", source)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return base, None
    if kind != "llama3":
        raise ValueError(f"{source}: rotary scaling {kind!r} is not supported, only 'default' and 'llama3'")
    # At the top it comes first, as in transformers.
    context = {**rope, **{k: v for k, v in fields.items() if k == "original_max_position_embeddings"}}
    return base, RopeScaling(
        factor=_positive(rope, "factor", where),
        low_freq_factor=_positive(rope, "low_freq_factor", where),
        high_freq_factor=_positive(rope, "high_freq_factor", where),
        original_context=_whole(context, "original_max_position_embeddings", where),
    )
