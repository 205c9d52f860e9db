"""Checkpoints of Hugging Face: recorded logits, the way back, and files that are wrong."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ragen_jax.models.config import PRESETS, RopeScaling, model_config
from ragen_jax.models.convert import load_model, save_model
from ragen_jax.models.hf_config import model_config_from_fields, read_model_config
from ragen_jax.models.transformer import init_params
from ragen_jax.models.value_head import init_critic
from ragen_jax.rollout.tokenizer import TINY_FOLDER
from tests.models.hf_fixtures import (
    BASE,
    KINDS,
    LLAMA3,
    our_logits,
    random_checkpoint,
    some_tokens,
    tensors,
    write_checkpoint,
)

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "hf_logits.json").read_text(encoding="utf-8"))
PROMPT = 30


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_recorded_logits_of_transformers(tmp_path: Path, kind: str) -> None:
    config, params = load_model(random_checkpoint(tmp_path / kind, kind))
    ours = our_logits(config, params, some_tokens(), prompt=PROMPT, pad=2)
    positions = np.asarray(GOLDEN["positions"]) - (PROMPT - 1)
    np.testing.assert_allclose(ours[:, positions][:, :, GOLDEN["ids"]], GOLDEN["logits"][kind], atol=2e-5, rtol=0)


@pytest.mark.parametrize("spoiled", [{"rope_theta": 1e4}, {"rope_scaling": None}, {"norm_eps": 1e-3}])
def test_recorded_logits_see_a_wrong_model(tmp_path: Path, spoiled: dict[str, Any]) -> None:
    config, params = load_model(random_checkpoint(tmp_path / "m", "llama3_scaled"))
    ours = our_logits(dataclasses.replace(config, **spoiled), params, some_tokens(), prompt=PROMPT)
    positions = np.asarray(GOLDEN["positions"]) - (PROMPT - 1)
    assert np.abs(ours[:, positions][:, :, GOLDEN["ids"]] - GOLDEN["logits"]["llama3_scaled"]).max() > 2e-3


def _save(folder: Path, source: Path, **options: Any) -> Path:
    config, params = load_model(source)
    return save_model(folder, config, params, tokenizer_folder=TINY_FOLDER, eos_token_id=1, pad_token_id=0, **options)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("shard_bytes", [10_000, 10**9])
def test_saved_tensors_are_the_loaded_ones(tmp_path: Path, kind: str, shard_bytes: int) -> None:
    source = random_checkpoint(tmp_path / "source", kind)
    saved = _save(tmp_path / "saved", source, shard_bytes=shard_bytes)
    assert (len(list(saved.glob("*.safetensors"))) > 1) == (shard_bytes < 10**6)
    found: dict[str, np.ndarray] = {}
    for file in saved.glob("*.safetensors"):
        found |= load_file(file)
    expected = tensors(KINDS[kind], seed=0)
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name], tensor)
    assert (saved / "tokenizer.json").is_file()
    before, after = read_model_config(source), read_model_config(saved)
    assert dataclasses.replace(after, name=before.name) == before


def test_bfloat16_in_and_out(tmp_path: Path) -> None:
    halves = {name: tensor.astype(ml_dtypes.bfloat16) for name, tensor in tensors(KINDS["qwen3"], seed=3).items()}
    folder = write_checkpoint(tmp_path / "half", KINDS["qwen3"], halves)
    _, params = load_model(folder)
    assert params["layers"]["query"].dtype == jnp.float32
    np.testing.assert_array_equal(params["embedding"], halves["model.embed_tokens.weight"].astype(np.float32))
    saved = _save(tmp_path / "saved", folder, dtype="bfloat16")
    np.testing.assert_array_equal(
        load_file(saved / "model.safetensors")["model.norm.weight"], halves["model.norm.weight"]
    )


def test_leaves_have_the_shapes_of_random_parameters(tmp_path: Path) -> None:
    for kind in KINDS:
        config, params = load_model(random_checkpoint(tmp_path / kind, kind))
        drawn = init_params(config, jax.random.key(0))
        assert jax.tree.map(np.shape, params) == jax.tree.map(np.shape, drawn)
        assert config.parameter_count() == sum(leaf.size for leaf in jax.tree.leaves(params))


def test_leaves_are_placed_one_by_one(tmp_path: Path) -> None:
    placed: list[str] = []

    def place(path: str, leaf: np.ndarray) -> jax.Array:
        placed.append(path)
        return jnp.asarray(leaf)

    _, params = load_model(random_checkpoint(tmp_path / "m", "qwen2_untied"), place=place)
    assert sorted(placed) == sorted(["embedding", "final_norm", "head", *(f"layers/{key}" for key in params["layers"])])


def _spoil(folder: Path, change: Any) -> Path:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda w: w.pop("model.layers.1.mlp.up_proj.weight"),
            r"missing, first model\.layers\.1\.mlp\.up_proj\.weight",
        ),
        (lambda w: w.update({"model.extra": np.zeros(2, np.float32)}), r"no place in the model, first model\.extra"),
        (
            lambda w: w.update({"model.norm.weight": np.zeros(3, np.float32)}),
            r"tensor model\.norm\.weight has shape \(3,\), model 'm' needs \(64,\)",
        ),
    ],
)
def test_wrong_tensors_are_named(tmp_path: Path, change: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        load_model(_spoil(random_checkpoint(tmp_path / "m", "qwen2_tied"), change))


def test_tied_with_a_head_loads_and_untied_without_one_does_not(tmp_path: Path) -> None:
    tied = random_checkpoint(tmp_path / "tied", "qwen2_tied")
    _spoil(tied, lambda w: w.update({"lm_head.weight": w["model.embed_tokens.weight"].copy()}))
    assert "head" not in load_model(tied)[1]
    untied = random_checkpoint(tmp_path / "untied", "qwen2_untied")
    with pytest.raises(ValueError, match=r"no lm_head\.weight"):
        load_model(_spoil(untied, lambda w: w.pop("lm_head.weight")))


def test_cut_and_missing_files_are_named(tmp_path: Path) -> None:
    cut = random_checkpoint(tmp_path / "cut", "qwen2_tied") / "model.safetensors"
    cut.write_bytes(cut.read_bytes()[:-1000])
    with pytest.raises(ValueError, match=r"model\.safetensors \(\d+ bytes\) is cut or broken"):
        load_model(cut.parent)
    shards = _save(tmp_path / "shards", random_checkpoint(tmp_path / "whole", "qwen2_tied"), shard_bytes=50_000)
    gone = sorted(shards.glob("model-*"))[1]
    gone.unlink()
    with pytest.raises(ValueError, match=f"names {gone.name}, which is not in"):
        load_model(shards)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match=r"no config\.json"):
        load_model(empty)
    (empty / "config.json").write_text(json.dumps(KINDS["qwen2_tied"]))
    with pytest.raises(ValueError, match=r"neither model\.safetensors nor"):
        load_model(empty)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"model_type": "qwen"}, "did you mean 'qwen2'|did you mean 'qwen3'"),
        ({"model_type": "mamba"}, "unknown model_type 'mamba'"),
        ({"rope_theta": None}, "no rope_theta"),
        ({"hidden_size": None}, "no hidden_size"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rotary scaling 'yarn'"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 4.0}}, "lacks 'low_freq_factor'"),
        ({"model_type": "llama", "mlp_bias": True}, "mlp_bias=true"),
        ({"use_sliding_window": True, "sliding_window": 1024}, "use_sliding_window"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
    ],
)
def test_what_the_decoder_does_not_have_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        model_config_from_fields(BASE | {"model_type": "qwen2"} | fields, name="m", source="config.json")


def test_both_spellings_of_the_rotary_fields() -> None:
    llama = BASE | {"model_type": "llama"}
    old = model_config_from_fields(llama | {"rope_theta": 5e5, "rope_scaling": LLAMA3}, name="m", source="-")
    new = model_config_from_fields(
        {key: value for key, value in llama.items() if key != "rope_theta"}
        | {"rope_parameters": LLAMA3 | {"rope_theta": 5e5}},
        name="m",
        source="-",
    )
    older = model_config_from_fields(
        llama
        | {
            "rope_theta": 5e5,
            "rope_scaling": {"type": "llama3", **{k: v for k, v in LLAMA3.items() if k != "rope_type"}},
        },
        name="m",
        source="-",
    )
    assert old == new == older
    assert old.rope_scaling == RopeScaling(factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context=64)


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


def test_a_full_folder_is_not_written_over(tmp_path: Path) -> None:
    source = random_checkpoint(tmp_path / "m", "qwen2_tied")
    with pytest.raises(ValueError, match="is not empty"):
        _save(source, source)


def test_a_critic_begins_from_a_copy_of_the_policy(tmp_path: Path) -> None:
    config, params = load_model(random_checkpoint(tmp_path / "m", "qwen2_tied"))
    critic = init_critic(config, jax.random.key(0), decoder=params)
    np.testing.assert_array_equal(critic["decoder"]["embedding"], params["embedding"])
    assert critic["decoder"]["embedding"] is not params["embedding"]
    assert not critic["value"]["weight"].any()
