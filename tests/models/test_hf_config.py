"""``config.json``: what is read, in both spellings, and what is refused with its field and value."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ragen_jax.models.config import PRESETS, ModelConfig, RopeScaling, model_config
from ragen_jax.models.hf_config import hf_fields, model_config_from_fields, read_model_config
from tests.models.hf_fixtures import BASE, KINDS, LLAMA3, ROPE_AS_TRANSFORMERS

QWEN = BASE | {"model_type": "qwen2"}
LLAMA = BASE | {"model_type": "llama"}


def _config(fields: dict[str, Any]) -> ModelConfig:
    return model_config_from_fields(fields, name="m", source="config.json")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"model_type": "qwen"}, "did you mean 'qwen2'|did you mean 'qwen3'"),
        ({"model_type": "mamba"}, "unknown model_type 'mamba'"),
        ({"rope_theta": None}, "no rope_theta"),
        ({"rope_theta": "1e6"}, "rope_theta='1e6' must be a number above 0"),
        ({"hidden_size": None}, "no hidden_size"),
        ({"num_attention_heads": 0}, "num_attention_heads=0 must be a whole number"),
        ({"num_attention_heads": "eight"}, "num_attention_heads='eight' must be a whole number"),
        ({"num_key_value_heads": 0}, "num_key_value_heads=0 must be"),
        ({"num_key_value_heads": 3}, r"config\.json: heads=8 must be a multiple of kv_heads=3"),
        ({"num_hidden_layers": -1}, "num_hidden_layers=-1 must be"),
        ({"vocab_size": 160.0}, r"vocab_size=160\.0 must be a whole number"),
        ({"intermediate_size": True}, "intermediate_size=True must be"),
        ({"head_dim": 0}, "head_dim=0 must be"),
        ({"head_dim": 7}, r"config\.json: head_dim=7 must be even"),
        ({"model_type": "qwen3"}, "has no head_dim"),
        ({"max_position_embeddings": "4k"}, "max_position_embeddings='4k' must be"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps=nan must be a number above 0"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings='false' must be true or false"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rotary scaling 'yarn'"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 4.0}}, "rope_scaling has no low_freq_factor"),
        ({"rope_scaling": LLAMA3 | {"factor": None}}, "rope_scaling has no factor"),
        ({"rope_scaling": LLAMA3 | {"factor": -1.0}}, r"rope_scaling: factor=-1\.0 must be"),
        ({"rope_scaling": "llama3"}, "rope_scaling='llama3' is not supported"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}}, r"rope_parameters=\{'full_attention'"),
        ({"partial_rotary_factor": 0.5}, r"partial_rotary_factor=0\.5 is not supported"),
        ({"rope_parameters": {"rope_theta": 1e6, "partial_rotary_factor": 0.5}}, r"partial_rotary_factor=0\.5"),
        ({"model_type": "llama", "mlp_bias": True}, "mlp_bias=true"),
        ({"use_sliding_window": True, "sliding_window": 1024}, "use_sliding_window=true"),
        ({"use_sliding_window": True}, "use_sliding_window=true"),
        ({"layer_types": ["full_attention", "sliding_attention", "full_attention"]}, "layer_types=.*is not supported"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"transformers_weights": "other.safetensors"}, r"transformers_weights='other\.safetensors'"),
    ],
)
def test_what_the_decoder_does_not_have_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        _config(QWEN | fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"use_sliding_window": False, "sliding_window": 1024},
        {"use_sliding_window": True, "sliding_window": None},
        {"layer_types": ["full_attention"] * 3},
        {"partial_rotary_factor": 1.0},
        {"rope_parameters": None, "rope_scaling": None, "head_dim": None},
    ],
)
def test_fields_that_change_nothing_are_read(fields: dict[str, Any]) -> None:
    assert _config(QWEN | fields) == _config(QWEN)


def test_both_spellings_of_the_rotary_fields() -> None:
    old = _config(LLAMA | {"rope_theta": 5e5, "rope_scaling": LLAMA3})
    without = {key: value for key, value in LLAMA.items() if key != "rope_theta"}
    new = _config(without | {"rope_parameters": LLAMA3 | {"rope_theta": 5e5}})
    untyped = {key: value for key, value in LLAMA3.items() if key != "rope_type"}
    older = _config(LLAMA | {"rope_theta": 5e5, "rope_scaling": {"type": "llama3", **untyped}})
    assert old == new == older
    assert old.rope_scaling == RopeScaling(factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context=64)


@pytest.mark.parametrize("name", sorted(ROPE_AS_TRANSFORMERS))
def test_where_a_file_has_both_spellings_the_older_counts(name: str) -> None:
    fields, theta, scaling = ROPE_AS_TRANSFORMERS[name]
    config = _config(LLAMA | fields)
    assert config.rope_theta == theta
    assert config.rope_scaling == (scaling and RopeScaling(**scaling))


def test_a_base_that_only_the_spelling_that_does_not_count_has_is_refused() -> None:
    both = {"rope_theta": None, "rope_parameters": {"rope_theta": 5e5}, "rope_scaling": LLAMA3}
    with pytest.raises(ValueError, match="no rope_theta, neither at the top nor in rope_scaling"):
        _config(LLAMA | both)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"model_type"', r"config\.json is not JSON"),
        (b"\xff\xfe{", r"config\.json is no text in UTF-8"),
        (b"[1]", r"config\.json must hold a JSON object, not a list"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        read_model_config(tmp_path)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_written_fields_are_read_as_the_same_shapes(kind: str) -> None:
    config = _config(KINDS[kind])
    fields = hf_fields(config, dtype="float32", token_ids={"eos_token_id": [1, 2], "pad_token_id": 0})
    assert (fields["bos_token_id"], fields["eos_token_id"], fields["pad_token_id"]) == (None, [1, 2], 0)
    assert _config(json.loads(json.dumps(fields))) == config


def test_norms_and_biases_at_once_have_no_family() -> None:
    with pytest.raises(ValueError, match="norms and biases at once"):
        hf_fields(dataclasses.replace(_config(QWEN), qk_norm=True), dtype="float32", token_ids={})


@pytest.mark.parametrize("name", ["vocab_rows", "width", "layers", "heads", "kv_heads", "head_dim", "mlp_width"])
def test_sizes_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=0 must be 1 or more"):
        dataclasses.replace(model_config("tiny"), **{name: 0})


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("qwen2.5-0.5b", 0.494),
        ("qwen2.5-1.5b", 1.544),
        ("qwen2.5-3b", 3.086),
        ("qwen2.5-7b", 7.616),
        ("qwen2.5-14b", 14.770),
        ("llama-3.2-1b", 1.236),
        ("llama-3.2-3b", 3.213),
    ],
)
def test_presets_have_the_published_sizes(name: str, billions: float) -> None:
    assert model_config(name).parameter_count() / 1e9 == pytest.approx(billions, abs=1e-3)
    assert PRESETS[name].max_context > 0


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("stated", [False, True], ids=["missing", "null"])
def test_without_a_number_of_key_value_heads_every_head_has_its_own(family: str, stated: bool) -> None:
    fields = BASE | {"model_type": family, "head_dim": 16, "num_key_value_heads": None}
    if not stated:
        del fields["num_key_value_heads"]
    assert (_config(fields).heads, _config(fields).kv_heads) == (8, 8)
