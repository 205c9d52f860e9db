"""Checkpoints of Hugging Face: recorded logits, the way back, and files that are wrong."""

from __future__ import annotations

import dataclasses
import functools
import json
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from ragen_jax.models.convert import is_finite, load_model, save_model
from ragen_jax.models.hf_config import read_model_config
from ragen_jax.models.transformer import init_params
from ragen_jax.models.value_head import init_critic
from ragen_jax.rollout.tokenizer import TINY_FOLDER
from tests.models.hf_fixtures import (
    KINDS,
    largest_file,
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
        drawn = jax.eval_shape(functools.partial(init_params, config), jax.random.key(0))
        assert jax.tree.map(np.shape, params) == jax.tree.map(lambda leaf: leaf.shape, drawn)
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


def _add_head(change: Any) -> Any:
    return lambda w: w.update({"lm_head.weight": change(w["model.embed_tokens.weight"])})


def test_tied_with_the_head_again_loads_and_untied_without_one_does_not(tmp_path: Path) -> None:
    tied = random_checkpoint(tmp_path / "tied", "qwen2_tied")
    _spoil(tied, _add_head(np.copy))
    assert "head" not in load_model(tied)[1]
    untied = random_checkpoint(tmp_path / "untied", "qwen2_untied")
    with pytest.raises(ValueError, match=r"no lm_head\.weight"):
        load_model(_spoil(untied, lambda w: w.pop("lm_head.weight")))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda e: 2 * e, r"lm_head\.weight is not the embedding: set tie_word_embeddings=false"),
        (lambda e: e[:3, :3].copy(), r"lm_head\.weight has shape \(3, 3\), model 'm' needs \(160, 64\)"),
        (lambda e: e * np.nan, r"lm_head\.weight holds NaN"),
    ],
)
def test_tied_with_another_head_is_refused(tmp_path: Path, change: Any, sentence: str, dtype: str) -> None:
    tied = _spoil(random_checkpoint(tmp_path / "m", "qwen2_tied"), _add_head(change))
    with pytest.raises(ValueError, match=sentence):
        load_model(tied, dtype=dtype)


def test_a_tied_embedding_may_be_saved_under_the_name_of_the_head(tmp_path: Path) -> None:
    tied = random_checkpoint(tmp_path / "tied", "qwen2_tied")
    before = load_model(tied)[1]
    _spoil(tied, lambda w: w.update({"lm_head.weight": w.pop("model.embed_tokens.weight")}))
    np.testing.assert_array_equal(load_model(tied)[1]["embedding"], before["embedding"])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_weights_that_are_not_finite_are_named(tmp_path: Path, value: float, dtype: str) -> None:
    name = "model.layers.1.mlp.up_proj.weight"

    def change(weights: dict[str, np.ndarray]) -> None:
        weights[name] = weights[name].astype(np.float64)
        weights[name][3, 5] = value

    folder = _spoil(random_checkpoint(tmp_path / "m", "qwen2_tied"), change)
    with pytest.raises(ValueError, match=rf"model\.safetensors: tensor {name} holds NaN or infinity in {dtype}"):
        load_model(folder, dtype=dtype)


@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8), kind=st.sampled_from(["float32", "bfloat16"]))
@settings(max_examples=100, deadline=None)
def test_is_finite_says_what_numpy_says(bits: list[int], kind: str) -> None:
    size = jnp.dtype(kind).itemsize
    numbers = (np.array(bits, np.uint64) >> (32 - 8 * size)).astype(f"u{size}").view(jnp.dtype(kind))
    assert is_finite(numbers) == np.isfinite(numbers.astype(np.float64)).all()


@pytest.mark.parametrize("dtype", ["float16", "int8", "junk"])
def test_other_dtypes_are_refused(tmp_path: Path, dtype: str) -> None:
    folder = random_checkpoint(tmp_path / "m", "qwen2_tied")
    with pytest.raises(ValueError, match=f"dtype='{dtype}': use float32 or bfloat16"):
        load_model(folder, dtype=dtype)
    with pytest.raises(ValueError, match=f"dtype='{dtype}': use float32 or bfloat16"):
        _save(tmp_path / "saved", folder, dtype=dtype)


def test_cut_and_missing_files_are_named(tmp_path: Path) -> None:
    cut = random_checkpoint(tmp_path / "cut", "qwen2_tied") / "model.safetensors"
    cut.write_bytes(cut.read_bytes()[:-1000])
    with pytest.raises(ValueError, match=r"model\.safetensors \(\d+ bytes\) is cut or broken"):
        load_model(cut.parent)
    shards = _save(tmp_path / "shards", random_checkpoint(tmp_path / "whole", "qwen2_tied"), shard_bytes=50_000)
    gone = sorted(shards.glob("model-*"))[1]
    gone.unlink()
    with pytest.raises(ValueError, match=f"names '{gone.name}', which is no file of"):
        load_model(shards)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match=r"no config\.json"):
        load_model(empty)
    (empty / "config.json").write_text(json.dumps(KINDS["qwen2_tied"]))
    with pytest.raises(ValueError, match=r"neither model\.safetensors nor"):
        load_model(empty)


def test_a_critic_begins_from_a_copy_of_the_policy(tmp_path: Path) -> None:
    config, params = load_model(random_checkpoint(tmp_path / "m", "qwen2_tied"))
    critic = init_critic(config, jax.random.key(0), decoder=params)
    np.testing.assert_array_equal(critic["decoder"]["embedding"], params["embedding"])
    assert critic["decoder"]["embedding"] is not params["embedding"]
    assert not critic["value"]["weight"].any()


def test_a_full_folder_is_not_written_over(tmp_path: Path) -> None:
    source = random_checkpoint(tmp_path / "m", "qwen2_tied")
    with pytest.raises(ValueError, match="is not empty"):
        _save(source, source)


def test_a_disk_that_fills_up_leaves_nothing_and_the_same_call_works_again(tmp_path: Path) -> None:
    source = random_checkpoint(tmp_path / "source", "qwen2_tied")
    with largest_file(300_000), pytest.raises(OSError, match="cannot be written") as error:
        _save(tmp_path / "saved", source)
    assert isinstance(error.value.filename, str)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
    assert load_model(_save(tmp_path / "saved", source))[0].layers == 3


def test_too_little_room_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random_checkpoint(tmp_path / "source", "qwen2_tied")
    config, _ = load_model(source)
    size = 4 * config.parameter_count() + sum(path.stat().st_size for path in TINY_FOLDER.glob("*.json"))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=size - 1))
    with pytest.raises(OSError, match=f"needs {size} bytes, the disk has {size - 1} free"):
        _save(tmp_path / "saved", source)
    assert not (tmp_path / "saved").exists()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=size))
    assert _save(tmp_path / "saved", source).is_dir()


def test_a_folder_from_hugging_face_that_goes_back_keeps_its_ids_and_defaults(tmp_path: Path) -> None:
    source = random_checkpoint(tmp_path / "source", "qwen2_tied")
    shutil.copytree(TINY_FOLDER, source, dirs_exist_ok=True)
    fields = json.loads((source / "config.json").read_text()) | {"bos_token_id": 5, "eos_token_id": [7, 8]}
    (source / "config.json").write_text(json.dumps(fields))
    defaults = {"bos_token_id": 5, "pad_token_id": 9, "eos_token_id": [7, 8, 1], "temperature": 0.7, "top_k": 20}
    (source / "generation_config.json").write_text(json.dumps(defaults))
    config, params = load_model(source)
    saved = source
    for name in ("once", "twice"):
        saved = save_model(tmp_path / name, config, params, tokenizer_folder=saved, eos_token_id=1, pad_token_id=0)
    assert json.loads((saved / "generation_config.json").read_text()) == defaults
    written = json.loads((saved / "config.json").read_text())
    assert (written["bos_token_id"], written["eos_token_id"], written["pad_token_id"]) == (5, [1, 7, 8], 0)
