"""``config.json`` of a Hugging Face folder, read into a ``ModelConfig`` and written from one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragen_jax.models.config import ModelConfig, RopeScaling
from ragen_jax.registry import unknown_name

FAMILIES = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM"}


def read_model_config(folder: str | Path) -> ModelConfig:
    """Shapes of the model in a Hugging Face folder.

    Both spellings of the rotary fields are read: ``rope_theta`` and ``rope_scaling`` at the top, or both inside
    ``rope_parameters``.

    Raises:
      ValueError: no ``config.json``, an architecture or a feature that this decoder does not have, or a missing field.
    """
    folder = Path(folder)
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{folder} has no config.json: give the folder of a Hugging Face model")
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    return model_config_from_fields(fields, name=folder.resolve().name, source=str(path))


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

    def field(key: str) -> Any:
        if fields.get(key) is None:
            raise ValueError(f"{source} has no {key}; without it the model cannot be built as it was trained")
        return fields[key]

    _refuse(fields, source, family)
    heads, width = int(field("num_attention_heads")), int(field("hidden_size"))
    theta, scaling = _rope(fields, source)
    return ModelConfig(
        name=name,
        vocab_rows=int(field("vocab_size")),
        width=width,
        layers=int(field("num_hidden_layers")),
        heads=heads,
        kv_heads=int(field("num_key_value_heads")),
        head_dim=int(fields.get("head_dim") or width // heads),
        mlp_width=int(field("intermediate_size")),
        rope_theta=theta,
        rope_scaling=scaling,
        norm_eps=float(field("rms_norm_eps")),
        tied=bool(fields.get("tie_word_embeddings", False)),
        qkv_bias=family == "qwen2",
        qk_norm=family == "qwen3",
        max_context=int(fields.get("max_position_embeddings") or 0),
    )


def hf_fields(config: ModelConfig, *, dtype: str, eos_token_id: int, pad_token_id: int) -> dict[str, Any]:
    """Content of the ``config.json`` that describes a ``ModelConfig`` to Hugging Face.

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
        "eos_token_id": eos_token_id,
        "pad_token_id": pad_token_id,
        "dtype": dtype,
        "torch_dtype": dtype,
    }


def _refuse(fields: Mapping[str, Any], source: str, family: str) -> None:
    """Features that change the forward pass and that this decoder does not have."""
    if fields.get("use_sliding_window") and fields.get("sliding_window"):
        raise ValueError(
            f"{source}: use_sliding_window=true is not supported; every layer here reads the whole context"
        )
    for key in ("attention_bias", "mlp_bias"):
        if family != "qwen2" and fields.get(key):
            raise ValueError(f"{source}: {key}=true is not supported for model_type {family!r}")
    if fields.get("hidden_act", "silu") != "silu":
        raise ValueError(f"{source}: hidden_act={fields['hidden_act']!r} is not supported, only 'silu'")
    if fields.get("quantization_config"):
        raise ValueError(f"{source}: quantised weights are not supported; use the model's ordinary weights")


def _rope(fields: Mapping[str, Any], source: str) -> tuple[float, RopeScaling | None]:
    """Base and stretch of the rotary positions."""
    nested = fields.get("rope_parameters") or {}
    theta = nested.get("rope_theta", fields.get("rope_theta"))
    if theta is None:
        raise ValueError(f"{source} has no rope_theta, neither at the top nor in rope_parameters")
    scaling = nested or fields.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return float(theta), None
    if kind != "llama3":
        raise ValueError(f"{source}: rotary scaling {kind!r} is not supported, only 'default' and 'llama3'")
    try:
        return float(theta), RopeScaling(
            factor=float(scaling["factor"]),
            low_freq_factor=float(scaling["low_freq_factor"]),
            high_freq_factor=float(scaling["high_freq_factor"]),
            original_context=int(scaling["original_max_position_embeddings"]),
        )
    except KeyError as error:
        raise ValueError(f"{source}: llama3 rotary scaling lacks {error}") from error
